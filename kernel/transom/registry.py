"""What plugins register of which a kernel has one each: operations by name, services by Protocol, the store, the engine."""

from collections.abc import Iterable, Mapping
from typing import Any

from transom_hookspecs import Operation, TransomError

from .dispatch import Hooks
from .table import OWN_OPERATIONS


def operations(hooks: Hooks) -> tuple[Mapping[str, Operation], Mapping[str, str]]:
    """The table of operations, and which plugin each one is of (the kernel's own are of none)."""
    found = {operation.name: operation for operation in OWN_OPERATIONS}
    plugins: dict[str, str] = {}
    for plugin, operation in hooks.collect("register_operations"):
        if operation.name in found:
            raise TransomError(
                "failed_precondition", f"plugin {plugin!r} registers operation {operation.name!r}, which is there already"
            )
        check_command(operation, found.values())
        found[operation.name] = operation
        plugins[operation.name] = plugin
    return found, plugins


def check_command(operation: Operation, others: Iterable[Operation]) -> None:
    """A command is of one operation, and none is also a group of others."""
    words = f"{operation.command} "
    for other in others if operation.command else ():
        theirs = f"{other.command} "
        if other.command and (words.startswith(theirs) or theirs.startswith(words)):
            whose = f"{other.command!r} of {other.name!r}"
            raise TransomError(
                "failed_precondition", f"operation {operation.name!r}: command {operation.command!r} collides with {whose}"
            )


def services(hooks: Hooks) -> Mapping[object, object]:
    """The provider of each service."""
    found: dict[object, object] = {}
    for plugin, service in hooks.collect("register_services"):
        if service.protocol in found:
            raise TransomError(
                "failed_precondition",
                f"plugin {plugin!r} offers the service {service.protocol.__name__}, and another plugin does; block one",
            )
        found[service.protocol] = service.provider
    return found


def chosen(hooks: Hooks, hook: str, wanted: str, what: str) -> Any:
    """The one that is used of several: the one that the setting names, or the only one; None when there is none."""
    offers = {each.name: each for _, each in hooks.collect(hook)}
    if wanted:
        if wanted not in offers:
            known = ", ".join(sorted(offers)) or "none"
            raise TransomError("failed_precondition", f"{what} = {wanted!r}: no plugin registers it; there are: {known}")
        return offers[wanted]
    if len(offers) > 1:
        raise TransomError(
            "failed_precondition", f'there are several: {", ".join(sorted(offers))}; set {what} = "…" in transom.toml'
        )
    return next(iter(offers.values()), None)

"""`transom hooks` and `transom operations`: the contract, and what implements it here."""

import click
import msgspec

from transom_cli.clicks import Command, launcher_of
from transom_cli.options import json_option
from transom_cli.screen import print_json, table
from transom_hookspecs import Operation


@click.command(cls=Command, examples=("transom hooks", "transom hooks --json"))
@json_option
@click.pass_context
def hooks(ctx: click.Context, *, as_json: bool) -> None:
    """List the hooks and who implements them.

    By family, with each hook's kind and arguments, and the plugins in the order in which they are called.
    """
    found = sorted(launcher_of(ctx).hooks(), key=lambda hook: hook.family)
    if as_json:
        return print_json({"hooks": msgspec.to_builtins(found)})
    rows = [(hook.family, hook.name, hook.kind, ", ".join(hook.arguments), ", ".join(hook.plugins)) for hook in found]
    return table(("family", "hook", "kind", "arguments", "implemented by"), rows, empty="There are no hooks.")


@click.command(cls=Command, examples=("transom operations", "transom operations --json"))
@json_option
@click.pass_context
def operations(ctx: click.Context, *, as_json: bool) -> None:
    """List the operations that doors serve.

    With the permission that each needs, its name in the audit trail, and whether it takes an Idempotency-Key.
    """
    found = sorted(launcher_of(ctx).operations(), key=lambda operation: operation.name)
    if as_json:
        return print_json({"operations": [_as_json(operation) for operation in found]})
    rows = [
        (
            operation.name,
            operation.permission,
            operation.audit or "-",
            "Idempotency-Key" if operation.idempotent else "-",
            operation.description.partition("\n")[0],
        )
        for operation in found
    ]
    return table(("operation", "permission", "audit", "repeated by", "description"), rows, empty="There are no operations.")


def _as_json(operation: Operation) -> dict[str, object]:
    return {
        "name": operation.name,
        "request": operation.request.__name__,
        "response": operation.response.__name__,
        "permission": operation.permission,
        "audit": operation.audit,
        "idempotent": operation.idempotent,
        "stream": operation.stream,
        "command": operation.command,
        "description": operation.description,
    }

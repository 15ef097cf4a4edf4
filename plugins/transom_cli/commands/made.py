"""Commands made of the table of operations: one for each operation that says which words it goes by.

The words are a path of groups and a name; groups that are written by hand get the made ones beside their own. A command
is made when it is asked for, so that help and completion look at no request that nobody wants.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
import msgspec

from transom_cli.answers import show
from transom_cli.clicks import Command, Group, with_client
from transom_cli.client import Client, Target
from transom_cli.fields import ask_secrets, fields_of, parameters, request_of, secrets_of
from transom_cli.options import connected, json_option
from transom_cli.screen import print_json
from transom_hookspecs import Operation

GROUPS: Final[Mapping[str, str]] = {
    "agent": "Disable, retire and restrict agents.",
    "app": "Register apps that act for people.",
    "audit": "Read and check the audit trail.",
    "budget": "Cap what jobs may use.",
    "grant": "Say who may start which agents.",
    "key": "Make, list and revoke API keys.",
    "permissions": "Show who may do what, and why.",
    "person": "Add people, and say what they may do.",
    "policy": "Say which calls are made, and after whose yes.",
    "price": "Set what models cost.",
    "quota": "Cap what callers, teams and agents may use.",
    "retention": "Remove what is older than it may be.",
    "secret": "Keep secrets that tools use.",
    "session": "List and end sessions and tokens.",
    "taint": "Say what jobs with outside input may send out.",
    "team": "Make teams, and say who is in them.",
    "tenant": "Make tenants, and set them up.",
    "wall": "Keep jobs from the eyes of some.",
}
"""What a group is for, by its first word; one that is not here is named after its word."""


class Node(msgspec.Struct, kw_only=True):
    """A place among the words: an operation, or more words below."""

    operation: Operation | None = None
    below: dict[str, "Node"] = {}


class MadeGroup(Group):
    """A group of made commands, and perhaps of some that were written by hand.

    Parameters:
        nodes: what its commands are made of, by their words.
    """

    def __init__(self, name: str, nodes: Mapping[str, Node], **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._nodes = nodes

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in order."""
        return sorted({*self.commands, *self._nodes})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them; made now, unless it was written by hand."""
        written = self.commands.get(cmd_name)
        return _command(cmd_name, self._nodes[cmd_name], written) if cmd_name in self._nodes else written


class OperationCommand(Command):
    """A command of an operation: its help also says what its arguments and secrets are."""

    def __init__(self, operation: Operation, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._operation = operation

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments and the secrets, then the options."""
        required = [field for field in fields_of(self._operation) if field.required]
        for title, fields in (("Arguments", required), ("Secrets", secrets_of(self._operation))):
            if rows := [(field.metavar, field.about) for field in fields if field.about]:
                with formatter.section(title):
                    formatter.write_dl(rows)
        super().format_options(ctx, formatter)


def with_made(written: Sequence[click.Command], operations: Sequence[Operation]) -> list[click.Command]:
    """The commands that were written by hand, and those made of operations."""
    nodes: dict[str, Node] = {}
    for operation in operations:
        if operation.command:
            _place(nodes, operation.command.split(), operation)
    by_name = {command.name or "": command for command in written}
    made = [_command(word, node, by_name.get(word)) for word, node in sorted(nodes.items())]
    return [*(command for command in written if command.name not in nodes), *made]


def _place(nodes: dict[str, Node], words: Sequence[str], operation: Operation) -> None:
    node = nodes.setdefault(words[0], Node())
    if len(words) == 1:
        node.operation = operation
    else:
        _place(node.below, words[1:], operation)


def _command(word: str, node: Node, written: click.Command | None) -> click.Command:
    """The command at a place; what was written by hand stays, and a group of it gets what is made below."""
    if node.below and isinstance(written, click.Group):
        own = {"help": written.help, "short_help": written.short_help, "commands": dict(written.commands)}
        return MadeGroup(word, node.below, **own)
    if written is not None:
        return written
    if node.below:
        return MadeGroup(word, node.below, help=GROUPS.get(word, f"Commands of {word}."))
    assert node.operation is not None
    return _made(word, node.operation)


def _made(word: str, operation: Operation) -> click.Command:
    @click.command(
        word,
        cls=OperationCommand,
        operation=operation,
        help=_help(operation),
        short_help=operation.description.partition("\n")[0] or _about(operation.request).partition("\n")[0],
    )
    @json_option
    @connected
    @click.pass_context
    def command(ctx: click.Context, /, *, as_json: bool, where: Target, **given: Any) -> int | None:
        request = request_of(operation, given, ask_secrets(secrets_of(operation)))

        async def main(client: Client) -> None:
            answer = await client.call(operation, request)
            return print_json(answer) if as_json else show(answer)

        return with_client(ctx, where, main)

    command.params = [*parameters(operation), *command.params]
    return command


def _help(operation: Operation) -> str:
    parts = [_about(operation.request) or operation.description]
    if secrets := [field.metavar for field in secrets_of(operation)]:
        names = " and ".join(secrets)
        how = "each a line of" if len(secrets) > 1 else "all of"
        parts.append(f"{names}: asked for at a terminal, never shown; else {how} standard input.")
    if operation.permission:
        parts.append(f"Needs the permission {operation.permission}.")
    return "\n\n".join(parts)


def _about(kind: type) -> str:
    """What a Struct's own docstring says before its parameters."""
    return inspect.cleandoc(vars(kind).get("__doc__") or "").partition("Parameters:\n")[0].strip()

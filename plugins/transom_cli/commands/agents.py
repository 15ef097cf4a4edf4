"""`transom catalog`: what can be started."""

import click

from transom_cli import wire
from transom_cli.clicks import Command, with_client
from transom_cli.client import Client, Target
from transom_cli.options import connected, json_option
from transom_cli.screen import print_json, table
from transom_cli.starting import takes
from transom_hookspecs import Catalog


@click.command(cls=Command, examples=("transom catalog", "transom catalog --tenant acme --json"))
@json_option
@connected
@click.pass_context
def catalog(ctx: click.Context, *, as_json: bool, where: Target) -> int | None:
    """List the agents and flows."""

    async def main(client: Client) -> None:
        agents = await client.agents()
        if as_json:
            return print_json(wire.encode(Catalog(agents=tuple(agents))))
        rows = [
            (agent.name, "flow" if agent.flow else "agent", takes(agent), agent.description or agent.title) for agent in agents
        ]
        return table(("name", "kind", "input", "description"), rows, empty="There are no agents here.")

    return with_client(ctx, where, main)

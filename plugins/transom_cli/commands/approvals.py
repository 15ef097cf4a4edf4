"""`transom approval`: what waits for a person, and deciding it."""

import click

from transom_cli import wire
from transom_cli.asking import json_or_text
from transom_cli.clicks import Group, with_client
from transom_cli.client import Client, Target
from transom_cli.options import connected, json_if_structured, json_option, read_object
from transom_cli.safe import safe_line
from transom_cli.screen import print_json, say, table, when
from transom_cli.waits import summary
from transom_hookspecs import DecideApproval, EditWait, Json

_comment = click.option("--comment", default="", metavar="TEXT", help="Why; kept with the decision and told to the agent.")


@click.group(cls=Group)
def approval() -> None:
    """List and decide what waits for a person.

    That is approvals, questions, and steps that may have run before their worker stopped. WAIT is an ID, or the token
    (`ozi1.…`) that a wait was shown with: a token decides exactly what was shown.
    """


@approval.command("list", examples=("transom approval list", "transom approval list --job JOB --tree"))
@click.option("--job", default="", metavar="JOB", help="Only this job's.")
@click.option("--tree", is_flag=True, help="With --job: also of the jobs that it delegated to.")
@json_option
@connected
@click.pass_context
def list_approvals(ctx: click.Context, *, job: str, tree: bool, as_json: bool, where: Target) -> int | None:
    """List what waits, oldest first."""
    if tree and not job:
        raise click.UsageError("--tree belongs to --job.")

    async def main(client: Client) -> None:
        waits = await client.waits(job, tree=tree)
        if as_json:
            return print_json({"approvals": [wire.encode(wait) for wait in waits]})
        rows = [
            (wait.id, wait.kind, wait.agent, summary(wait), "yes" if wait.can_decide else "no", when(wait.expires_at))
            for wait in waits
        ]
        return table(("wait", "kind", "agent", "asks for", "yours", "expires"), rows, empty="Nothing waits for a person.")

    return with_client(ctx, where, main)


@approval.command("approve", examples=("transom approval approve WAIT", 'transom approval approve WAIT --confirm "anna"'))
@click.argument("wait", metavar="WAIT")
@_comment
@click.option("--confirm", default="", metavar="VALUE", help="The value that must be typed, where the rule asks for one.")
@json_option
@connected
@click.pass_context
def approve(ctx: click.Context, *, wait: str, comment: str, confirm: str, as_json: bool, where: Target) -> int | None:
    """Say yes."""
    return _decide(ctx, where, DecideApproval(wait=wait, approved=True, comment=comment, confirm=confirm), as_json=as_json)


@approval.command("deny", examples=('transom approval deny WAIT --comment "not on a Friday"',))
@click.argument("wait", metavar="WAIT")
@_comment
@json_option
@connected
@click.pass_context
def deny(ctx: click.Context, *, wait: str, comment: str, as_json: bool, where: Target) -> int | None:
    """Say no, or decline a question."""
    return _decide(ctx, where, DecideApproval(wait=wait, approved=False, comment=comment), as_json=as_json)


@approval.command(
    "answer",
    examples=(
        'transom approval answer WAIT "blue"',
        "transom approval answer WAIT --answer '{\"size\": 3}'",
        "transom approval answer WAIT again",
    ),
)
@click.argument("wait", metavar="WAIT")
@click.argument("text", required=False)
@click.option("--answer", metavar="JSON", help="The answer as JSON of any kind, or as text when it is none.")
@_comment
@json_option
@connected
@click.pass_context
def answer(
    ctx: click.Context, *, wait: str, text: str | None, answer: str | None, comment: str, as_json: bool, where: Target
) -> int | None:
    """Answer a question, or say what becomes of a step.

    TEXT that is a JSON object or array is taken as that. A step that may have run before its worker stopped is
    `done`, is to be made `again`, or is to `fail` its job.
    """
    if (text is None) == (answer is None):
        raise click.UsageError("Give the answer once: as TEXT, or with --answer.")
    value: Json = json_if_structured(text) if text is not None else json_or_text(answer or "")
    return _decide(ctx, where, DecideApproval(wait=wait, answer=value, comment=comment), as_json=as_json)


@approval.command(
    "edit", examples=('transom approval edit WAIT \'{"channel": "#ops"}\'', "transom approval edit WAIT @arguments.json")
)
@click.argument("wait", metavar="WAIT")
@click.argument("arguments", metavar="JSON")
@json_option
@connected
@click.pass_context
def edit(ctx: click.Context, *, wait: str, arguments: str, as_json: bool, where: Target) -> int | None:
    """Change the arguments that wait for approval.

    The rule must allow it; votes are cleared, and it is asked anew. JSON holds all of them; `@file` and `-` (stdin) read it.
    """
    wanted = read_object(arguments, "JSON")

    async def main(client: Client) -> None:
        await client.edit(EditWait(wait=wait, arguments=wanted))
        if as_json:
            print_json({"wait": wait, "arguments": wanted})
        else:
            say(f"The arguments of {safe_line(wait)} are changed; it waits for approval again.")

    return with_client(ctx, where, main)


def _decide(ctx: click.Context, where: Target, decision: DecideApproval, *, as_json: bool) -> int | None:
    async def main(client: Client) -> None:
        decided = await client.decide(decision)
        if as_json:
            return print_json(wire.encode(decided))
        if decided.result == "acknowledged":
            say(f"Your vote on {safe_line(decided.wait)} counts; others are needed.")
        else:
            before = " before" if decided.result == "already_decided" else ""
            say(f"{safe_line(decided.wait)} was {decided.outcome}{before} by {safe_line(decided.by)}.", "good")
        if not where.remote:
            say(where.goes_on, "dim", err=True)
        say(f"Follow the job: {where.command('job', 'watch', decided.job)}", "dim", err=True)
        return None

    return with_client(ctx, where, main)

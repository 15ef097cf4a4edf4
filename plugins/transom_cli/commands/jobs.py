"""`transom job`: look at jobs, follow, cancel and tag them."""

from collections.abc import Sequence

import click

from transom_cli import wire
from transom_cli.clicks import Group, with_client
from transom_cli.client import Client, Target
from transom_cli.options import connected, json_option
from transom_cli.render import pretty, told
from transom_cli.safe import safe, safe_line
from transom_cli.screen import print_json, say, table, when
from transom_cli.session import Manner
from transom_cli.views import JobDisplay, JsonLines, Transcript
from transom_cli.waits import explain
from transom_hookspecs import JobView

from .running import follow


@click.group(cls=Group)
def job() -> None:
    """Look at jobs, follow, cancel and tag them."""


@job.command("list", examples=("transom job list", "transom job list --limit 5 --json"))
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="How many.")
@click.option("--cursor", default="", help="Go on where the last page ended.")
@json_option
@connected
@click.pass_context
def list_jobs(ctx: click.Context, *, limit: int, cursor: str, as_json: bool, where: Target) -> int | None:
    """List recent jobs, newest first."""

    async def main(client: Client) -> None:
        page = await client.jobs(limit, cursor)
        if as_json:
            return print_json(wire.encode(page))
        rows = [(each.id, each.agent, each.status, when(each.started_at), ", ".join(each.tags)) for each in page.jobs]
        table(("job", "agent", "status", "started", "tags"), rows, empty="There is no job yet.")
        if page.cursor:
            say(f"More: {where.command('job', 'list', '--cursor', page.cursor)}", "dim", err=True)
        return None

    return with_client(ctx, where, main)


@job.command("get", examples=("transom job get JOB", "transom job get JOB --json"))
@click.argument("id", metavar="JOB")
@json_option
@connected
@click.pass_context
def get_job(ctx: click.Context, *, id: str, as_json: bool, where: Target) -> int | None:
    """Show a job, with its answer once it has one."""

    async def main(client: Client) -> None:
        found = await client.job(id)
        if as_json:
            print_json(wire.encode(found))
        else:
            _show(found, where)

    return with_client(ctx, where, main)


@job.command("watch", examples=("transom job watch JOB", "transom job watch JOB --json"))
@click.argument("id", metavar="JOB")
@json_option
@connected
@click.pass_context
def watch_job(ctx: click.Context, *, id: str, as_json: bool, where: Target) -> int | None:
    """Show what a job does, until it ends.

    What it did before is shown too. Ctrl-C leaves it alone. When nobody goes on with it, that is said, and what would.
    """

    async def main(client: Client) -> int:
        found = await client.job(id)
        display: JobDisplay = JsonLines(found) if as_json else Transcript(found, where)
        return await follow(client, found, display, Manner(only_watch=True))

    return with_client(ctx, where, main)


@job.command("cancel", examples=('transom job cancel JOB --reason "wrong branch"',))
@click.argument("id", metavar="JOB")
@click.option("--reason", default="", help="Why, for the record.")
@json_option
@connected
@click.pass_context
def cancel_job(ctx: click.Context, *, id: str, reason: str, as_json: bool, where: Target) -> int | None:
    """Cancel a job and all that it delegated."""

    async def main(client: Client) -> None:
        found = await client.cancel(id, reason)
        if as_json:
            print_json(wire.encode(found))
        else:
            say(f"Job {safe_line(found.id)} is {found.status.replace('_', ' ')}.")

    return with_client(ctx, where, main)


@job.command("trace", examples=("transom job trace JOB",))
@click.argument("id", metavar="JOB")
@json_option
@connected
@click.pass_context
def trace_job(ctx: click.Context, *, id: str, as_json: bool, where: Target) -> int | None:
    """List the steps of a job.

    For each: what it was, how it came out, how long it took, and what policy said of it.
    """

    async def main(client: Client) -> None:
        trace = await client.trace(id)
        if as_json:
            return print_json(wire.encode(trace))
        rows = [
            (
                step.key,
                step.kind,
                step.name,
                step.state + (f" (attempt {step.attempt})" if step.attempt > 1 else ""),
                f"{(step.ended_at - step.begun_at) / 1000:.2f} s" if step.ended_at and step.begun_at else "",
                step.verdict,
                told(step.error) if step.error else step.child,
            )
            for step in trace.steps
        ]
        return table(
            ("step", "kind", "name", "state", "took", "verdict", "error or child"), rows, empty="No step was taken yet."
        )

    return with_client(ctx, where, main)


@job.command("wait", examples=("transom job wait JOB",))
@click.argument("id", metavar="JOB")
@json_option
@connected
@click.pass_context
def explain_wait(ctx: click.Context, *, id: str, as_json: bool, where: Target) -> int | None:
    """Say why a job waits.

    Lists each pending step, and what it waits for.
    """

    async def main(client: Client) -> None:
        found = await client.why(id)
        if as_json:
            return print_json(wire.encode(found))
        say(safe(found.why))
        for step in found.steps:
            if step.why != found.why:
                say(f"  {safe_line(step.why)}")
            if step.since:
                say(f"    since {when(step.since)}", "dim")
            if step.last_failure:
                say(f"    last failure: {safe_line(step.last_failure)}", "bad")
        return None

    return with_client(ctx, where, main)


@job.command("tags", examples=("transom job tags JOB", "transom job tags JOB --add kept --remove draft"))
@click.argument("id", metavar="JOB")
@click.option("--add", multiple=True, metavar="TAG", help="Add a tag; may be repeated.")
@click.option("--remove", multiple=True, metavar="TAG", help="Remove a tag; may be repeated.")
@json_option
@connected
@click.pass_context
def tag_job(
    ctx: click.Context, *, id: str, add: Sequence[str], remove: Sequence[str], as_json: bool, where: Target
) -> int | None:
    """Show a job's tags, or change them.

    A job that has ended may still be tagged.
    """

    async def main(client: Client) -> None:
        found = await (client.tag(id, add, remove) if add or remove else client.job(id))
        if as_json:
            return print_json({"id": found.id, "tags": list(found.tags)})
        for tag in found.tags:
            say(safe_line(tag))
        return None

    return with_client(ctx, where, main)


def _show(found: JobView, where: Target) -> None:
    facts = {
        "job": found.id,
        "agent": found.agent,
        "status": found.status.replace("_", " "),
        "started": when(found.started_at),
        "ended": when(found.closed_at),
        "conversation": found.conversation,
        "tags": ", ".join(found.tags),
        "children": ", ".join(found.children),
        "cost": f"${found.cost.usd:.4f}, {found.cost.input_tokens + found.cost.output_tokens} tokens" if found.cost else "",
        "error": told(found.error) if found.error else "",
    }
    for name, value in facts.items():
        if value:
            say(f"{name:<13}{safe_line(value)}")
    for line in explain(found.approvals, where):
        say(line, "warn")
    if found.output is not None:
        say(f"\n{safe(pretty(found.output))}")

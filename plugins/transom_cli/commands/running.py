"""`transom run`: start an agent and be with it until its answer."""

import sys
from collections.abc import Sequence
from functools import partial

import click

from transom_cli import exits
from transom_cli.asking import Dialog, standing_answer
from transom_cli.clicks import Command, launcher_of, with_client
from transom_cli.client import Client, Target
from transom_cli.keyboard import Keyboard
from transom_cli.options import connected, input_value, json_option, read_input, seconds_of
from transom_cli.safe import safe_line
from transom_cli.screen import print_json, say, watched, write
from transom_cli.session import Ask, Manner, Session
from transom_cli.starting import Start
from transom_cli.views import AnswerOnly, JobDisplay, JsonLines, Transcript
from transom_hookspecs import JobView, StartJob

_HELP = f"""Run AGENT, an agent's or a flow's name or the path of a YAML file, and follow it to its answer.

INPUT is text, or JSON when it is an object or an array; `-` reads it from stdin, `@file` from a file. Without INPUT
it is read from stdin too, unless that is a terminal.

Without a server's address the runtime is in this process, on the data folder. What waits for a person is asked for
when one is at the terminal; else it is said how to decide it, and the command exits with 4. Ctrl-C cancels the job;
on a server it only leaves it.

{exits.HELP}"""


@click.command(
    cls=Command,
    help=_HELP,
    short_help="Run an agent and follow it to its answer.",
    examples=(
        'transom run echo "hello"',
        'transom run ./reviewer.yaml \'{"repo": "acme/api", "pr": 42}\'',
        "git diff | transom run reviewer --quiet",
        "transom run helper --url https://edge.example.com:7443 --detach",
    ),
)
@click.argument("agent")
@click.argument("input", required=False)
@click.option("--json-input", is_flag=True, help='INPUT is JSON of any kind, also a number or "text".')
@click.option("--id", default="", metavar="ID", help="The job's ID; the same start under it starts nothing twice.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Put a tag on the job; may be repeated.")
@click.option(
    "--timeout", metavar="TIME", callback=seconds_of, help="End the job after this time, waits included: 90s, 15m, 2h."
)
@click.option("--conversation", default="", metavar="ID", help="Go on with this conversation, or begin it.")
@click.option("--detach", is_flag=True, help="Start it on a server and leave.")
@click.option("--yes/--no", "answer", default=None, help="Approve, or deny, whatever asks for approval.")
@click.option("--quiet", "-q", is_flag=True, help="Print the answer and nothing else.")
@json_option
@connected
@click.pass_context
def run(
    ctx: click.Context,
    *,
    agent: str,
    input: str | None,
    json_input: bool,
    id: str,
    tags: Sequence[str],
    timeout: float | None,
    conversation: str,
    detach: bool,
    answer: bool | None,
    quiet: bool,
    as_json: bool,
    where: Target,
) -> int | None:
    """Check what was asked for together, then start and follow."""
    if quiet and as_json:
        raise click.UsageError("--quiet and --json exclude each other.")
    if detach and not where.remote:
        raise click.UsageError("--detach needs a server that goes on with the job: name it with --url.")
    if commas := [tag for tag in tags if "," in tag]:
        raise click.UsageError(f"--tag {commas[0]!r}: a tag has no comma; repeat --tag for several.")
    text = read_input(input)
    request = StartJob(
        agent=agent,
        input=input_value(text, as_json=json_input),
        id=id,
        tags=tuple(tags),
        timeout=timeout,
        conversation=conversation,
    )

    start = Start(request=request, said=text is not None, asked=watched(sys.stdin), where=where, launcher=launcher_of(ctx))

    async def main(client: Client) -> int:
        started = await start.send(client)
        job, ours = started.job, not (where.remote or started.retried)
        if started.retried:
            say(f"Job {safe_line(job.id)} was started before; nothing started again.", "dim", err=True)
        if detach:
            return _detached(job, where, as_json=as_json)
        ask = _asker(as_json=as_json)
        transcript = Transcript(job, where, asks=ask is not None and answer is None)
        display: JobDisplay = JsonLines(job) if as_json else AnswerOnly(job, where) if quiet else transcript
        standing = partial(standing_answer, yes=answer)
        return await follow(client, job, display, Manner(standing=standing, ask=ask, cancels=ours))

    return with_client(ctx, where, main, agents=start.files())


async def follow(client: Client, job: JobView, display: JobDisplay, manner: Manner) -> int:
    """Follow a job, showing it; returns the exit code."""
    ending = await Session(client, job, display, manner).follow()
    display.ended(ending)
    return ending.code


def _asker(*, as_json: bool) -> Ask | None:
    """Asks the person at the terminal, when there is one; where JSON is read there is none."""
    if as_json or sys.platform == "win32" or not (watched(sys.stdin) and watched(sys.stderr)):
        return None
    return Dialog(Keyboard(sys.stdin.fileno()).line, partial(write, err=True)).ask


def _detached(job: JobView, where: Target, *, as_json: bool) -> int:
    if as_json:
        print_json({"type": "result", "job": job.id, "outcome": "detached", "exit": exits.OK})
    else:
        say(safe_line(job.id))
        say(f"Follow it: {where.command('job', 'watch', job.id)}", "dim", err=True)
    return exits.OK

"""`transom run`: start an agent and be with it until its answer."""

import difflib
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import msgspec

from transom_cli import exits
from transom_cli.asking import Dialog, standing_answer
from transom_cli.clicks import Command, with_client
from transom_cli.client import GOES_ON, Client, Target
from transom_cli.keyboard import Keyboard
from transom_cli.options import connected, json_option, read_input, seconds_of
from transom_cli.safe import safe_line
from transom_cli.screen import print_json, say, watched, write
from transom_cli.session import Ask, Manner, Session
from transom_cli.views import AnswerOnly, JobDisplay, JsonLines, Transcript
from transom_hookspecs import JobAnswer, JobView, StartJob, TransomError

_FILE = re.compile(r".*\.ya?ml\Z|.*[/\\].*", re.DOTALL)

_HELP = f"""Run AGENT, an agent's or a flow's name or the path of a YAML file, and follow it to its answer.

INPUT is text, or JSON when it is an object or an array; `-` reads it from stdin, `@file` from a file.

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
        "git diff | transom run reviewer - --quiet",
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
    request = StartJob(
        agent=agent,
        input=read_input(input, as_json=json_input),
        id=id,
        tags=tuple(tags),
        timeout=timeout,
        conversation=conversation,
    )

    async def main(client: Client) -> int:
        started = await _start(client, request)
        job, ours = started.job, not (where.remote or started.retried)
        if started.retried:
            _tell_retried(job, where)
        if detach:
            return _detached(job, where, as_json=as_json)
        display: JobDisplay = JsonLines(job) if as_json else AnswerOnly(job, where) if quiet else Transcript(job, where)
        standing = partial(standing_answer, yes=answer)
        return await follow(client, job, display, Manner(standing=standing, ask=_asker(as_json=as_json), cancels=ours))

    return with_client(ctx, where, main, agents=_files(agent, where))


async def follow(client: Client, job: JobView, display: JobDisplay, manner: Manner) -> int:
    """Follow a job, showing it; returns the exit code."""
    ending = await Session(client, job, display, manner).follow()
    display.ended(ending)
    return ending.code


async def _start(client: Client, request: StartJob) -> JobAnswer:
    """Start the job; of an agent that is not there, say which are near."""
    if _FILE.match(request.agent):
        request = msgspec.structs.replace(request, agent=client.declared_in(request.agent))
    try:
        return await client.start(request)
    except TransomError as error:
        if error.code == "not_found" and (note := await _near(client, request.agent)):
            error.add_note(note)
        raise


def _tell_retried(job: JobView, where: Target) -> None:
    """Say that nothing started, and who goes on with the job: not this process, which only advances what it started."""
    say(f"Job {safe_line(job.id)} was started before; nothing started again.", "dim", err=True)
    if not where.remote and not job.closed_at:
        say(GOES_ON, "dim", err=True)


async def _near(client: Client, name: str) -> str:
    """Names of the catalog that are like this one; empty when that cannot be read, and the error says enough."""
    try:
        names = [agent.name for agent in await client.agents()]
    except TransomError:
        return ""
    near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return f"{hint}`transom catalog` lists what there is."


def _files(agent: str, where: Target) -> list[str]:
    """The file that the agent is declared in, when it is given as one."""
    if where.remote or not _FILE.match(agent):
        return []
    if not Path(agent).is_file():
        raise TransomError("invalid_argument", f"there is no file {agent!r}; an agent is named without dots and slashes")
    return [agent]


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

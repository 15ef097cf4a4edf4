"""What the commands need of a runtime, and where one is: embedded in this process, or a server."""

import os
import shlex
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from transom_hookspecs import (
    AgentView,
    DecideApproval,
    Decided,
    EditWait,
    Entry,
    JobAnswer,
    JobPage,
    JobTrace,
    JobView,
    JobWait,
    Launcher,
    Operation,
    StartJob,
    TransomError,
    WaitView,
)


class Client(Protocol):
    """A runtime, for one tenant. Every method raises TransomError: why not."""

    remote: bool
    """Whether jobs go on when this process ends."""

    async def start(self, request: StartJob) -> JobAnswer:
        """Start a job; a start that the answer was lost of is sent again and starts nothing twice."""

    async def job(self, id: str) -> JobView:
        """A job as it is."""

    async def jobs(self, limit: int, cursor: str) -> JobPage:
        """Recent top-level jobs."""

    def events(self, job: JobView) -> AsyncGenerator[Sequence[Entry], None]:
        """What the job and all it delegated did and do, from its start until it has ended.

        When nobody goes on with it, it ends with what was recorded.
        """

    async def attended(self, job: JobView) -> bool:
        """Whether somebody goes on with the job: a server, or this process."""

    async def cancel(self, id: str, reason: str = "") -> JobView:
        """Cancel a job and what it delegated."""

    async def trace(self, id: str) -> JobTrace:
        """A job's steps."""

    async def why(self, id: str) -> JobWait:
        """Why a job waits."""

    async def tag(self, id: str, add: Sequence[str], remove: Sequence[str]) -> JobView:
        """Change a job's tags."""

    async def waits(self, job: str = "", *, tree: bool = False) -> Sequence[WaitView]:
        """What waits for a person, oldest first."""

    async def decide(self, decision: DecideApproval) -> Decided:
        """Decide a wait, or vote."""

    async def edit(self, edit: EditWait) -> None:
        """Change the arguments that wait for approval."""

    async def agents(self) -> Sequence[AgentView]:
        """The agents and flows there are."""

    async def call(self, operation: Operation, request: msgspec.Struct) -> msgspec.Struct:
        """Call any operation of the table; returns what it answered."""

    def declared_in(self, path: str) -> str:
        """The name of the agent that a file declares."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where the runtime is.

    Parameters:
        url: a server's; empty for one embedded in this process.
        data: the data folder of an embedded one; empty is the setting's.
        given: the options that said so, to be repeated in hints.
    """

    tenant: str = "default"
    url: str = ""
    token: str = ""
    ca_file: str = ""
    data: str = ""
    given: tuple[str, ...] = ()

    @property
    def remote(self) -> bool:
        """Whether it is a server."""
        return bool(self.url)

    @property
    def loopback(self) -> bool:
        """Whether it is a server of this machine."""
        host = urlsplit(self.url).hostname or ""
        return host in {"localhost", "::1"} or host.startswith("127.")

    @property
    def goes_on(self) -> str:
        """Who goes on with a job that no process advances: one that did not start it, or is about to end, says so."""
        folder = ("--data", self.data) if self.data else ()
        serve, dev = (shlex.join(("transom", word, *folder)) for word in ("serve", "dev"))
        return f"A server on this data folder goes on with it: `{serve}`, or `{dev}`."

    def command(self, *words: str) -> str:
        """A command line for the same runtime, to be shown to people."""
        return shlex.join(("transom", *words, *self.given))


def target(
    *,
    url: str | None = None,
    data: str | None = None,
    tenant: str = "default",
    token_file: str | None = None,
    ca_file: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Target:
    """The runtime that options and environment name: options first, then our own variables, then OZ0's.

    Raises:
        TransomError: invalid_argument when options contradict each other or a token cannot be read.
    """
    if url and data:
        raise TransomError("invalid_argument", "--url and --data exclude each other: a server, or a data folder")
    named = () if tenant == "default" else ("--tenant", tenant)
    if data:
        return Target(tenant=tenant, data=data, given=("--data", data, *named))
    address = url or environ.get("TRANSOM_URL") or environ.get("OZ0_URL") or ""
    if not address:
        return Target(tenant=tenant, given=named)
    files = (*_option("--token-file", token_file), *_option("--ca-file", ca_file))
    return Target(
        tenant=tenant,
        url=_checked_url(address),
        token=_token(token_file, environ),
        ca_file=ca_file or "",
        given=(*_option("--url", url), *files, *named),
    )


@asynccontextmanager
async def connect(launcher: Launcher, where: Target, *, agents: Sequence[str] = ()) -> AsyncIterator[Client]:
    """A client of the runtime; without a transom.toml an embedded one has the demo bundle.

    Raises:
        TransomError: from inside too, with a note of what to do next where there is something to do.
    """
    try:
        async with _open(launcher, where, agents) as client:
            yield client
    except TransomError as error:
        if not hasattr(error, "__notes__") and (note := _next_step(error, where)):
            error.add_note(note)
        raise


def _open(launcher: Launcher, where: Target, agents: Sequence[str]) -> AbstractAsyncContextManager[Client]:
    if where.remote:
        from .remote import remote_client

        return remote_client(where)
    from .embedded import embedded_client

    return embedded_client(launcher, where, agents)


def _next_step(error: TransomError, where: Target) -> str:
    if not where.remote:
        return ""
    if error.code == "unauthenticated":
        return "Set TRANSOM_TOKEN to a token of this server, or name a file that holds one with --token-file."
    if "CERTIFICATE_VERIFY_FAILED" in error.message:
        return "Name the authority that signed the server's certificate with --ca-file."
    if error.code == "unavailable":
        return f"Is a server listening at {where.url}? `transom serve` starts one."
    return ""


def _option(name: str, value: str | None) -> tuple[str, ...]:
    return (name, value) if value else ()


def _checked_url(address: str) -> str:
    if "@" in address or "?" in address or "#" in address:  # never shown: it may hold a secret
        raise TransomError(
            "invalid_argument",
            "url: it carries a user name, a password or a query; give the plain address, as https://edge.example.com:7443, "
            "and the token in TRANSOM_TOKEN or with --token-file",
        )
    if not address.startswith(("https://", "http://")):
        raise TransomError("invalid_argument", f"url {address!r}: it must begin with https:// (or http://)")
    try:
        known = urlsplit(address).hostname and urlsplit(address).port != 0
    except ValueError:
        known = False
    if not known:
        raise TransomError("invalid_argument", f"url {address!r}: it names no host, or no port that there is")
    return address.rstrip("/")


def _token(token_file: str | None, environ: Mapping[str, str]) -> str:
    if token_file:
        try:
            token = Path(token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise TransomError("invalid_argument", f"--token-file {token_file!r} cannot be read: {error}") from error
    else:
        token = (environ.get("TRANSOM_TOKEN") or environ.get("OZ0_API_KEY") or "").strip()
    if not (token.isascii() and (token.isprintable() and " " not in token)):
        raise TransomError(
            "invalid_argument", "the token holds characters that no token has; is it the right file or variable?"
        )
    return token

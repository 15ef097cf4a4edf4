"""Services: objects that plugins offer one another by a Protocol of this package, one provider each."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from .events import NotePinned
from .markers import hookspec
from .records import Job
from .stores import Tx
from .tenants import Role
from .values import Json, JsonObject


class NewNote(msgspec.Struct, frozen=True, kw_only=True):
    """A note to pin; `supersedes` is the number of the note that it replaces, or 0."""

    text: str
    kind: str = "note"
    tags: tuple[str, ...] = ()
    supersedes: int = 0


@runtime_checkable
class Board(Protocol):
    """The shared notes of a job tree."""

    def pin(self, tx: Tx, job: Job, note: NewNote, call: str = "") -> NotePinned:
        """Pin a note inside a transaction and return its event, which the caller appends.

        Raises:
            TransomError: invalid_argument for a note that is too long or supersedes none of the tree's,
                resource_exhausted when the board is full.
        """


@runtime_checkable
class Outputs(Protocol):
    """The safe outputs of a fire."""

    async def queue(self, tenant: str, job: Job, step: str, output: str, arguments: JsonObject) -> Json:
        """Check and queue one output's request; returns what the agent is told."""


@runtime_checkable
class DevTokens(Protocol):
    """Tokens of a development server's people, for its one line of output."""

    def tokens(self) -> dict[str, str]:
        """Name to bearer token."""


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A person's session that has begun.

    Parameters:
        expires_at: in milliseconds (Unix).
        cookie: the value of the answer's Set-Cookie header; it stands nowhere else.
    """

    person: str
    tenant: str
    expires_at: int
    cookie: str


@runtime_checkable
class SignIn(Protocol):
    """Begins sessions, for plugins that know a person by other means than a password."""

    async def sign_in(
        self, tenant: str, person: str, *, secure: bool, role: Role | None = None, name: str = "", door: str = "identity"
    ) -> Session:
        """Begin a session for a person whom the plugin knows to be that person.

        Parameters:
            secure: whether the browser speaks TLS; the cookie then goes over nothing else.
            role, name: of a person who is not there yet and is added; without a role nobody is.
            door: the plugin's door, for the audit trail.

        Raises:
            TransomError: unauthenticated when the person is not there or is disabled.
        """


@runtime_checkable
class Secrets(Protocol):
    """The tenants' secrets. Agents, tools and settings name one as `{{secret:NAME}}`; who needs its value asks here.

    Every call is answered from memory. No error has a value in it.
    """

    def resolve(self, tenant: str, name: str, url: str) -> str:
        """A secret's value, for a request to this address; for whoever sends it there, and nobody else.

        Raises:
            TransomError: not_found, or permission_denied when the secret is not bound to the address's host.
        """

    def check_signing(self, tenant: str, name: str, url: str) -> None:
        """Whether a secret may sign what is sent to this address.

        Raises:
            TransomError: not_found, or permission_denied unless it is a signing secret bound to the address's host.
        """

    def sign(self, tenant: str, name: str, url: str, body: bytes) -> str:
        """The HMAC-SHA256 of a body that is sent to this address, in lower-case hexadecimal.

        Raises:
            TransomError: as `check_signing`.
        """

    def environment(self, tenant: str, tool: str, names: Sequence[str]) -> Mapping[str, str]:
        """Plain values by name, for one call or one process of a tool that the tenant's operators allowed to have them.

        Raises:
            TransomError: not_found, or permission_denied for one that the tool was not allowed.
        """

    def redact(self, text: str) -> str:
        """A text with the values of every tenant's secrets replaced, for logs."""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A provider of one service Protocol."""

    protocol: type
    provider: object


class ServiceHooks:
    """Hooks of the service family."""

    @hookspec
    def register_services(self) -> Sequence[Service]:  # type: ignore[empty-body]
        """Return services; `kernel.service(Protocol)` gives the one provider or None."""

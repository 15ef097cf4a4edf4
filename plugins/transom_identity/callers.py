"""Who the callers are: from the settings to a directory that finds them by token and by name."""

import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from transom_hookspecs import NAME, Caller, TransomError

from .roles import Member, Role
from .tokens import TOKEN, digest

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_SHORTEST_TOKEN = 16


class CallerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One caller, `[identity.callers.<name>]`.

    Parameters:
        kind: an `operator` belongs to no tenant, has no role and may do everything.
        tenant: where it belongs; `default` when left out.
        role: reader, member, operator or admin.
        token_sha256: the SHA-256 of its token, in hex; or
        token_env: the environment variable that holds its token.
        label: is put on all that it creates.
        scopes: the only agents that it reaches.
        content: whether it may read content; left out, members and above may.
    """

    kind: Literal["person", "key", "service", "operator"] = "key"
    tenant: str | None = None
    role: Role | None = None
    token_sha256: str = ""
    token_env: str = ""
    label: str = ""
    scopes: tuple[str, ...] | None = None
    content: bool | None = None


class Directory:
    """Callers by the digest of their token, and by who they are."""

    def __init__(self, members: Iterable[tuple[Member, bytes]] = ()) -> None:
        self._by_digest: dict[bytes, tuple[bytes, Caller]] = {}
        self._members: dict[tuple[str, str, str], Member] = {}
        for member, token_digest in members:
            self.add(member, token_digest)

    def add(self, member: Member, token_digest: bytes) -> None:
        """Let a caller in.

        Raises:
            TransomError: already_exists when its name or its token is another's.
        """
        who = _who(member.caller)
        if who in self._members:
            raise TransomError(
                "already_exists",
                f"identity.callers.{member.caller.id}: this name, kind and tenant are taken (in development mode its own "
                "callers have theirs); choose another name",
            )
        if token_digest in self._by_digest:
            raise TransomError(
                "already_exists", f"identity.callers.{member.caller.id}: another caller has the same token; give it its own"
            )
        self._members[who] = member
        self._by_digest[token_digest] = (token_digest, member.caller)

    def find(self, token: str) -> Caller | None:
        """Whose token this is. Looked up by digest, so that time tells nothing of the tokens there are."""
        given = digest(token)
        kept, caller = self._by_digest.get(given, (b"", None))
        return caller if hmac.compare_digest(kept, given) else None

    def member(self, caller: Caller) -> Member | None:
        """What is known of a caller now, however it was authenticated."""
        return self._members.get(_who(caller))


def _who(caller: Caller) -> tuple[str, str, str]:
    return caller.kind, caller.id, caller.tenant


def configured(callers: Mapping[str, CallerConfig], environment: Mapping[str, str]) -> list[tuple[Member, bytes]]:
    """The callers of the settings, each with the digest of its token.

    Raises:
        TransomError: invalid_argument, naming the setting, what is wrong and the remedy.
    """
    return [_configured(name, config, environment) for name, config in callers.items()]


def _configured(name: str, config: CallerConfig, environment: Mapping[str, str]) -> tuple[Member, bytes]:
    setting = f"identity.callers.{name}"
    if not NAME.match(name):
        raise _wrong(setting, "the name is not one", "use letters, digits, - and _, at most 63")
    _check(setting, config)
    caller = Caller(
        kind=config.kind,
        id=name,
        tenant="" if config.kind == "operator" else "default" if config.tenant is None else config.tenant,
        label=config.label,
        scopes=config.scopes,
    )
    return Member(caller=caller, role=config.role or "admin", content=config.content), _token_digest(
        setting, config, environment
    )


def _check(setting: str, config: CallerConfig) -> None:
    if config.kind == "operator":
        if config.tenant or config.role or config.scopes is not None or config.content is not None:
            raise _wrong(
                setting, "an operator belongs to no tenant and may do everything", "leave out tenant, role, scopes, content"
            )
        return
    if config.role is None:
        raise _wrong(f"{setting}.role", "it is missing", "write reader, member, operator or admin")
    if config.tenant is not None and not NAME.match(config.tenant):
        raise _wrong(f"{setting}.tenant", f"{config.tenant!r} is no tenant's name", "use letters, digits, - and _, at most 63")


def _token_digest(setting: str, config: CallerConfig, environment: Mapping[str, str]) -> bytes:
    if bool(config.token_sha256) == bool(config.token_env):
        raise _wrong(setting, "a caller has one token", "write either token_sha256 or token_env")
    if config.token_sha256:
        if not _SHA256.fullmatch(config.token_sha256):
            raise _wrong(f"{setting}.token_sha256", "it is no SHA-256", "write 64 hex digits, as of `sha256sum`")
        return bytes.fromhex(config.token_sha256)
    token = environment.get(config.token_env, "")
    if not TOKEN.fullmatch(token) or len(token) < _SHORTEST_TOKEN:
        raise _wrong(
            f"{setting}.token_env",
            f"the environment variable {config.token_env!r} holds no token",
            f"set it to {_SHORTEST_TOKEN} to 4,096 visible ASCII characters, and random ones",
        )
    return digest(token)


def _wrong(setting: str, problem: str, remedy: str) -> TransomError:
    return TransomError("invalid_argument", f"{setting}: {problem}; {remedy}")

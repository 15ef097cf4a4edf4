"""Callers that stand in transom.toml, and the operators' certificates: read at start, changed by a restart."""

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from transom_hookspecs import NAME, Caller, Member, Role, TransomError

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


class OperatorConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator who shows a certificate, `[identity.operators.<name>]`.

    Parameters:
        certificate_sha256: the SHA-256 of the certificate (DER), in hex; colons between bytes are fine.
    """

    certificate_sha256: str


class Configured:
    """The callers of transom.toml, by the digest of what they show and by who they are.

    Raises:
        TransomError: invalid_argument, naming the setting, what is wrong and the remedy; already_exists for a token or
            certificate that two callers have.
    """

    def __init__(
        self, callers: Mapping[str, CallerConfig], operators: Mapping[str, OperatorConfig], environment: Mapping[str, str]
    ) -> None:
        self._by_digest: dict[str, Caller] = {}
        self._members: dict[tuple[str, str, str], Member] = {}
        for name, config in callers.items():
            caller = _caller(name, config)
            self._add(f"identity.callers.{name}", _token_digest(f"identity.callers.{name}", config, environment), caller)
            if config.role is not None:
                self._members[caller.kind, caller.id, caller.tenant] = Member(
                    role=config.role, content=config.content, scopes=config.scopes
                )
        for name, operator in operators.items():
            _check_name(f"identity.operators.{name}", name)
            shown = operator.certificate_sha256.replace(":", "")
            if not _SHA256.fullmatch(shown):
                raise _wrong(
                    f"identity.operators.{name}.certificate_sha256",
                    "it is no SHA-256",
                    "write 64 hex digits, as of `openssl x509 -fingerprint -sha256`",
                )
            self._add(f"identity.operators.{name}", f"sha256:{shown.lower()}", Caller(kind="operator", id=name))

    def _add(self, setting: str, shown: str, caller: Caller) -> None:
        if shown in self._by_digest:
            raise TransomError("already_exists", f"{setting}: another caller has the same token; give it its own")
        self._by_digest[shown] = caller

    def find(self, shown: str) -> Caller | None:
        """Whose token has this digest, or whose certificate this is (`sha256:<hex>`)."""
        return self._by_digest.get(shown)

    def member(self, kind: str, id: str, tenant: str) -> Member | None:
        """What the settings say of a caller."""
        return self._members.get((kind, id, tenant))

    def named(self, kind: str, tenant: str) -> Iterator[tuple[str, Member]]:
        """The callers of one kind in a tenant, by id."""
        return ((id, member) for (of, id, where), member in sorted(self._members.items()) if (of, where) == (kind, tenant))


def _caller(name: str, config: CallerConfig) -> Caller:
    setting = f"identity.callers.{name}"
    _check_name(setting, name)
    _check(setting, config)
    return Caller(
        kind=config.kind,
        id=name,
        tenant="" if config.kind == "operator" else "default" if config.tenant is None else config.tenant,
        label=config.label,
        scopes=config.scopes,
    )


def _check_name(setting: str, name: str) -> None:
    if not NAME.match(name):
        raise _wrong(setting, "the name is not one", "use letters, digits, - and _, at most 63")


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


def _token_digest(setting: str, config: CallerConfig, environment: Mapping[str, str]) -> str:
    if bool(config.token_sha256) == bool(config.token_env):
        raise _wrong(setting, "a caller has one token", "write either token_sha256 or token_env")
    if config.token_sha256:
        if not _SHA256.fullmatch(config.token_sha256):
            raise _wrong(f"{setting}.token_sha256", "it is no SHA-256", "write 64 hex digits, as of `sha256sum`")
        return config.token_sha256.lower()
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

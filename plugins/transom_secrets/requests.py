"""What the plugin's operations take and give. Times are milliseconds (Unix).

The fields of a request are also the arguments and options of its command, so a field that may be given several times is
named by its one value (`--host a.example --host b.example`).
"""

import msgspec


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every request has in common: a field that is not known is refused."""


class SetSecret(Request, frozen=True, kw_only=True):
    """Set a secret: a new one, or a new value, hosts and use of one that is there.

    Parameters:
        name: what `{{secret:NAME}}` names it by; letters, digits, `-` and `_`.
        value: 1 byte to 64 KiB of text.
        host: where it may be sent or sign for, each `host` or `host:port`; in clear (`http`) only where the port is named.
        signing: it signs what is sent to its hosts, and is never sent itself.
    """

    name: str
    value: str
    host: tuple[str, ...] = ()
    signing: bool = False

    def __repr__(self) -> str:
        return f"SetSecret(name={self.name!r}, value=…, host={self.host!r}, signing={self.signing!r})"


class ListSecrets(Request, frozen=True, kw_only=True):
    """The tenant's secrets by name, never their values."""


class DeleteSecret(Request, frozen=True, kw_only=True):
    """Delete a secret, and what tools were allowed of it."""

    name: str


class ApproveSecretEnv(Request, frozen=True, kw_only=True):
    """Let a tool have a secret's plain value, where its functions or processes declare that they need it.

    Parameters:
        tool: the tool's name, as in `<tool>.<function>`.
        name: the secret's.
        revoke: it may no longer have it.
    """

    tool: str
    name: str
    revoke: bool = False


class RotateSecretKey(Request, frozen=True, kw_only=True):
    """Encrypt every tenant's secrets with a new key, at once. Only an operator of the process may."""


class SecretView(msgspec.Struct, frozen=True, kw_only=True):
    """A secret without its value.

    Parameters:
        hosts: where it may be sent, or sign for.
        tools: those that may have its plain value.
        filtered: whether its value is looked for in texts; one of fewer than 8 characters is not.
        rotated_at: when its value was last set.
    """

    name: str
    hosts: tuple[str, ...]
    signing: bool
    tools: tuple[str, ...]
    filtered: bool
    created_at: int
    rotated_at: int


class SecretPage(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant's secrets."""

    secrets: tuple[SecretView, ...]


class SecretDone(msgspec.Struct, frozen=True, kw_only=True):
    """It is done. `secrets`: how many it was done to."""

    secrets: int = 1

"""The plugin's settings, and what must be true of them."""

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from transom_hookspecs import NAME, Role, TransomError


class ProviderSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One provider, `[oidc.providers.<name>]`.

    Parameters:
        issuer: the provider's issuer, to the letter; https, or http on this machine.
        client_id: what the provider knows this server as.
        client_secret_env: the environment variable that holds the client's secret.
        tenant: the tenant that people sign in to.
        person: the claim that a person's id is taken from. `email` counts only when the provider says that it is verified.
        create_role: the role of who signs in for the first time; empty lets in only those who are there.
        scopes: what is asked for, beside `openid`.
        public_url: where browsers reach this server, when that is not the host that they name (`https://agents.example`).
    """

    issuer: str
    client_id: str
    client_secret_env: str
    tenant: str = "default"
    person: str = "sub"
    create_role: Role | None = None
    scopes: tuple[str, ...] = ("profile", "email")
    public_url: str = ""


class OidcSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The plugin's settings: providers by name."""

    providers: dict[str, ProviderSettings] = {}


def checked(
    providers: Mapping[str, ProviderSettings], environment: Mapping[str, str]
) -> dict[str, tuple[ProviderSettings, str]]:
    """The providers, each with its client's secret.

    Raises:
        TransomError: invalid_argument, naming the setting, what is wrong and the remedy.
    """
    return {name: (settings, _secret(name, settings, environment)) for name, settings in providers.items()}


def _secret(name: str, settings: ProviderSettings, environment: Mapping[str, str]) -> str:
    place = f"oidc.providers.{name}"
    if not NAME.match(name):
        raise _wrong(place, "the name is not one; use letters, digits, - and _, at most 63")
    for field, url in (("issuer", settings.issuer), ("public_url", settings.public_url)):
        if url and not _is_address(url):
            raise _wrong(f"{place}.{field}", "it is no address; write https://…, or http://… on this machine, without a query")
    secret = environment.get(settings.client_secret_env, "")
    if len(secret) < 16:
        raise _wrong(
            f"{place}.client_secret_env",
            f"the environment variable {settings.client_secret_env!r} holds no secret; set it to the client's, of at least "
            "16 characters",
        )
    return secret


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    here = host in ("localhost", "127.0.0.1", "::1")
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and here)) and not (parts.query or parts.fragment)


def _wrong(setting: str, problem: str) -> TransomError:
    return TransomError("invalid_argument", f"{setting}: {problem}")

"""A provider, as it is asked: what it says of itself, tokens for a code, its keys, and what it tells of a person."""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, TypeVar, cast
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
import msgspec
from joserfc.jwk import KeySet

from transom_hookspecs import JsonObject, Kernel, TransomError

from .claims import UnknownKey, id_claims
from .pending import Pending, key_of
from .settings import ProviderSettings

T = TypeVar("T")

LONGEST = 1024 * 1024
"""Bytes of a provider's answer."""

FRESH = 3600.0
"""Seconds after which a provider is asked again what it says of itself."""

KEYS_AGAIN = 30.0
"""Seconds between two looks at its keys, when a token names one that is not known: it may have made a new one."""


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """What of a provider's discovery document is used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What a code was exchanged for."""

    id_token: str
    access_token: str = ""


class Provider:
    """One provider.

    Parameters:
        secret: the client's.
    """

    def __init__(self, name: str, settings: ProviderSettings, secret: str) -> None:
        self.name, self.settings = name, settings
        self.key = key_of(name, secret)
        self._secret = secret
        self._metadata: tuple[float, Metadata] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._client: httpx.AsyncClient

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Hold a client open."""
        transport = cast(httpx.AsyncBaseTransport, kernel.outbound.operator(f"oidc.{self.name}"))
        async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=10, follow_redirects=False) as client:
            self._client = client
            yield

    async def sign_in_url(self, pending: Pending, redirect_uri: str) -> str:
        """Where the browser goes to sign in."""
        metadata = await self._discovered()
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(dict.fromkeys(("openid", *self.settings.scopes))),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": pending.challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(metadata.authorization_endpoint).query else "?"
        return f"{metadata.authorization_endpoint}{joint}{urlencode(asked)}"

    async def claims(self, code: str, pending: Pending, redirect_uri: str, now: int) -> JsonObject:
        """What the provider says of the person who signed in, checked.

        Parameters:
            now: the time in seconds (Unix).

        Raises:
            TransomError: unauthenticated when the code or the ID token is not good, unavailable when the provider does not
                answer as it should.
        """
        metadata = await self._discovered()
        tokens = await self._tokens(metadata, code, pending, redirect_uri)
        claims = await self._checked(metadata, tokens.id_token, pending.nonce, now)
        if not metadata.userinfo_endpoint or not tokens.access_token:
            return claims  # else it is asked: many providers tell name and address only there
        headers = {"authorization": f"Bearer {tokens.access_token}"}
        told = await self._ask("GET", metadata.userinfo_endpoint, dict[str, Any], headers=headers)
        if told.get("sub") != claims["sub"]:
            raise self._refused("its userinfo is of somebody else")
        return {**told, **claims}

    async def _checked(self, metadata: Metadata, token: str, nonce: str, now: int) -> JsonObject:
        client = self.settings.client_id
        try:
            return id_claims(token, await self._jwks(metadata), metadata.issuer, client, nonce, now)
        except UnknownKey:
            keys = await self._jwks(metadata, again=True)
        return id_claims(token, keys, metadata.issuer, client, nonce, now)

    async def _tokens(self, metadata: Metadata, code: str, pending: Pending, redirect_uri: str) -> Tokens:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": pending.verifier,
        }
        client, headers = self.settings.client_id, {}
        if "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            pair = f"{quote_plus(client)}:{quote_plus(self._secret)}"
            headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        else:
            form |= {"client_id": client, "client_secret": self._secret}
        return await self._ask("POST", metadata.token_endpoint, Tokens, headers=headers, data=form)

    async def _discovered(self) -> Metadata:
        if self._metadata is None or self._metadata[0] < monotonic():
            url = self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration"
            metadata = await self._ask("GET", url, Metadata)
            if metadata.issuer != self.settings.issuer:
                raise self._refused("it calls itself by another issuer than the setting says")
            endpoints = (metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri)
            if self.settings.issuer.startswith("https:") and not all(each.startswith("https:") for each in endpoints):
                raise self._refused("it names an address without TLS")
            self._metadata = (monotonic() + FRESH, metadata)
        return self._metadata[1]

    async def _jwks(self, metadata: Metadata, *, again: bool = False) -> KeySet:
        if self._keys is None or self._keys[0] < monotonic() - (KEYS_AGAIN if again else FRESH):
            told = await self._ask("GET", metadata.jwks_uri, dict[str, Any])
            try:
                self._keys = (monotonic(), KeySet.import_key_set(cast(Any, told)))
            except (ValueError, KeyError, TypeError) as error:
                raise self._refused("its keys cannot be read") from error
        return self._keys[1]

    async def _ask(
        self,
        method: str,
        url: str,
        kind: type[T],
        *,
        headers: Mapping[str, str] | None = None,
        data: Mapping[str, str] | None = None,
    ) -> T:
        """A JSON answer of the provider's; of an error no text is told, since it may hold what was sent."""
        try:
            async with self._client.stream(method, url, headers=headers, data=data) as answer:
                body = bytearray()
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > LONGEST:
                        raise self._refused("its answer is too long")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise TransomError(
                "unavailable", f"the OpenID provider {self.name!r} cannot be reached; try again later"
            ) from error
        if answer.status_code in (400, 401, 403) and method == "POST":
            raise TransomError("unauthenticated", f"the OpenID provider {self.name!r} does not take the sign-in; sign in again")
        if answer.status_code != 200:
            raise self._refused(f"it answered {answer.status_code}")
        try:
            return msgspec.json.decode(bytes(body), type=kind)
        except msgspec.DecodeError as error:
            raise self._refused("its answer cannot be read") from error

    def _refused(self, problem: str) -> TransomError:
        return TransomError("unavailable", f"the OpenID provider {self.name!r} is not as it should be: {problem}")

"""Token exchange (RFC 8693): a registered app gives a person's token and gets a short one that acts for her through it."""

import base64
import binascii
from collections.abc import Mapping
from urllib.parse import unquote_plus

from transom_hookspecs import NAME, AuditEntry, Caller, RequestHead, TransomError, Tx

from .home import Home, Known, add_credential, narrower
from .origins import is_this_server
from .records import App, Credential
from .tokens import TOKEN, digest, make, new_id

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type's name
LIFE = 900
"""Seconds that an app's token is good at most."""

_SCOPES = "scope: name agents that the app reaches, or * for all of them"


class OAuthError(Exception):
    """A refusal in the words of RFC 6749.

    Parameters:
        status: of HTTP, 400 or 401.
        error: the RFC's code.
    """

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error, self.description, self.status = error, description, status


class Exchange:
    """Exchanges tokens."""

    def __init__(self, home: Home) -> None:
        self._home = home

    async def exchange(self, head: RequestHead, form: Mapping[str, str]) -> dict[str, str | int]:
        """The answer of POST /oauth/token.

        Raises:
            OAuthError: the refusal.
        """
        app = await self._app(head, form)
        _check_form(form)
        subject, parent = await self._subject(app, form.get("subject_token", ""))
        self._check_audience(head, app, form)
        record = await self._home.kernel.store.get(app.tenant, App, app.owner.removeprefix("app:"))
        if record is None:
            raise _bad_client()
        scopes = _granted(form.get("scope"), record.scopes)
        token, expires_in = make("at"), LIFE

        def write(tx: Tx) -> int:
            if tx.system.get(Credential, app.hash) is None:
                raise TransomError("unauthenticated", "the app was revoked a moment ago")
            expires = min(tx.now + LIFE * 1000, parent.expires_at if parent else tx.now + LIFE * 1000)
            row = Credential(
                hash=digest(token),
                id=new_id(),
                form="at",
                tenant=app.tenant,
                owner=f"person:{subject.id}",
                app=record.name,
                parent=parent.hash if parent else "",
                scopes=scopes,
                expires_at=expires,
                dev=app.dev or bool(parent and parent.dev),
            )
            add_credential(tx, row)
            entry = AuditEntry(
                action="token.exchange", caller=f"person:{subject.id}", via=f"app:{record.name}", door="identity", object=row.id
            )
            tx.audit(entry)
            tx.touch("audit")
            return (expires - tx.now) // 1000

        try:
            expires_in = await self._home.kernel.store.transact(app.tenant, write)
        except TransomError as error:
            if error.code != "unauthenticated":
                raise
            raise OAuthError("invalid_request", error.message) from error
        return {
            "access_token": token,
            "issued_token_type": ACCESS_TOKEN,
            "token_type": "Bearer",
            "expires_in": expires_in,
            "scope": "*" if scopes is None else " ".join(scopes),
        }

    # -- the app

    async def _app(self, head: RequestHead, form: Mapping[str, str]) -> Credential:
        """The app that asks, by its own key in one of the three places where the RFC allows it."""
        client, secret = _client(head, form)
        known = await self._home.credential(digest(secret)) if TOKEN.fullmatch(secret) else None
        if known is None or known[0].form != "app" or client not in ("", known[0].owner.removeprefix("app:")):
            raise _bad_client()
        return known[0]

    # -- the person

    async def _subject(self, app: Credential, token: str) -> tuple[Caller, Credential | None]:
        """The person whose token it is, and the row that the new one dies with (none of one that stands in transom.toml)."""
        if not TOKEN.fullmatch(token):
            raise _bad_subject()
        known = await self._home.credential(digest(token))
        caller = known[1] if known is not None else self._home.configured.find(digest(token))
        if caller is None or not caller.is_person or caller.tenant != app.tenant or not _is_hers(known):
            raise _bad_subject()
        if await self._home.member(caller, caller.tenant) is None:
            raise _bad_subject()
        return caller, known[0] if known is not None else None

    def _check_audience(self, head: RequestHead, app: Credential, form: Mapping[str, str]) -> None:
        """A token is for this server and no other."""
        public_url = self._home.kernel.settings(app.tenant).public_url
        for field in ("audience", "resource"):
            if field in form and not is_this_server(head, form[field], public_url):
                raise OAuthError(
                    "invalid_target", f"{field}: tokens are for this server alone; leave it out, or give its origin"
                )


def _is_hers(known: Known | None) -> bool:
    """Whether the person has it herself; what an app got for her is good for no other exchange, whosever app it is."""
    return known is None or known[0].form in ("pat", "ses")


def _check_form(form: Mapping[str, str]) -> None:
    if form.get("grant_type") != GRANT:
        raise OAuthError("unsupported_grant_type", f"grant_type: send {GRANT}")
    if form.get("subject_token_type") != ACCESS_TOKEN:
        raise OAuthError("invalid_request", f"subject_token_type: send {ACCESS_TOKEN}")
    if form.get("requested_token_type", ACCESS_TOKEN) != ACCESS_TOKEN:
        raise OAuthError("invalid_request", f"requested_token_type: there are only {ACCESS_TOKEN}")
    if "actor_token" in form or "actor_token_type" in form:
        raise OAuthError("invalid_request", "actor_token: the app acts by its own key; leave it out")


def _client(head: RequestHead, form: Mapping[str, str]) -> tuple[str, str]:
    """The app's name, when it is given, and its key; exactly one way of showing it may be used."""
    values = head.headers.get("authorization", ())
    if len(values) > 1 or "x-api-key" in head.headers or (values and "client_secret" in form):
        raise OAuthError("invalid_request", "an app shows its key in one way: Bearer, Basic or client_secret")
    if not values:
        return form.get("client_id", ""), form.get("client_secret", "")
    scheme, _, rest = values[0].partition(" ")
    if scheme.lower() == "bearer":
        return form.get("client_id", ""), rest
    if scheme.lower() != "basic":
        raise _bad_client()
    try:
        name, _, secret = base64.b64decode(rest, validate=True).decode("ascii").partition(":")
    except (binascii.Error, ValueError) as error:
        raise _bad_client() from error
    name = unquote_plus(name)
    if form.get("client_id", name) != name or not name:
        raise _bad_client()
    return name, unquote_plus(secret)


def _granted(asked: str | None, allowed: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The agents that the token reaches: those that are asked for, which the app must reach, or all that it does."""
    if asked is None or asked == "*":
        if asked == "*" and allowed is not None:
            raise OAuthError("invalid_scope", _SCOPES)
        return allowed
    names = tuple(sorted(set(asked.split(" "))))
    if not all(map(NAME.match, names)) or narrower(names, allowed) != names:
        raise OAuthError("invalid_scope", _SCOPES)
    return names


def _bad_client() -> OAuthError:
    return OAuthError("invalid_client", "no registered app's own key was shown; it may have been revoked", 401)


def _bad_subject() -> OAuthError:
    return OAuthError("invalid_request", "subject_token: it is no token that a person has herself, or it is good no more")

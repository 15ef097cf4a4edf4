"""What the operations on credentials take and give: sessions, tokens of people and subjects, API keys, apps."""

import msgspec

from transom_hookspecs import Role

from .requests import Page, Request

# -- sessions and persons' tokens


class CreatePersonToken(Request, frozen=True, kw_only=True):
    """Make a token with which a person is known to programs, such as the command line. It is shown once.

    Parameters:
        id: the person; oneself, or anybody for who manages people.
        label: what it is for.
        expires: until then it is good, such as 30d or 12h; at most a year.
    """

    id: str
    label: str = ""
    expires: str = "90d"


class PersonToken(msgspec.Struct, frozen=True, kw_only=True):
    """A person's token, shown once: `token` is empty in the answer to a repeated call."""

    id: str
    person: str
    expires_at: int
    token: str = ""


class ListSessions(Request, frozen=True, kw_only=True):
    """Sessions, persons' tokens and apps' tokens that are good now, the newest first.

    Parameters:
        person: whose; empty means the caller's own.
        limit: 1 to 200.
    """

    person: str = ""
    limit: int = 50


class EndSession(Request, frozen=True, kw_only=True):
    """End a session or a token, and all that was made with it."""

    id: str


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """A session or token. `kind`: session, token (the person's own) or app."""

    id: str
    kind: str
    person: str
    created_at: int
    expires_at: int
    app: str = ""
    label: str = ""


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions."""

    sessions: tuple[SessionView, ...]


# -- keys


class CreateKey(Request, frozen=True, kw_only=True):
    """Make an API key. Its token is shown once.

    Parameters:
        name: letters, digits, - and _, at most 63.
        role: reader, member, operator or admin.
        scope: the only agents that it reaches; none means all.
        expires: until when it is good, such as 30d or 12h; empty means until it is revoked.
        label: is put on all that it creates.
        capability: what subjects reach through it: subjects, threads, tooling, knowledge, files.
        content: whether it may read content; left out, it goes by the role.
    """

    name: str
    role: Role = "member"
    scope: tuple[str, ...] = ()
    expires: str = ""
    label: str = ""
    capability: tuple[str, ...] = ()
    content: bool | None = None


class CreatedKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key, shown once: `token` is empty in the answer to a repeated call. `expires_at` 0 means never."""

    name: str
    token: str = ""
    expires_at: int = 0


class ListKeys(Page, frozen=True, kw_only=True):
    """The tenant's API keys, by name, without their tokens."""


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """An API key without its token.

    Parameters:
        scopes: None means all agents.
        expires_at: 0 means never.
        used_on: the day (UTC) on which it was used last, or empty.
    """

    name: str
    role: Role
    label: str = ""
    scopes: tuple[str, ...] | None = None
    content: bool | None = None
    capabilities: tuple[str, ...] = ()
    created_at: int = 0
    expires_at: int = 0
    used_on: str = ""


class KeyPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of API keys."""

    keys: tuple[KeyView, ...]
    cursor: str = ""


class RevokeKey(Request, frozen=True, kw_only=True):
    """Revoke an API key, and the tokens of subjects that it made, at once."""

    name: str


# -- apps


class RegisterApp(Request, frozen=True, kw_only=True):
    """Register an app. Its own key is shown once, and good only for exchanging persons' tokens at POST /oauth/token.

    Parameters:
        name: letters, digits, - and _, at most 63.
        scope: the only agents that people reach through it; none means all.
    """

    name: str
    scope: tuple[str, ...] = ()


class RegisteredApp(msgspec.Struct, frozen=True, kw_only=True):
    """An app's own key, shown once: `token` is empty in the answer to a repeated call."""

    name: str
    token: str = ""


class ListApps(Page, frozen=True, kw_only=True):
    """The tenant's registered apps, by name."""


class AppView(msgspec.Struct, frozen=True, kw_only=True):
    """A registered app, without its key."""

    name: str
    scopes: tuple[str, ...] | None = None
    created_at: int = 0


class AppPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of apps."""

    apps: tuple[AppView, ...]
    cursor: str = ""


class RevokeApp(Request, frozen=True, kw_only=True):
    """Revoke an app: its own key and its tokens for people are good no more, at once."""

    name: str


# -- subjects


class CreateSubjectToken(Request, frozen=True, kw_only=True):
    """Make a short token that acts for one subject. For API keys with the capability `subjects`.

    Parameters:
        subject: the subject's id, as the key's owner knows it.
        expires_in: seconds, 60 to 3,600.
    """

    subject: str
    expires_in: int = 900


class SubjectToken(msgspec.Struct, frozen=True, kw_only=True):
    """A subject's token, shown once."""

    token: str
    subject_id: str
    expires_at: int

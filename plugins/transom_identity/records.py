"""What the plugin keeps: people, teams, keys and apps under their tenant; tenants and credentials under SYSTEM.

A credential is looked up before its tenant is known, and by its hash alone. Whoever revokes deletes rows of it; so a
credential whose row is there is good until it expires, and nothing else has to be asked.
"""

from typing import Literal

import msgspec

from transom_hookspecs import NEVER, Index, Record, Role, TenantSettings

Form = Literal["key", "app", "pat", "ses", "at", "sub"]
"""What a credential is: an API key, an app's own key, a person's token, a session, an app's token for a person, a subject's."""


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant that was made, or that settings were made for. Kept under SYSTEM.

    Parameters:
        made: whether it was made here; else it is one of transom.toml with settings.
    """

    name: str
    settings: TenantSettings = TenantSettings()
    made: bool = True
    created_at: int = 0


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """A secret's SHA-256, and who it speaks for. Kept under SYSTEM.

    Parameters:
        hash: in hex.
        id: a public name of the row, for lists.
        owner: `person:anna`, `key:ci`, `app:desk`, `subject:u1`.
        app: the app that acts for the owner, or empty.
        parent: the hash of the credential that it was made with, and dies with; or empty.
        label: what an API key puts on all that it creates; what a person called her token.
        key: of a subject's token: the name of the key that made it.
        scopes: the only agents that it reaches; None means no such limit.
        dev: of development mode; good in no other.
    """

    hash: str
    id: str
    form: Form
    tenant: str
    owner: str
    app: str = ""
    parent: str = ""
    label: str = ""
    key: str = ""
    scopes: tuple[str, ...] | None = None
    created_at: int = 0
    expires_at: int = NEVER
    dev: bool = False


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A person of a tenant.

    Parameters:
        id: what she signs in with.
        content: whether she may read content; None goes by the role.
        rights: permissions apart from the role; `-feeds.read` takes one away.
        dev: of development mode; nobody in any other.
    """

    id: str
    role: Role
    name: str = ""
    content: bool | None = None
    rights: tuple[str, ...] = ()
    disabled: bool = False
    created_at: int = 0
    dev: bool = False


class Password(msgspec.Struct, frozen=True, kw_only=True):
    """The hash of a person's password, apart from her so that no list ever holds it."""

    person: str
    hash: str
    set_at: int


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """A team of a tenant."""

    name: str
    created_at: int = 0


class TeamMember(msgspec.Struct, frozen=True, kw_only=True):
    """That a person is in a team."""

    team: str
    person: str


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """An API key, without its secret.

    Parameters:
        label: what is on all that it creates.
        capabilities: what subjects reach through it (`subjects`, `threads`, …).
        used_on: the last day (UTC) on which it was used, or empty.
    """

    name: str
    hash: str
    role: Role
    label: str = ""
    scopes: tuple[str, ...] | None = None
    content: bool | None = None
    capabilities: tuple[str, ...] = ()
    created_at: int = 0
    expires_at: int = NEVER
    used_on: str = ""
    dev: bool = False


class App(msgspec.Struct, frozen=True, kw_only=True):
    """A registered app, without its secret. `scopes`: the only agents that people reach through it."""

    name: str
    hash: str
    scopes: tuple[str, ...] | None = None
    created_at: int = 0
    dev: bool = False


RECORDS: tuple[Record, ...] = (
    Record(type=Tenant, key=("name",), indexes=(Index("all", ("name",)),)),
    Record(
        type=Credential,
        key=("hash",),
        indexes=(
            Index("owner", ("tenant", "owner", "hash")),
            Index("app", ("tenant", "app", "hash")),
            Index("parent", ("parent", "hash")),
            Index("id", ("tenant", "id", "hash")),
            Index("expiry", ("expires_at", "hash")),
        ),
    ),
    Record(type=Person, key=("id",), indexes=(Index("all", ("id",)),)),
    Record(type=Password, key=("person",)),
    Record(type=Team, key=("name",), indexes=(Index("all", ("name",)),)),
    Record(
        type=TeamMember,
        key=("team", "person"),
        indexes=(Index("team", ("team", "person")), Index("person", ("person", "team"))),
    ),
    Record(type=Key, key=("name",), indexes=(Index("all", ("name",)),)),
    Record(type=App, key=("name",), indexes=(Index("all", ("name",)),)),
)

"""What the plugin's operations take and give. Times are milliseconds (Unix).

The fields of a request are also the arguments and options of its command, so a field that may be given several times is
named by its one value (`--team desk --team sales`).
"""

import msgspec

from transom_hookspecs import Role, TenantSettings


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every request has in common: a field that is not known is refused."""


class Page(Request, frozen=True, kw_only=True):
    """A page of a list. `limit` 1 to 200; `cursor` from the page before."""

    limit: int = 50
    cursor: str = ""


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """It is done. `changed`: whether anything changed by it."""

    changed: bool = True


# -- tenants


class CreateTenant(Request, frozen=True, kw_only=True):
    """Make a tenant, with default settings. For operators of the process."""

    name: str


class ListTenants(Page, frozen=True, kw_only=True):
    """The tenants, by name: all for an operator of the process, else the caller's own."""


class GetTenant(Request, frozen=True, kw_only=True):
    """A tenant's settings."""

    name: str


class UpdateTenant(Request, frozen=True, kw_only=True):
    """Change a tenant's settings; what is left out stays as it is.

    Parameters:
        ai_label: what answers of agents are marked with; empty turns it off.
        retention_days: how long the content of ended jobs is kept.
        audit_days: how long entries of the audit trail are kept.
        works_council: lists and figures name nobody but the caller.
        public_url: where people reach the server, for links; empty when there is no such place.
        link_domain: hosts that links of cards and notes may lead to, instead of those before.
        time_zone: an IANA name, such as Europe/Berlin.
        wait_seconds: how long an unanswered wait stays open.
        recheck_seconds: how long after a wait opened a yes is checked against policy once more.
    """

    name: str
    ai_label: str | None = None
    retention_days: int | None = None
    audit_days: int | None = None
    works_council: bool | None = None
    public_url: str | None = None
    link_domain: tuple[str, ...] | None = None
    time_zone: str | None = None
    wait_seconds: int | None = None
    recheck_seconds: int | None = None


class UpdateTenantOrigins(Request, frozen=True, kw_only=True):
    """Let pages of other origins (`https://app.example`) read streams, or no longer; without a change it shows them."""

    name: str
    allow_origin: tuple[str, ...] = ()
    remove_origin: tuple[str, ...] = ()


class TenantView(TenantSettings, frozen=True, kw_only=True, omit_defaults=False):
    """A tenant and its settings."""

    name: str


class TenantPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of tenants."""

    tenants: tuple[TenantView, ...]
    cursor: str = ""


# -- teams


class CreateTeam(Request, frozen=True, kw_only=True):
    """Make a team."""

    name: str


class DeleteTeam(Request, frozen=True, kw_only=True):
    """Delete a team; nobody is in it any more."""

    name: str


class ListTeams(Page, frozen=True, kw_only=True):
    """The tenant's teams, by name."""


class AddTeamMember(Request, frozen=True, kw_only=True):
    """Put a person into a team."""

    team: str
    person: str


class RemoveTeamMember(Request, frozen=True, kw_only=True):
    """Take a person out of a team."""

    team: str
    person: str


class TeamView(msgspec.Struct, frozen=True, kw_only=True):
    """A team. `people`: the first 200 of it; in works-council mode only the caller, unless she manages people."""

    name: str
    people: tuple[str, ...] = ()


class TeamPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of teams."""

    teams: tuple[TeamView, ...]
    cursor: str = ""


# -- people


class CreatePerson(Request, frozen=True, kw_only=True):
    """Add a person to the tenant.

    Parameters:
        id: what she signs in with; letters, digits and `._@+-`, at most 128.
        role: reader, member, operator or admin.
        name: how she is called.
        team: teams that she is in.
        content: whether she may read content; left out, it goes by the role.
        right: permissions apart from the role, such as audit.read; -feeds.read takes one away.
    """

    id: str
    role: Role = "member"
    name: str = ""
    team: tuple[str, ...] = ()
    content: bool | None = None
    right: tuple[str, ...] = ()


class UpdatePerson(Request, frozen=True, kw_only=True):
    """Change a person; what is left out stays as it is.

    Parameters:
        content: whether she may read content.
        add_right, remove_right: permissions apart from the role; adding -feeds.read takes one away.
    """

    id: str
    role: Role | None = None
    name: str | None = None
    content: bool | None = None
    add_right: tuple[str, ...] = ()
    remove_right: tuple[str, ...] = ()


class ListPeople(Page, frozen=True, kw_only=True):
    """The tenant's people, by id; in works-council mode only the caller, unless she manages people."""


class DisablePerson(Request, frozen=True, kw_only=True):
    """Let a person in no more: her sessions, tokens and those of apps for her end at once. Her records stay."""

    id: str


class EnablePerson(Request, frozen=True, kw_only=True):
    """Let a person in again; she signs in anew."""

    id: str


class SetPassword(Request, frozen=True, kw_only=True):
    """Set a person's password; her sessions end.

    Parameters:
        password: 12 to 256 characters.
        current: the one until now, when she has one and changes it herself.
    """

    id: str
    password: str
    current: str = ""


class PersonView(msgspec.Struct, frozen=True, kw_only=True):
    """A person. `configured`: she stands in transom.toml and is changed there."""

    id: str
    role: Role
    name: str = ""
    teams: tuple[str, ...] = ()
    content: bool | None = None
    rights: tuple[str, ...] = ()
    disabled: bool = False
    configured: bool = False


class PeoplePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of people."""

    people: tuple[PersonView, ...]
    cursor: str = ""

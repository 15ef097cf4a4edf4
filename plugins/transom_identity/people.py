"""People of a tenant: who they are, what role they have, and whether they are let in."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from transom_hookspecs import Call, Member, Operation, TransomError, Tx

from .checks import (
    check_name,
    check_no_more_than_own,
    check_person,
    check_rights,
    check_text,
    few,
    is_herself,
    is_operator,
    limit_of,
    missing,
    page,
    reads_content,
    taken,
)
from .home import MEMBERS, Home, forget_credential, owned
from .passwords import Passwords
from .records import Password, Person, Team, TeamMember
from .requests import (
    CreatePerson,
    DisablePerson,
    Done,
    EnablePerson,
    ListPeople,
    PeoplePage,
    PersonView,
    SetPassword,
    UpdatePerson,
)
from .rows import operation

R = TypeVar("R")


class PeopleDesk:
    """The handlers of people's operations."""

    def __init__(self, home: Home, passwords: Passwords) -> None:
        self._home = home
        self._passwords = passwords

    def operations(self) -> list[Operation]:
        """Their rows of the table."""
        return [
            operation(CreatePerson, PersonView, self.create, "people.manage", audit="person.create", command="person create"),
            operation(UpdatePerson, PersonView, self.update, "people.manage", audit="person.update", command="person set"),
            operation(ListPeople, PeoplePage, self.list, "people.read", command="person list"),
            operation(DisablePerson, Done, self.disable, "people.manage", audit="person.disable", command="person disable"),
            operation(EnablePerson, Done, self.enable, "people.manage", audit="person.enable", command="person enable"),
            operation(
                SetPassword,
                Done,
                self.set_password,
                "people.manage",
                audit="person.password",
                command="person password",
                late=True,
                secret=("password", "current"),
            ),
        ]

    async def create(self, call: Call, request: CreatePerson) -> PersonView:
        """Add a person."""
        id, name, rights = (
            check_person("id", request.id),
            check_text("name", request.name),
            check_rights("right", request.right),
        )
        few("team", request.team)
        teams = tuple(sorted({check_name("team", team) for team in request.team}))
        content = reads_content(request.role, request.content)
        await check_no_more_than_own(self._home, call, roles=(request.role,), content=content, rights=rights)
        self._not_configured(call, id)
        person = Person(id=id, role=request.role, name=name, content=request.content, rights=rights)

        def write(tx: Tx) -> PersonView:
            if self._home.shown(tx.get(Person, id)) is not None:
                raise taken("person", id)
            tx.put(msgspec.structs.replace(person, created_at=tx.now))
            for team in teams:
                if tx.get(Team, team) is None:
                    raise missing("team", team)
                tx.put(TeamMember(team=team, person=id))
            tx.touch(MEMBERS)
            return view(person, teams)

        return await self._write(call, write, id, role=request.role, rights=list(rights))

    async def update(self, call: Call, request: UpdatePerson) -> PersonView:
        """Change a person."""
        added, removed = check_rights("add_right", request.add_right), check_rights("remove_right", request.remove_right)
        changes: dict[str, object] = {}
        if request.name is not None:
            changes["name"] = check_text("name", request.name)
        if request.role is not None:
            changes["role"] = request.role
        if request.content is not None:
            changes["content"] = request.content
        person = await self._person(call, request.id)
        given = (*added, *(right.removeprefix("-") for right in removed))  # taking away a -right gives it
        content = reads_content(request.role or person.role, person.content if request.content is None else request.content)
        more = content and not reads_content(person.role, person.content)
        await check_no_more_than_own(self._home, call, roles=(person.role, request.role), content=more, rights=given)

        def write(tx: Tx) -> PersonView:
            now = self._home.shown(tx.get(Person, request.id))
            if now is None or now.role != person.role:
                raise TransomError("aborted", "the person was changed by somebody else a moment ago; look and try again")
            rights = check_rights("add_right", sorted({*now.rights, *added} - set(removed)))
            changed = tx.update(now, rights=rights, **changes)
            tx.touch(MEMBERS)
            return view(changed, tuple(each.team for each in tx.select(TeamMember, "person", {"person": now.id})))

        told = {**{f: v for f, v in changes.items() if f != "name"}, "add": list(added), "remove": list(removed)}
        return await self._write(call, write, request.id, **told)

    async def list(self, call: Call, request: ListPeople) -> PeoplePage:
        """The people: those of the records a page at a time, before them those of transom.toml."""
        tenant, only = call.origin.tenant, await self.only(call)
        limit_of(request.limit)
        found: list[PersonView] = []
        if not request.cursor:
            named = self._home.configured.named("person", tenant)
            found = [_configured(id, member) for id, member in named if only is None or id == only]
        if only is not None:
            own = self._home.shown(await self._home.kernel.store.get(tenant, Person, only))
            rows, cursor = [own] if own is not None else [], ""
        else:
            rows, cursor = await page(self._home, tenant, Person, request, "id")
        for row in rows:
            teams = await self._home.kernel.store.select(tenant, TeamMember, "person", {"person": row.id})
            found.append(view(row, tuple(each.team for each in teams)))
        return PeoplePage(people=tuple(found), cursor=cursor)

    async def only(self, call: Call) -> str | None:
        """The one person that a list may name to this caller (empty: nobody); None when it may name all."""
        caller, tenant = call.origin.caller, call.origin.tenant
        if is_operator(caller) or not self._home.kernel.settings(tenant).works_council:
            return None
        if (await self._home.kernel.may(caller, tenant, "people.manage")).ruling == "allow":
            return None
        return caller.id if caller.is_person else ""

    async def disable(self, call: Call, request: DisablePerson) -> Done:
        """Let a person in no more."""
        person = await self._person(call, request.id)
        await check_no_more_than_own(self._home, call, roles=(person.role,))

        def write(tx: Tx) -> Done:
            changed = self._set_disabled(tx, request.id, disabled=True)
            for row in owned(tx, call.origin.tenant, f"person:{request.id}"):
                forget_credential(tx, row)
            return changed

        return await self._write(call, write, request.id)

    async def enable(self, call: Call, request: EnablePerson) -> Done:
        """Let a person in again."""
        person = await self._person(call, request.id)
        await check_no_more_than_own(self._home, call, roles=(person.role,))
        return await self._write(call, lambda tx: self._set_disabled(tx, request.id, disabled=False), request.id)

    def _set_disabled(self, tx: Tx, id: str, *, disabled: bool) -> Done:
        person = self._home.shown(tx.get(Person, id))
        if person is None:
            raise missing("person", id)
        tx.update(person, disabled=disabled)
        tx.touch(MEMBERS)
        return Done(changed=person.disabled != disabled)

    async def set_password(self, call: Call, request: SetPassword) -> Done:
        """Set a password: anybody's for who manages people, one's own with the one until now."""
        caller, tenant = call.origin.caller, call.origin.tenant
        herself = is_herself(caller, request.id)
        if not herself:
            await call.require("people.manage", request.id)
        person = await self._person(call, request.id)
        if not herself:
            content = reads_content(person.role, person.content)
            await check_no_more_than_own(self._home, call, roles=(person.role,), content=content)
        elif not await self._passwords.is_current(tenant, request.id, request.current):
            raise TransomError("permission_denied", "current: it is not the password until now")
        hashed = await self._passwords.hash(request.password)

        def write(tx: Tx) -> Done:
            tx.put(Password(person=request.id, hash=hashed, set_at=tx.now))
            for row in owned(tx, tenant, f"person:{request.id}"):
                if row.form == "ses":
                    forget_credential(tx, row)
            return Done()

        return await self._write(call, write, request.id)

    async def _person(self, call: Call, id: str) -> Person:
        self._not_configured(call, id)
        person = self._home.shown(await self._home.kernel.store.get(call.origin.tenant, Person, id))
        if person is None:
            raise missing("person", id)
        return person

    def _not_configured(self, call: Call, id: str) -> None:
        if self._home.configured.member("person", id, call.origin.tenant) is not None:
            raise TransomError("failed_precondition", f"{id!r} stands in transom.toml; change her there, or choose another id")

    async def _write(self, call: Call, write: Callable[[Tx], R], id: str, **details: object) -> R:
        answer = await call.transact(write, object=id, details=msgspec.to_builtins(details))
        self._home.changed()
        return answer


def view(person: Person, teams: tuple[str, ...]) -> PersonView:
    """A person as callers see her."""
    return PersonView(
        id=person.id,
        role=person.role,
        name=person.name,
        teams=teams,
        content=person.content,
        rights=person.rights,
        disabled=person.disabled,
    )


def _configured(id: str, member: Member) -> PersonView:
    return PersonView(id=id, role=member.role or "reader", content=member.content, configured=True)

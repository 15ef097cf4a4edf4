"""Sessions and persons' tokens: how one begins, the list of those that are open, and how one ends."""

from collections.abc import Callable

import msgspec

from transom_hookspecs import SYSTEM, AuditEntry, Call, Operation, Role, Session, TransomError, Tx

from .checks import check_no_more_than_own, check_person, check_text, is_herself, limit_of, missing, reads_content, seconds_of
from .credential_requests import CreatePersonToken, EndSession, ListSessions, PersonToken, SessionPage, SessionView
from .home import Home, add_credential, forget_credential
from .passwords import Passwords
from .presented import COOKIE
from .records import Credential, Form, Password, Person
from .requests import Done
from .rows import operation
from .tokens import digest, make, new_id

SESSION = 12 * 3600
"""Seconds that a session lasts."""

LONGEST_TOKEN = 365 * 86_400

_KINDS = {"ses": "session", "pat": "token", "at": "app"}


class SessionDesk:
    """The service SignIn, and the handlers of the operations on sessions and persons' tokens."""

    def __init__(self, home: Home, passwords: Passwords) -> None:
        self._home = home
        self._passwords = passwords

    def operations(self) -> list[Operation]:
        """Their rows of the table."""
        return [
            operation(ListSessions, SessionPage, self.list, "sessions.manage", command="session list", late=True),
            operation(EndSession, Done, self.end, "sessions.manage", audit="session.end", command="session end", late=True),
            operation(
                CreatePersonToken,
                PersonToken,
                self.create_token,
                "people.manage",
                audit="person.token",
                command="person token",
                late=True,
            ),
        ]

    # -- signing in

    async def sign_in(
        self, tenant: str, person: str, *, secure: bool, role: Role | None = None, name: str = "", door: str = "identity"
    ) -> Session:
        """Begin a session for a person whom another plugin knows to be that person; see `transom_hookspecs.SignIn`."""
        check_person("person", person)

        def write(tx: Tx) -> None:
            if self._home.shown(tx.get(Person, person)) is None and role is not None:
                tx.put(Person(id=person, role=role, name=check_text("name", name), created_at=tx.now))
                tx.audit(AuditEntry(action="person.create", caller="system:sign-in", door=door, object=person))

        return await self._begin(tenant, person, write, secure=secure, door=door)

    async def sign_in_with_password(
        self, tenant: str, person: str, password: str, *, address: str, secure: bool, door: str
    ) -> Session:
        """Begin a session for a person who knows her password.

        Parameters:
            address: from where she tries.

        Raises:
            TransomError: unauthenticated, resource_exhausted after too many failures.
        """
        kept = await self._passwords.check(tenant, person, password, address)
        if kept is None:
            raise _nobody()

        def write(tx: Tx) -> None:
            if tx.get(Password, person) != kept:  # it was changed meanwhile
                raise _nobody()

        return await self._begin(tenant, person, write, secure=secure, door=door)

    async def _begin(self, tenant: str, person: str, first: Callable[[Tx], None], *, secure: bool, door: str) -> Session:
        token, id = make("ses"), new_id()

        def write(tx: Tx) -> int:
            first(tx)
            who = self._home.shown(tx.get(Person, person))
            if who is None or who.disabled:
                raise _nobody()
            expires = tx.now + SESSION * 1000
            add_credential(tx, _credential(token, id, "ses", tenant, person, expires))
            tx.audit(AuditEntry(action="session.create", caller=f"person:{person}", door=door, object=id))
            tx.touch("audit")
            return expires

        if tenant not in self._home.kernel.tenants():
            raise _nobody()
        expires = await self._home.kernel.store.transact(tenant, write)
        cookie = f"{COOKIE}={token}; Path=/; Max-Age={SESSION}; HttpOnly; SameSite=Strict" + ("; Secure" if secure else "")
        return Session(person=person, tenant=tenant, expires_at=expires, cookie=cookie)

    # -- the operations

    async def list(self, call: Call, request: ListSessions) -> SessionPage:
        """What is open of a person, the newest first."""
        caller, tenant = call.origin.caller, call.origin.tenant
        person = request.person or (caller.id if caller.is_person else "")
        if not is_herself(caller, person):
            await call.require("sessions.manage", person)
        limit, now = limit_of(request.limit), self._home.now()
        rows = await self._home.kernel.store.select(
            SYSTEM, Credential, "owner", {"tenant": tenant, "owner": f"person:{person}"}, limit=10_000
        )
        open = [row for row in rows if row.expires_at > now and self._home.shown(row)]
        newest = sorted(open, key=lambda row: (-row.created_at, row.id))[:limit]
        return SessionPage(sessions=tuple(map(_view, newest)))

    async def end(self, call: Call, request: EndSession) -> Done:
        """End a session or token."""
        caller, tenant = call.origin.caller, call.origin.tenant
        rows = await self._home.kernel.store.select(SYSTEM, Credential, "id", {"tenant": tenant, "id": request.id})
        row = next((each for each in rows if each.form in _KINDS and self._home.shown(each)), None)
        if row is None or not is_herself(caller, row.owner.removeprefix("person:")):
            await call.require("sessions.manage", request.id)
            if row is None:
                raise missing("session", request.id)
            await self._check_reach(call, row)
        ended = row

        def write(tx: Tx) -> Done:
            return Done(changed=forget_credential(tx, ended) > 0)

        done = await call.transact(write, object=request.id, details={"owner": ended.owner, "kind": _KINDS[ended.form]})
        self._home.changed()
        return done

    async def create_token(self, call: Call, request: CreatePersonToken) -> PersonToken:
        """Make a token that speaks for a person."""
        caller, tenant = call.origin.caller, call.origin.tenant
        label, life = check_text("label", request.label), seconds_of("expires", request.expires, LONGEST_TOKEN) * 1000
        if not is_herself(caller, request.id):
            await call.require("people.manage", request.id)
            person = self._home.shown(await self._home.kernel.store.get(tenant, Person, request.id))
            if person is None:
                raise missing("person", request.id)
            content = reads_content(person.role, person.content)
            await check_no_more_than_own(self._home, call, roles=(person.role,), content=content)
        token, id = make("pat"), new_id()

        def write(tx: Tx) -> PersonToken:
            person = self._home.shown(tx.get(Person, request.id))
            if person is None:
                raise missing("person", request.id)
            if person.disabled:
                raise TransomError("failed_precondition", f"{request.id!r} is disabled; enable her first")
            row = _credential(token, id, "pat", tenant, request.id, tx.now + life)
            add_credential(tx, msgspec.structs.replace(row, label=label))
            return PersonToken(id=id, person=request.id, expires_at=row.expires_at)

        made = await call.transact(write, object=request.id, details={"id": id, "label": label})
        return msgspec.structs.replace(made, token=token)

    async def _check_reach(self, call: Call, row: Credential) -> None:
        person = await self._home.kernel.store.get(row.tenant, Person, row.owner.removeprefix("person:"))
        await check_no_more_than_own(self._home, call, roles=(person.role if person else None,))


def _credential(token: str, id: str, form: Form, tenant: str, person: str, expires_at: int) -> Credential:
    return Credential(hash=digest(token), id=id, form=form, tenant=tenant, owner=f"person:{person}", expires_at=expires_at)


def _view(row: Credential) -> SessionView:
    return SessionView(
        id=row.id,
        kind=_KINDS[row.form],
        person=row.owner.removeprefix("person:"),
        created_at=row.created_at,
        expires_at=row.expires_at,
        app=row.app,
        label=row.label,
    )


def _nobody() -> TransomError:
    return TransomError("unauthenticated", "this person and password do not fit, or nobody of that name is let in")

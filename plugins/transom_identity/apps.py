"""Registered apps: each has a key of its own, which is good for nothing but exchanging persons' tokens."""

import msgspec

from transom_hookspecs import Call, Operation, Tx

from .checks import check_name, check_no_more_than_own, check_scopes, missing, page, taken
from .credential_requests import AppPage, AppView, ListApps, RegisterApp, RegisteredApp, RevokeApp
from .home import MEMBERS, Home, add_credential, forget_credential, made_by_app, owned
from .records import App, Credential
from .requests import Done
from .rows import operation
from .tokens import digest, make, new_id


class AppDesk:
    """The handlers of apps' operations."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def operations(self) -> list[Operation]:
        """Their rows of the table."""
        return [
            operation(
                RegisterApp,
                RegisteredApp,
                self.register,
                "apps.manage",
                audit="app.register",
                command="app register",
                idempotent=True,
            ),
            operation(ListApps, AppPage, self.list, "apps.manage", command="app list"),
            operation(RevokeApp, Done, self.revoke, "apps.manage", audit="app.revoke", command="app revoke"),
        ]

    async def register(self, call: Call, request: RegisterApp) -> RegisteredApp:
        """Register an app."""
        tenant, name, scopes = call.origin.tenant, check_name("name", request.name), check_scopes("scope", request.scope)
        await check_no_more_than_own(self._home, call, roles=(), scopes=scopes)
        token = make("app")
        app = App(name=name, hash=digest(token), scopes=scopes)

        def write(tx: Tx) -> RegisteredApp:
            if self._home.shown(tx.get(App, name)) is not None:
                raise taken("app", name)
            tx.put(msgspec.structs.replace(app, created_at=tx.now))
            add_credential(tx, credential_of(app, tenant))
            tx.touch(MEMBERS)
            return RegisteredApp(name=name)

        made = await call.transact(write, object=name, details={"scopes": list(scopes or ())})
        self._home.changed()
        return msgspec.structs.replace(made, token=token)  # after the transaction: nothing that is kept has it

    async def list(self, call: Call, request: ListApps) -> AppPage:
        """The apps."""
        rows, cursor = await page(self._home, call.origin.tenant, App, request)
        views = tuple(AppView(name=row.name, scopes=row.scopes, created_at=row.created_at) for row in rows)
        return AppPage(apps=views, cursor=cursor)

    async def revoke(self, call: Call, request: RevokeApp) -> Done:
        """Revoke an app."""
        tenant = call.origin.tenant

        def write(tx: Tx) -> Done:
            if self._home.shown(tx.get(App, request.name)) is None:
                raise missing("app", request.name)
            tx.delete(App, request.name)
            for row in (*owned(tx, tenant, f"app:{request.name}"), *made_by_app(tx, tenant, request.name)):
                forget_credential(tx, row)
            tx.touch(MEMBERS)
            return Done()

        done = await call.transact(write, object=request.name)
        self._home.changed()
        return done


def credential_of(app: App, tenant: str) -> Credential:
    """What an app's own key is known by."""
    return Credential(hash=app.hash, id=new_id(), form="app", tenant=tenant, owner=f"app:{app.name}", dev=app.dev)

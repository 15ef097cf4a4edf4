"""Who calls: tenants, their people, teams, API keys and apps, and the credentials that they show.

Read in this order: `records` (what is kept), `tokens` and `presented` (what a request shows), `home` (from a credential to
its caller, and what a tenant knows of one), then the desks, which handle the operations: `tenants`, `people`, `teams`,
`sessions`, `keys`, `apps`, `subjects`; last `exchange` and `routes` (signing in, and an app's token for a person).
`callers` are those of transom.toml, `dev` those of development mode. What a caller may do is another plugin's to say.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
import msgspec

from transom_hookspecs import (
    Caller,
    DevTokens,
    Directory,
    Door,
    Kernel,
    Operation,
    Record,
    RequestHead,
    Service,
    SignIn,
    Tenants,
    hookimpl,
)

from .apps import AppDesk
from .callers import CallerConfig, Configured, OperatorConfig
from .dev import DevCallers, read_key
from .exchange import Exchange
from .home import Home
from .keys import KeyDesk
from .origins import check_own_page
from .passwords import Passwords
from .people import PeopleDesk
from .presented import presented
from .records import RECORDS
from .sessions import SessionDesk
from .subjects import SubjectDesk
from .teams import TeamDesk
from .tenants import TenantBook
from .tokens import digest, form_of, refused


class IdentityPlugin:
    """Authenticates callers, and knows tenants and their members."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """Settings.

        Parameters:
            callers: who calls with a token, by name.
            operators: who shows a certificate on the management port, by name.
        """

        callers: dict[str, CallerConfig] = {}
        operators: dict[str, OperatorConfig] = {}

    def __init__(self, config: Config) -> None:
        self.home = home = Home(Configured(config.callers, config.operators, os.environ))
        self._tenants = TenantBook(home)
        passwords = Passwords(home)
        people = PeopleDesk(home, passwords)
        self._keys = KeyDesk(home)
        self.sessions = SessionDesk(home, passwords)
        self.exchange = Exchange(home)
        desks = (self._tenants, people, TeamDesk(home, people), self.sessions, self._keys, AppDesk(home), SubjectDesk(home))
        self._operations = [each for desk in desks for each in desk.operations()]
        self._dev = DevCallers()

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Read the tenants, and let the development callers in, in development mode."""
        home = self.home
        home.kernel = kernel
        if kernel.dev:
            await self._dev.admit(home, await anyio.to_thread.run_sync(read_key, kernel.data))
        if home.has_store():
            await self._tenants.load()
            kernel.spawn(home.follow, name="changes of credentials")
            kernel.spawn(self._tenants.follow, name="changes of tenants")
            kernel.spawn(home.sweep, name="expired credentials")
        yield

    @hookimpl
    async def authenticate(self, head: RequestHead) -> Caller | None:
        """The caller whose credential a request shows; None when it shows none that this plugin knows."""
        shown = presented(head)
        if shown is None:
            return None
        if shown.way == "certificate":
            return self.home.configured.find(shown.value)
        hash = digest(shown.value)
        if shown.way == "bearer" and (caller := self.home.configured.find(hash)) is not None:
            return caller
        form = form_of(shown.value)
        if form is None and shown.way == "bearer":
            return None
        known = await self.home.credential(hash)
        if known is None or known[0].form == "app" or (known[0].form == "ses") != (shown.way == "session"):
            raise refused()
        if shown.way == "session":
            check_own_page(head, self.home.kernel.settings(known[0].tenant).public_url)
        if known[0].form == "key":
            self._keys.used(known[0])
        return known[1]

    @hookimpl
    def register_services(self) -> list[Service]:
        """The tenants, who belongs to them, sessions, and the tokens of the development callers."""
        return [
            Service(protocol=Tenants, provider=self._tenants),
            Service(protocol=Directory, provider=self.home),
            Service(protocol=SignIn, provider=self.sessions),
            Service(protocol=DevTokens, provider=self._dev),
        ]

    @hookimpl
    def register_records(self) -> list[Record]:
        """What is kept."""
        return list(RECORDS)

    @hookimpl
    def register_operations(self) -> list[Operation]:
        """The operations of every desk."""
        return self._operations

    @hookimpl
    def register_doors(self) -> list[Door]:
        """Where sessions, apps' tokens and subjects' tokens come from."""
        from .routes import DOOR, make_handlers

        return [Door(name=DOOR, handlers=make_handlers(self))]

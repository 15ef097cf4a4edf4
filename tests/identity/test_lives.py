"""Whatever is made, exchanged, revoked and disabled in whatever order, a credential is good exactly as long as it should be."""

import random

import anyio
import msgspec
import pytest

from transom_hookspecs import TransomError

pytestmark = pytest.mark.anyio

GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


class Made(msgspec.Struct):
    """A credential as the test knows it: what it hangs on, and how it ended."""

    token: str
    id: str = ""
    person: str = ""
    app: str = ""
    key: str = ""
    parent: "Made | None" = None
    until: float = float("inf")
    ended: bool = False


class World:
    """What there should be, beside the kernel that says what there is."""

    def __init__(self, home, clock, seed: int) -> None:
        self.home, self.clock, self.random = home, clock, random.Random(seed)
        self.now = 0.0
        self.disabled: set[str] = set()
        self.apps: dict[str, str] = {}
        self.made: list[Made] = []
        self.count = 0

    def good(self, each: Made) -> bool:
        """Whether a credential should be taken."""
        return not each.ended and each.until > self.now and (each.parent is None or self.good(each.parent))

    def some(self, *, of_people: bool = False) -> Made | None:
        found = [each for each in self.made if not of_people or (each.person and not each.app)]
        return self.random.choice(found) if found else None

    def end(self, **which: str) -> None:
        for each in self.made:
            if all(getattr(each, name) == value for name, value in which.items()):
                each.ended = True

    # -- what may happen

    async def token(self) -> None:
        person = self.random.choice(("kim", "lee"))
        minutes = self.random.choice((5, 60))
        answer = await self.home.ask("CreatePersonToken", id=person, expires=f"{minutes}m")
        assert (answer.status_code == 200) == (person not in self.disabled)
        if answer.status_code == 200:
            body = answer.json()
            self.made.append(Made(body["token"], id=body["id"], person=person, until=self.now + minutes * 60))

    async def key(self) -> None:
        self.count += 1
        name = f"k{self.count}"
        body = await self.home.did("CreateKey", name=name, capability=["subjects"], expires="30m")
        self.made.append(Made(body["token"], key=name, until=self.now + 1800))

    async def subject(self) -> None:
        parent = self.some()
        if parent is None or not parent.key or parent.parent is not None:
            return
        body = {"subject": {"id": "s"}, "expires_in": 3600}
        answer = await self.home.client.post("/subjects/tokens", json=body, headers=self.home.bearer(parent.token))
        assert (answer.status_code == 200) == self.good(parent)
        if answer.status_code == 200:
            until = min(self.now + 3600, parent.until)
            self.made.append(Made(answer.json()["token"], key=parent.key, parent=parent, until=until))

    async def app(self) -> None:
        self.count += 1
        name = f"a{self.count}"
        self.apps[name] = (await self.home.did("RegisterApp", name=name))["token"]

    async def exchange(self) -> None:
        subject = self.some()
        if subject is None or not self.apps:
            return
        app, secret = self.random.choice(list(self.apps.items()))
        form = {"grant_type": GRANT, "subject_token": subject.token, "subject_token_type": ACCESS_TOKEN}
        answer = await self.home.client.post("/oauth/token", data=form, headers=self.home.bearer(secret))
        may = bool(subject.person) and not subject.app and self.good(subject)
        assert (answer.status_code == 200) == may, (subject, answer.text)
        if may:
            until = min(self.now + 900, subject.until)
            made = Made(answer.json()["access_token"], person=subject.person, app=app, parent=subject, until=until)
            self.made.append(made)

    async def disable(self) -> None:
        person = self.random.choice(("kim", "lee"))
        await self.home.did("DisablePerson", id=person)
        self.disabled.add(person)
        self.end(person=person)

    async def enable(self) -> None:
        for person in ("kim", "lee"):
            await self.home.did("EnablePerson", id=person)
        self.disabled.clear()

    async def revoke(self) -> None:
        each = self.some()
        if each is None:
            return
        if each.key and await self.home.ask("RevokeKey", name=each.key):
            self.end(key=each.key)
        elif each.id:
            await self.home.ask("EndSession", id=each.id)
            each.ended = True

    async def drop(self) -> None:
        if self.apps:
            name = self.random.choice(list(self.apps))
            del self.apps[name]
            await self.home.did("RevokeApp", name=name)
            self.end(app=name)

    async def wait(self) -> None:
        seconds = self.random.choice((60, 400, 1000))
        self.clock.forward(seconds)
        self.now += seconds

    async def check(self) -> None:
        for each in self.made:
            try:
                taken = bool(await self.home.caller(each.token))
            except TransomError as error:
                taken = error.code != "unauthenticated"
            assert taken == self.good(each), each


@pytest.mark.req("IDN-2")
@pytest.mark.parametrize("seed", range(4))
async def test_a_credential_is_good_exactly_as_long_as_it_should_be(house, clock, seed):
    async with house(clock=clock) as home:
        for person in ("kim", "lee"):
            await home.did("CreatePerson", id=person)
        world = World(home, clock, seed)
        often = [world.token, world.key, world.subject, world.app, world.exchange, world.exchange, world.subject]
        seldom = [world.disable, world.enable, world.revoke, world.drop, world.wait]
        for _ in range(80):
            await world.random.choice(often if world.random.random() < 0.7 else seldom)()
            await world.check()
        assert any(map(world.good, world.made))
        assert not all(map(world.good, world.made))


@pytest.mark.req("IDN-2")
async def test_what_is_made_in_the_moment_of_a_revocation_is_not_left_over(home):
    """Exchanges, sign-ins and subjects' tokens race with the end of what they are made with."""
    key = (await home.did("CreateKey", name="shop", capability=["subjects"]))["token"]
    pat = (await home.did("CreatePersonToken", "anna", id="anna"))["token"]
    form = {"grant_type": GRANT, "subject_token": pat, "subject_token_type": ACCESS_TOKEN}
    tokens: list[str] = []

    async def exchange() -> None:
        answer = await home.client.post("/oauth/token", data=form, headers=home.bearer("deskapp"))
        assert answer.status_code in (200, 400)
        if answer.status_code == 200:
            tokens.append(answer.json()["access_token"])

    async def subject() -> None:
        answer = await home.client.post("/subjects/tokens", json={"subject": {"id": "s"}}, headers=home.bearer(key))
        assert answer.status_code in (200, 401, 403)
        if answer.status_code == 200:
            tokens.append(answer.json()["token"])

    async with anyio.create_task_group() as tasks:
        for n in range(40):
            tasks.start_soon(exchange)
            tasks.start_soon(subject)
            if n == 20:
                tasks.start_soon(lambda: home.did("DisablePerson", id="anna"))
                tasks.start_soon(lambda: home.did("RevokeKey", name="shop"))
    assert tokens
    assert [await home.status(token) for token in tokens] == [401] * len(tokens)


async def test_of_equal_names_made_at_once_one_wins(home):
    statuses: list[int] = []

    async def create() -> None:
        statuses.append((await home.ask("CreateKey", name="ci")).status_code)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(create)
    assert sorted(statuses) == [200] + [409] * 19


async def test_what_has_expired_is_deleted(house, clock, monkeypatch):
    from transom_hookspecs import SYSTEM
    from transom_identity import home as home_module
    from transom_identity.records import Credential

    monkeypatch.setattr(home_module, "SWEEP", 0.02)
    async with house(clock=clock) as home:

        async def kept() -> set[str]:
            rows = await home.kernel.store.select(SYSTEM, Credential, "expiry", limit=10_000)
            return {row.owner for row in rows if not row.dev}

        for n in range(3):
            await home.did("CreateKey", name=f"k{n}", expires="1m")
        await home.did("CreateKey", name="stays")
        assert await kept() == {"key:k0", "key:k1", "key:k2", "key:stays"}
        clock.forward(60)
        with anyio.fail_after(5):
            while len(await kept()) > 1:
                await anyio.sleep(0.01)
        assert await kept() == {"key:stays"}
        assert len((await home.did("ListKeys"))["keys"]) == 6, "that it was there is still told"


@pytest.mark.req("IDN-8")
async def test_every_kind_of_credential_is_refused_in_another_tenant_and_in_none_alike(home):
    key = (await home.did("CreateKey", name="shop", role="admin", capability=["subjects"]))["token"]
    pat = (await home.did("CreatePersonToken", id="ada"))["token"]
    form = {"grant_type": GRANT, "subject_token": pat, "subject_token_type": ACCESS_TOKEN}
    exchanged = (await home.client.post("/oauth/token", data=form, headers=home.bearer("deskapp"))).json()["access_token"]
    subject = (await home.client.post("/subjects/tokens", json={"subject": {"id": "s"}}, headers=home.bearer(key))).json()[
        "token"
    ]
    await home.did("SetPassword", id="ada", password="a long enough password")
    signed_in = await home.client.post("/v1/sessions", json={"person": "ada", "password": "a long enough password"})
    home.client.cookies.clear()
    credentials = [home.bearer(token) for token in (key, pat, exchanged, subject)]
    credentials.append({"Cookie": signed_in.headers["set-cookie"].partition(";")[0]})
    own = {"Origin": str(home.client.base_url).rstrip("/")}
    for headers in credentials:
        for operation in home.kernel.operations.values():
            refusals = set()
            for tenant in ("acme", "nowhere"):
                answer = await home.client.post(
                    f"/v1/operations/{operation.name}", json={}, params={"tenant": tenant}, headers={**headers, **own}
                )
                assert answer.status_code in (400, 403, 404, 501), (operation.name, answer.text)
                refusals.add((answer.status_code, answer.text.replace(tenant, "T")))
            assert len(refusals) == 1, operation.name

"""Development mode: people, an app and keys whose tokens derive from a key in the data folder."""

import hashlib
import stat
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from transom_hookspecs import SYSTEM, TransomError
from transom_identity.dev import read_key
from transom_identity.records import Credential

pytestmark = pytest.mark.anyio

NAMES = ["anna", "omar", "ada", "rita", "deskapp", "key", "echo_key", "acme_key"]


@pytest.mark.parametrize(
    ("name", "kind", "tenant", "scopes"),
    [
        ("anna", "person", "default", None),
        ("omar", "person", "default", None),
        ("ada", "person", "default", None),
        ("rita", "person", "default", None),
        ("key", "key", "default", None),
        ("echo_key", "key", "default", ("echo",)),
        ("acme_key", "key", "acme", None),
    ],
)
async def test_everyone_has_a_token_that_finds_them(home, name, kind, tenant, scopes):
    assert list(home.tokens) == NAMES
    assert home.tokens[name].startswith("tr_dev_")
    caller = await home.caller(name)
    assert (caller.id, caller.kind, caller.tenant, caller.scopes) == (name, kind, tenant, scopes)


@pytest.mark.req("AGUI-34")
async def test_the_apps_own_token_is_no_ones(home, code_of):
    assert await code_of(home.caller("deskapp")) == "unauthenticated"


@pytest.mark.parametrize(
    ("name", "may", "may_not"),
    [
        ("anna", "jobs.start content.read", "jobs.tag"),
        ("omar", "jobs.tag content.read", "keys.manage"),
        ("ada", "keys.manage content.read", ""),
        ("rita", "jobs.read", "jobs.start content.read"),
        ("key", "jobs.start jobs.tag content.read", "keys.manage"),
        ("echo_key", "jobs.read", "jobs.tag"),
        ("acme_key", "jobs.start jobs.tag", "keys.manage"),
    ],
)
async def test_each_has_its_role(home, name, may, may_not):
    caller = await home.caller(name)
    for permissions, ruling in ((may, "allow"), (may_not, "deny")):
        for permission in permissions.split():
            assert (await home.kernel.may(caller, caller.tenant, permission)).ruling == ruling, permission


async def test_tokens_survive_a_restart_and_stand_nowhere(house, tmp_path):
    async with house() as home:
        before = home.tokens
    async with house() as home:
        assert home.tokens == before
        assert (await home.caller("anna")).id == "anna"
    for file in (tmp_path / "data").rglob("*"):
        held = file.read_bytes() if file.is_file() else b""
        assert not [name for name, token in before.items() if token.encode() in held], file


async def test_another_data_folder_has_other_tokens(house, tmp_path, code_of):
    async with house() as home, house(data=str(tmp_path / "other")) as other:
        assert not set(home.tokens.values()) & set(other.tokens.values())
        assert await code_of(other.caller(home.tokens["ada"])) == "unauthenticated"


async def test_a_new_key_of_the_folder_ends_the_tokens_of_the_old_one(house, tmp_path, code_of):
    async with house() as home:
        before = home.tokens
    (tmp_path / "data" / "dev.key").unlink()
    async with house() as home:
        assert (await home.caller("ada")).id == "ada"
        for name in NAMES:
            assert await code_of(home.caller(before[name])) == "unauthenticated", name


async def test_only_the_owner_reads_the_key(home, tmp_path):
    file = tmp_path / "data" / "dev.key"
    assert (len(file.read_bytes()), stat.S_IMODE(file.stat().st_mode)) == (32, 0o600)


async def test_outside_development_mode_there_are_no_such_callers(house, code_of):
    """The same data folder, served: its records of development mode are nobody."""
    operators = {"callers": {"ops": {"kind": "operator", "token_sha256": hashlib.sha256(b"x" * 20).hexdigest()}}}
    async with house() as home:
        tokens = home.tokens
    async with house(dev=False, identity=operators) as home:
        assert home.tokens == {}
        for name in NAMES:
            assert await code_of(home.caller(tokens[name])) == "unauthenticated", name
        for operation, field in {"ListPeople": "people", "ListKeys": "keys", "ListApps": "apps"}.items():
            assert (await home.did(operation, "x" * 20))[field] == [], operation
        assert (await home.refused("UpdatePerson", "x" * 20, id="ada", role="reader"))[0] == 404
        assert (await home.did("CreatePerson", "x" * 20, id="ada", role="reader"))["role"] == "reader"


async def test_without_development_mode_no_key_is_made(house, tmp_path):
    async with house(dev=False):
        assert not (tmp_path / "data" / "dev.key").exists()


async def test_who_was_disabled_stays_so_over_a_restart(house, code_of):
    async with house() as home:
        await home.did("DisablePerson", id="anna")
    async with house() as home:
        assert await code_of(home.caller("anna")) == "unauthenticated"
        await home.did("EnablePerson", id="anna")
    async with house() as home:
        assert (await home.caller("anna")).id == "anna"


async def test_a_configured_caller_cannot_take_the_place_of_one(house):
    sha = hashlib.sha256(b"a-token-of-some-length").hexdigest()
    with pytest.raises(TransomError, match=r"identity\.callers\.anna"):
        async with house(identity={"callers": {"anna": {"kind": "person", "role": "admin", "token_sha256": sha}}}):
            pass


async def test_a_restart_adds_no_credential(house):
    async with house() as home:
        before = await home.kernel.store.select(SYSTEM, Credential, "expiry")
    async with house() as home:
        assert await home.kernel.store.select(SYSTEM, Credential, "expiry") == before
        assert len(before) == len(NAMES)


def test_processes_that_start_at_once_read_one_key(tmp_path):
    together = Barrier(8)

    def start(_: int) -> bytes:
        together.wait()
        return read_key(str(tmp_path))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(start, range(8)))) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["dev.key"]


@pytest.mark.parametrize("damaged", [b"", b"x" * 31, b"x" * 33])
def test_a_damaged_key_is_refused_with_the_remedy(tmp_path, damaged):
    (tmp_path / "dev.key").write_bytes(damaged)
    with pytest.raises(TransomError, match="delete it") as refused:
        read_key(str(tmp_path))
    assert refused.value.code == "failed_precondition"


def test_a_key_that_others_may_read_is_refused_with_the_remedy(tmp_path):
    read_key(str(tmp_path))
    (tmp_path / "dev.key").chmod(0o640)
    with pytest.raises(TransomError, match="chmod 600"):
        read_key(str(tmp_path))


def test_a_data_folder_that_is_none_is_refused(tmp_path):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(TransomError, match="data folder"):
        read_key(str(tmp_path / "data"))

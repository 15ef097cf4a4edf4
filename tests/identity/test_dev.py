"""Development mode: people and keys whose tokens derive from a key in the data folder."""

import hashlib
import stat
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from transom_hookspecs import DevTokens, TransomError
from transom_identity import IdentityPlugin
from transom_identity.callers import CallerConfig
from transom_identity.dev import read_key

pytestmark = pytest.mark.anyio

NAMES = ["anna", "omar", "ada", "rita", "deskapp", "key", "echo_key", "acme_key"]


def plugin(**callers: CallerConfig) -> IdentityPlugin:
    return IdentityPlugin(IdentityPlugin.Config(callers=callers))


def tokens(identity: IdentityPlugin) -> dict[str, str]:
    (service,) = identity.register_services()
    assert service.protocol is DevTokens
    assert isinstance(service.provider, DevTokens)
    return service.provider.tokens()


async def test_everyone_has_a_token_that_finds_them(running, head):
    identity = plugin()
    async with running(identity):
        assert list(tokens(identity)) == NAMES
        for name, token in tokens(identity).items():
            assert token.startswith("tr_dev_")
            assert identity.authenticate(head(f"Bearer {token}")).id == name


@pytest.mark.parametrize(
    ("name", "kind", "tenant", "may", "may_not"),
    [
        ("anna", "person", "default", "jobs.start content.read", "jobs.tag"),
        ("omar", "person", "default", "jobs.tag content.read", "keys.create"),
        ("ada", "person", "default", "keys.create content.read", ""),
        ("rita", "person", "default", "jobs.read", "jobs.start content.read"),
        ("deskapp", "service", "default", "jobs.start", "jobs.tag"),
        ("key", "key", "default", "jobs.start jobs.tag content.read", "keys.create"),
        ("echo_key", "key", "default", "jobs.start", "jobs.tag"),
        ("acme_key", "key", "acme", "jobs.start jobs.tag", "keys.create"),
    ],
)
async def test_each_has_its_role(running, head, access, name, kind, tenant, may, may_not):
    identity = plugin()
    async with running(identity):
        caller = identity.authenticate(head(f"Bearer {tokens(identity)[name]}"))
        assert (caller.kind, caller.tenant) == (kind, tenant)
        assert {identity.authorize(access(caller, p)).ruling for p in may.split()} == {"allow"}
        assert {identity.authorize(access(caller, p)).ruling for p in may_not.split()} <= {"deny"}


async def test_the_echo_key_reaches_echo_alone(running, head, access):
    identity = plugin()
    async with running(identity):
        caller = identity.authenticate(head(f"Bearer {tokens(identity)['echo_key']}"))
        assert identity.authorize(access(caller, "jobs.start", object="echo")).ruling == "allow"
        assert identity.authorize(access(caller, "jobs.start", object="helper")).ruling == "deny"


async def test_tokens_survive_a_restart_and_differ_between_data_folders(running, tmp_path):
    seen = []
    for data in (tmp_path / "a", tmp_path / "a", tmp_path / "b"):
        identity = plugin()
        async with running(identity, data=str(data)):
            seen.append(tokens(identity))
    assert seen[0] == seen[1]
    assert not set(seen[0].values()) & set(seen[2].values())
    assert len(set(seen[0].values())) == len(NAMES)


async def test_tokens_stand_nowhere_in_clear(running, tmp_path):
    identity = plugin()
    async with running(identity):
        written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        for token in tokens(identity).values():
            assert token.encode() not in written
            assert hashlib.sha256(token.encode()).digest() not in written


async def test_the_key_is_32_bytes_that_only_the_owner_reads(running, tmp_path):
    async with running(plugin()):
        (file,) = tmp_path.iterdir()
    assert file.name == "dev.key"
    assert len(file.read_bytes()) == 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_outside_development_mode_there_are_no_such_callers(running, head, tmp_path):
    dev, identity = plugin(), plugin()
    async with running(dev), running(identity, dev=False):
        assert tokens(identity) == {}
        assert identity.authenticate(head(f"Bearer {tokens(dev)['ada']}")) is None


async def test_without_development_mode_no_key_is_made(running, tmp_path):
    async with running(plugin(), dev=False):
        assert not list(tmp_path.iterdir())


async def test_configured_callers_stand_beside_those_of_development(running, head):
    digest = hashlib.sha256(b"a-token-of-some-length").hexdigest()
    identity = plugin(ci=CallerConfig(role="member", token_sha256=digest))
    async with running(identity):
        assert identity.authenticate(head("Bearer a-token-of-some-length")).id == "ci"
        assert identity.authenticate(head(f"Bearer {tokens(identity)['anna']}")).id == "anna"


async def test_a_configured_caller_cannot_take_the_place_of_one(running):
    digest = hashlib.sha256(b"a-token-of-some-length").hexdigest()
    with pytest.raises(TransomError, match=r"identity\.callers\.anna"):
        async with running(plugin(anna=CallerConfig(kind="person", role="admin", token_sha256=digest))):
            pass


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

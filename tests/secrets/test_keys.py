"""Where the key is kept: a file that only its owner may read, a variable, or the OS keyring; never silently a new one."""

import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from transom_hookspecs import Secrets, TransomError
from transom_secrets import SecretsPlugin
from transom_secrets.cipher import Key
from transom_secrets.keys import FILE, FileKeeper, Keys, parsed

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-7")]

VALUE = "ghp_9Zq2LmB7xKfT"
AT = "https://a.example"


def key(number: int) -> str:
    return b64encode(bytes([number]) * 32).decode()


class FakeKeyring(KeyringBackend):
    """A keyring that is a dict, and may be locked."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.locked:
            raise KeyringLocked("the keyring is locked")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password


@pytest.fixture
def fake_keyring():
    before = keyring.get_keyring()
    made = FakeKeyring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


async def test_without_secrets_there_is_no_key(opened, tmp_path):
    async with opened():
        pass
    assert not (tmp_path / "data" / FILE).exists()


async def test_the_file_is_made_with_the_first_secret_and_used_again(opened, put, tmp_path):
    async with opened() as k:
        await put(k, "a", VALUE, host=("a.example",))
    path = tmp_path / "data" / FILE
    made = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(parsed(made, "")) == 1
    async with opened() as k:
        assert k.service(Secrets).resolve("default", "a", AT) == VALUE
        await put(k, "b", VALUE)
    assert path.read_text() == made


def test_processes_that_start_at_once_get_the_same_key(tmp_path):
    program = (
        "import sys; from pathlib import Path; from transom_secrets.keys import FileKeeper, Keys\n"
        "folder = Path(sys.argv[1])\n"
        "sys.stdin.readline()\n"
        "print(Keys(FileKeeper(folder), folder).made()[0].bytes.hex())"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "data")]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    for each in running:
        each.stdin.write("go\n")
        each.stdin.flush()
    said = {each.communicate()[0] for each in running}
    assert len(said) == 1
    assert len(said.pop().strip()) == 64


@pytest.mark.parametrize(
    ("spoil", "remedy"),
    [
        (lambda path: path.unlink(), "restore that key from a backup"),
        (lambda path: path.write_text(key(7)), "restore that key from a backup"),
        (lambda path: path.write_text(""), "restore it from a backup"),
        (lambda path: path.write_text("no key at all"), "restore it from a backup"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "restore it from a backup"),
        (lambda path: path.write_text(key(7)[:20]), "restore it from a backup"),
        (lambda path: path.chmod(0o640), "chmod 600"),
        (lambda path: path.chmod(0o604), "chmod 600"),
        (lambda path: (path.unlink(), path.mkdir()), str(FILE)),
    ],
    ids=["gone", "another", "empty", "words", "bytes", "short", "group", "others", "folder"],
)
async def test_with_secrets_and_not_their_key_the_start_stops_and_makes_no_other(opened, put, tmp_path, spoil, remedy):
    async with opened() as k:
        await put(k, "a", VALUE)
    path = tmp_path / "data" / FILE
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(TransomError) as refused:
        async with opened():
            pytest.fail("it started")
    assert refused.value.code == "failed_precondition"
    assert str(path) in refused.value.message
    assert remedy in refused.value.message
    assert (path.read_bytes() if path.is_file() else None) == before


async def test_a_key_that_went_missing_while_it_runs_is_not_replaced(opened, put, tmp_path):
    async with opened() as k:
        await put(k, "a", VALUE, host=("a.example",))
        (tmp_path / "data" / FILE).unlink()
        with pytest.raises(TransomError) as refused:
            await put(k, "b", VALUE)
        assert refused.value.code == "failed_precondition"
        assert k.service(Secrets).resolve("default", "a", AT) == VALUE
    assert not (tmp_path / "data" / FILE).exists()


async def test_a_key_that_no_secret_needs_may_be_lost(opened, put, operator, tmp_path):
    from transom_secrets.requests import DeleteSecret

    async with opened() as k:
        await put(k, "a", VALUE)
        await k.call("DeleteSecret", DeleteSecret(name="a"), operator())
    (tmp_path / "data" / FILE).unlink()
    async with opened() as k:
        await put(k, "a", VALUE, host=("a.example",))
        assert k.service(Secrets).resolve("default", "a", AT) == VALUE


async def test_the_key_of_a_variable(opened, put, monkeypatch, tmp_path):
    monkeypatch.setenv("THE_KEY", key(1))
    settings = {"secrets": {"key_env": "THE_KEY"}}
    async with opened(config=settings) as k:
        await put(k, "a", VALUE, host=("a.example",))
    assert not (tmp_path / "data" / FILE).exists()
    for value in (key(2), "", "rubbish"):
        monkeypatch.setenv("THE_KEY", value)
        with pytest.raises(TransomError) as refused:
            async with opened(config=settings):
                pytest.fail("it started")
        assert "THE_KEY" in refused.value.message
        assert not value or value not in refused.value.message
    monkeypatch.setenv("THE_KEY", key(1))
    async with opened(config=settings) as k:
        assert k.service(Secrets).resolve("default", "a", AT) == VALUE


async def test_a_variable_that_is_not_set_is_asked_for(opened, put, monkeypatch):
    monkeypatch.delenv("THE_KEY", raising=False)
    async with opened(config={"secrets": {"key_env": "THE_KEY"}}) as k:
        with pytest.raises(TransomError) as refused:
            await put(k, "a", VALUE)
    assert refused.value.code == "failed_precondition"
    assert "THE_KEY" in refused.value.message


async def test_the_key_in_the_keyring(opened, put, fake_keyring, tmp_path):
    settings = {"secrets": {"keyring": True}}
    async with opened(config=settings) as k:
        await put(k, "a", VALUE, host=("a.example",))
    ((service, account),) = fake_keyring.kept
    assert (service, account) == ("transom", str((tmp_path / "data").resolve()))
    assert not (tmp_path / "data" / FILE).exists()
    async with opened(config=settings) as k:
        assert k.service(Secrets).resolve("default", "a", AT) == VALUE
    fake_keyring.locked = True
    with pytest.raises(TransomError) as refused:
        async with opened(config=settings):
            pytest.fail("it started")
    assert "OS keyring" in refused.value.message
    fake_keyring.locked = False
    fake_keyring.kept.clear()
    with pytest.raises(TransomError) as gone:
        async with opened(config=settings):
            pytest.fail("it started")
    assert "OS keyring" in gone.value.message
    assert fake_keyring.kept == {}


def test_without_the_package_the_keyring_names_the_extra(monkeypatch, tmp_path):
    from transom_secrets.keys import KeyringKeeper

    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(TransomError) as refused:
        KeyringKeeper(tmp_path).read()
    assert "pip install transom[keyring]" in refused.value.message


def test_two_places_of_the_key_are_refused():
    with pytest.raises(TransomError) as refused:
        SecretsPlugin(SecretsPlugin.Config(key_env="A", keyring=True))
    assert refused.value.code == "invalid_argument"


def test_a_key_shows_nothing_of_itself():
    made = Key(bytes(range(32)))
    assert made.bytes.hex() not in repr(made)
    assert made.id not in made.bytes.hex()


def test_a_key_that_cannot_be_written_says_so_and_leaves_nothing_behind(tmp_path):
    if os.geteuid() == 0:
        (tmp_path / "data").write_text("a file where the folder should be")
    else:
        (tmp_path / "data").mkdir(mode=0o500)
    keys = FileKeeper(tmp_path / "data")
    with pytest.raises(TransomError) as refused:
        keys.write("text")
    assert refused.value.code == "failed_precondition"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_only_one_process_changes_the_keys_at_a_time(tmp_path: Path):
    first, second = (Keys(FileKeeper(tmp_path), tmp_path) for _ in range(2))
    with first.locked(wait=False):
        with pytest.raises(TransomError) as busy, second.locked(wait=False):
            pytest.fail("both have it")
        assert busy.value.code == "aborted"
    with second.locked(wait=False):
        pass

"""The key is changed for all secrets at once; a crash at any point leaves every secret readable."""

import os
from base64 import b64encode

import anyio
import pytest
from job_kit import UnavailableOnce, on_disk

from transom_hookspecs import SYSTEM, Secrets, StoreUnavailable, TransomError
from transom_secrets import keys as keys_module
from transom_secrets.keys import FILE, FileKeeper
from transom_secrets.records import Secret
from transom_secrets.requests import RotateSecretKey

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-7")]

VALUES = {("default", "a"): "first-value", ("default", "b"): "x", ("acme", "a"): "third-value"}
AT = "https://a.example"


async def fill(k, put):
    for (tenant, name), value in VALUES.items():
        await put(k, name, value, tenant=tenant, host=("a.example",))


def all_there(k) -> bool:
    secrets = k.service(Secrets)
    return all(secrets.resolve(tenant, name, AT) == value for (tenant, name), value in VALUES.items())


async def key_ids(k) -> set[str]:
    return {row.key for row in await k.store.select(SYSTEM, Secret, "all")}


def lines(folder) -> list[str]:
    return (folder / "data" / FILE).read_text().split()


async def test_every_tenants_secrets_get_a_new_key_and_the_old_one_is_gone(opened, put, operator, tmp_path):
    async with opened() as k:
        await fill(k, put)
        (old,), ids = lines(tmp_path), await key_ids(k)
        rows = {(r.tenant, r.name): r for r in await k.store.select(SYSTEM, Secret, "all")}
        assert (await k.call("RotateSecretKey", RotateSecretKey(), operator("acme"))).secrets == 3
        (new,) = lines(tmp_path)
        assert new != old
        assert not ids & await key_ids(k)
        for row in await k.store.select(SYSTEM, Secret, "all"):
            before = rows[row.tenant, row.name]
            assert (row.sealed, row.nonce) != (before.sealed, before.nonce)
            assert (row.created_at, row.rotated_at) == (before.created_at, before.rotated_at)
        assert all_there(k)
        await put(k, "new", "fourth-value", host=("a.example",))
        assert len(await key_ids(k)) == 1
        (entry,) = [r.entry for r in await k.store.audit("acme") if r.entry.action == "secret.rotate"]
    assert entry.details == {"key": entry.details["key"]}
    assert new not in str(entry)
    assert (tmp_path / "data" / FILE).stat().st_mode & 0o777 == 0o600
    async with opened() as k:
        assert all_there(k)


class Crash(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("point", ["before the file", "before its rename", "after the file", "after the commit", "at the end"])
async def test_a_crash_at_any_point_loses_nothing(opened, put, operator, tmp_path, monkeypatch, point):
    """Each place where a process may end is one where this one stops at once, and another starts on what it left."""
    async with opened() as k:
        await fill(k, put)
        written = FileKeeper.write
        calls = 0

        def write(self, text):
            nonlocal calls
            calls += 1
            if calls == {"before the file": 1, "after the commit": 2}.get(point):
                raise Crash
            written(self, text)
            if calls == {"after the file": 1, "at the end": 2}.get(point):
                raise Crash

        def replace(self, target):
            raise Crash

        with monkeypatch.context() as patched:
            patched.setattr(FileKeeper, "write", write)
            if point == "before its rename":
                patched.setattr(type(tmp_path), "replace", replace)
            with pytest.raises(Crash):
                await k.call("RotateSecretKey", RotateSecretKey(), operator())
    async with opened() as k:
        assert all_there(k)
        await put(k, "c", "another-value", host=("a.example",))
        assert len(await key_ids(k)) == 1
        assert (await k.call("RotateSecretKey", RotateSecretKey(), operator())).secrets == 4
        assert len(lines(tmp_path)) == 1
    async with opened() as k:
        assert all_there(k)


async def test_a_store_that_refuses_leaves_the_old_key_in_use(kernel, put, operator, tmp_path):
    store = UnavailableOnce()
    async with kernel(**on_disk("secrets", store=store, config={"tenants": ("default", "acme")})) as k:
        await fill(k, put)
        store.refuses = lambda fn: getattr(fn, "__qualname__", "").startswith("OperationCall.transact")
        with pytest.raises(StoreUnavailable):
            await k.call("RotateSecretKey", RotateSecretKey(), operator())
        assert all_there(k)
        assert len(lines(tmp_path)) == 2
        await k.call("RotateSecretKey", RotateSecretKey(), operator())
        assert all_there(k)
        assert len(lines(tmp_path)) == 1


async def test_another_process_takes_the_new_key(opened, put, operator):
    async with opened() as one, opened() as other:
        await fill(one, put)
        await one.call("RotateSecretKey", RotateSecretKey(), operator())
        await put(one, "late", "a-late-value", host=("a.example",))
        with anyio.fail_after(10):
            while other.service(Secrets).redact("a-late-value") == "a-late-value":
                await anyio.sleep(0.005)
        assert all_there(other)
        await put(other, "later", "a-later-value", host=("a.example",))
        assert len(await key_ids(one)) == 1
        assert other.health().problems == ()


async def test_a_secret_that_is_set_while_the_key_changes_gets_the_new_one(opened, put, operator, monkeypatch):
    """The other process looked at the key before it changed, and commits after."""
    async with opened() as one, opened() as other:
        await fill(one, put)
        sealed = []

        async def meanwhile():
            while not sealed:
                await anyio.sleep(0.001)
            await one.call("RotateSecretKey", RotateSecretKey(), operator())
            sealed.append("rotated")

        transact = other.store.transact

        async def late(tenant, fn, **options):
            if "OperationCall.transact" in fn.__qualname__ and len(sealed) < 2:
                sealed.append("sealed")
                while len(sealed) < 2:
                    await anyio.sleep(0.001)
            return await transact(tenant, fn, **options)

        monkeypatch.setattr(other.store, "transact", late)
        async with anyio.create_task_group() as group:
            group.start_soon(meanwhile)
            await put(other, "raced", "a-raced-value", host=("a.example",))
        assert len(await key_ids(one)) == 1
        assert other.service(Secrets).resolve("default", "raced", AT) == "a-raced-value"


async def test_a_row_that_does_not_open_stops_the_change_by_name(opened, put, operator):
    async with opened() as k:
        await fill(k, put)
        (row, *_) = await k.store.select(SYSTEM, Secret, "all")

        def spoil(tx):
            tx.system.update(row, sealed=b64encode(bytes(40)).decode())
            tx.touch("secrets")

        await k.store.transact("default", spoil)
        with pytest.raises(TransomError) as refused:
            await k.call("RotateSecretKey", RotateSecretKey(), operator())
        assert refused.value.code == "data_loss"
        assert repr(row.name) in refused.value.message


async def test_two_changes_at_once_are_one(opened, put, operator, tmp_path):
    async with opened() as k:
        await fill(k, put)
        keys = keys_module.Keys(FileKeeper(tmp_path / "data"), tmp_path / "data")
        lock = keys.locked(wait=False)
        await anyio.to_thread.run_sync(lock.__enter__)
        with pytest.raises(TransomError) as busy:
            await k.call("RotateSecretKey", RotateSecretKey(), operator())
        await anyio.to_thread.run_sync(lock.__exit__, None, None, None)
        assert busy.value.code == "aborted"
        assert (await k.call("RotateSecretKey", RotateSecretKey(), operator())).secrets == 3


async def test_a_key_of_a_variable_is_changed_by_who_sets_it(opened, put, operator, monkeypatch):
    old, new = (b64encode(bytes([n]) * 32).decode() for n in (1, 2))
    settings = {"secrets": {"key_env": "THE_KEY"}}
    monkeypatch.setenv("THE_KEY", old)
    async with opened(config=settings) as k:
        await fill(k, put)
        with pytest.raises(TransomError) as refused:
            await k.call("RotateSecretKey", RotateSecretKey(), operator())
        assert refused.value.code == "failed_precondition"
        assert "THE_KEY" in refused.value.message
        ids = await key_ids(k)
    monkeypatch.setenv("THE_KEY", f"{new} {old}")
    async with opened(config=settings) as k:
        assert all_there(k)
        await put(k, "c", "another-value")
        assert await key_ids(k) == ids
        await k.call("RotateSecretKey", RotateSecretKey(), operator())
        assert not ids & await key_ids(k)
    monkeypatch.setenv("THE_KEY", new)
    async with opened(config=settings) as k:
        assert all_there(k)
    assert os.environ["THE_KEY"] == new

"""Secrets are set, listed and deleted; values go in and never come out."""

import base64
import json
from pathlib import Path

import pytest

from transom_hookspecs import SYSTEM, Caller, Origin, Reply, Secrets, TransomError
from transom_secrets.records import Secret
from transom_secrets.requests import ApproveSecretEnv, DeleteSecret, ListSecrets, RotateSecretKey, SetSecret

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-7")]

VALUE = "ghp_9Zq2LmB7xKfT"


async def listed(k, origin):
    return (await k.call("ListSecrets", ListSecrets(), origin)).secrets


async def test_a_secret_is_listed_by_name_hosts_and_use_never_its_value(opened, put, operator):
    async with opened() as k:
        made = await put(k, "github", VALUE, host=("API.GitHub.com", "127.0.0.1:8080"))
        await put(k, "hook", "abc", host=("a.example",), signing=True)
        assert await listed(k, operator("acme")) == ()
        page = await k.call("ListSecrets", ListSecrets(), operator())
    assert page.secrets[0] == made
    assert [(s.name, s.hosts, s.signing, s.filtered) for s in page.secrets] == [
        ("github", ("api.github.com", "127.0.0.1:8080"), False, True),
        ("hook", ("a.example",), True, False),
    ]
    assert VALUE not in repr(page)
    assert VALUE not in repr(SetSecret(name="github", value=VALUE))


async def test_setting_a_secret_again_replaces_value_hosts_and_use_and_keeps_when_it_was_made(opened, put, kernel):
    async with opened() as k:
        first = await put(k, "a", "first-value", host=("a.example",))
        second = await put(k, "a", "second-value", host=("b.example",), signing=True)
        assert (second.hosts, second.signing, second.created_at) == (("b.example",), True, first.created_at)
        assert second.rotated_at >= first.rotated_at
        secrets = k.service(Secrets)
        assert secrets.redact("first-value second-value") == "first-value [secret a]"


async def test_the_audit_trail_says_who_set_what_and_not_to_what(opened, put, operator):
    async with opened() as k:
        await put(k, "github", VALUE, host=("api.github.com",))
        await k.call("DeleteSecret", DeleteSecret(name="github"), operator())
        rows = await k.store.audit("default")
        reply = await k.store.select(SYSTEM, Secret, "all")
    entries = [(r.entry.action, r.entry.caller, r.entry.object, r.entry.details) for r in rows]
    assert entries == [
        ("secret.set", "operator:local", "github", {"hosts": ["api.github.com"], "signing": False}),
        ("secret.delete", "operator:local", "github", {}),
    ]
    assert reply == []


async def test_no_answer_is_kept_under_an_idempotency_key(opened, operator):
    async with opened() as k:
        origin = Origin(tenant="default", caller=operator().caller, door="test", key="once")
        await k.call("SetSecret", SetSecret(name="a", value=VALUE), origin)
        assert await k.store.get("default", Reply, origin.caller.principal, "once") is None


async def test_a_deleted_secret_is_gone_with_what_tools_were_allowed_of_it(opened, put, operator):
    async with opened() as k:
        await put(k, "a", VALUE)
        await k.call("ApproveSecretEnv", ApproveSecretEnv(tool="t", name="a"), operator())
        await k.call("DeleteSecret", DeleteSecret(name="a"), operator())
        assert k.service(Secrets).redact(VALUE) == VALUE
        with pytest.raises(TransomError) as gone:
            await k.call("DeleteSecret", DeleteSecret(name="a"), operator())
        assert gone.value.code == "not_found"
        assert (await put(k, "a", VALUE)).tools == ()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": "a b"}, "name"),
        ({"name": "x" * 64}, "name"),
        ({"value": ""}, "value"),
        ({"value": " \n\t"}, "value"),
        ({"value": "x" * 65_537}, "value"),
        ({"value": "ü" * 32_769}, "value"),
        ({"value": "secret\ud800word"}, "value"),
        ({"host": ("https://a.example",)}, "host"),
        ({"host": ("a.example/path",)}, "host"),
        ({"host": ("*.example",)}, "host"),
        ({"host": ("a.example:0",)}, "host"),
        ({"host": ("a.example:65536",)}, "host"),
        ({"host": ("user@a.example",)}, "host"),
        ({"host": ("",)}, "host"),
        ({"host": tuple(f"h{i}.example" for i in range(51))}, "host"),
        ({"signing": True}, "host"),
    ],
)
async def test_what_is_wrong_with_a_secret_is_named_without_its_value(opened, operator, fields, named):
    async with opened() as k:
        given = {"name": "a", "value": VALUE, **fields}
        with pytest.raises(TransomError) as refused:
            await k.call("SetSecret", SetSecret(**given), operator())
        assert await listed(k, operator()) == ()
    assert refused.value.code == "invalid_argument"
    assert refused.value.message.startswith(f"{named}: ")
    assert given["value"].strip() == "" or given["value"] not in repr((refused.value.message, refused.value.details))


@pytest.mark.parametrize("value", ["x", "x" * 65_536, "ü" * 32_768, "a\x00b\r\nc", "-----BEGIN-----\nA\n-----END-----\n", "%"])
async def test_any_other_text_may_be_a_value(opened, put, value):
    async with opened() as k:
        await put(k, "a", value, host=("a.example",))
        assert k.service(Secrets).resolve("default", "a", "https://a.example") == value


async def test_a_tenant_has_at_most_a_thousand_secrets(opened, put, monkeypatch):
    monkeypatch.setattr("transom_secrets.operations.MOST_SECRETS", 2)
    async with opened() as k:
        await put(k, "a", VALUE)
        await put(k, "b", VALUE)
        with pytest.raises(TransomError) as full:
            await put(k, "c", VALUE)
        assert full.value.code == "resource_exhausted"
        await put(k, "b", "another")
        await put(k, "c", VALUE, tenant="acme")


async def test_the_key_is_changed_by_an_operator_of_the_process_alone(opened, put):
    async with opened(_allow_all()) as k:
        await put(k, "a", VALUE)
        person = Origin(tenant="default", caller=Caller(kind="person", id="ada", tenant="default"), door="test")
        assert await listed(k, person)
        with pytest.raises(TransomError) as refused:
            await k.call("RotateSecretKey", RotateSecretKey(), person)
        assert refused.value.code == "permission_denied"


def _allow_all():
    from job_kit import hooks_plugin

    from transom_hookspecs import Verdict

    return hooks_plugin(authorize=lambda access: Verdict(ruling="allow"))


@pytest.mark.parametrize("change", ["tenant", "name", "hosts", "signing", "sealed", "nonce"])
async def test_a_row_that_is_moved_or_changed_no_longer_opens(opened, put, change):
    """Who may write the database may not send a secret elsewhere, or read it as another tenant."""
    async with opened() as k:
        await put(k, "a", VALUE, host=("a.example",))
        (row,) = await k.store.select(SYSTEM, Secret, "all")
        fields = {name: getattr(row, name) for name in row.__struct_fields__}
        other = base64.b64encode(bytes(len(base64.b64decode(row.sealed)))).decode()
        fields[change] = {
            "tenant": "acme",
            "name": "b",
            "hosts": ("evil.example",),
            "signing": True,
            "sealed": other,
            "nonce": base64.b64encode(bytes(12)).decode(),
        }[change]
        moved = Secret(**fields)

        def write(tx):
            tx.system.put(moved)
            tx.touch("secrets")

        await k.store.transact("default", write)
        await put(k, "other", "other-value")  # returns once the rows were read anew
        for ask in ("resolve", "check_signing"):
            with pytest.raises(TransomError) as broken:
                getattr(k.service(Secrets), ask)(moved.tenant, moved.name, f"https://{moved.hosts[0]}")
            assert broken.value.code == "data_loss"
        assert any("secret of tenant" in problem for problem in k.health().problems)


async def test_another_process_sees_a_change(opened, put, tmp_path):
    """Two kernels on one data folder, as two processes have them."""
    import anyio

    async with opened() as one, opened() as other:
        seen = other.service(Secrets)
        await put(one, "a", VALUE)
        with anyio.fail_after(10):
            while seen.redact(VALUE) == VALUE:
                await anyio.sleep(0.005)
        await put(one, "a", "another-value")
        with anyio.fail_after(10):
            while seen.redact("another-value") == "another-value":
                await anyio.sleep(0.005)


async def test_the_data_folder_has_a_value_in_no_byte(opened, put, tmp_path: Path):
    async with opened() as k:
        await put(k, "github", VALUE, host=("api.github.com",))
        await put(k, "github", VALUE + "2", host=("api.github.com",))
        files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
        found = [path.name for path in files if VALUE.encode() in path.read_bytes()]
    assert len(files) > 2
    assert found == []
    assert (tmp_path / "data" / "secrets.key").stat().st_mode & 0o777 == 0o600
    assert json.dumps(VALUE)[1:-1] == VALUE

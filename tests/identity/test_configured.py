"""Callers in transom.toml: what is right, and what stops the start with the setting's name."""

import hashlib
import os

import msgspec
import pytest

from transom_hookspecs import TransomError
from transom_identity import IdentityPlugin
from transom_identity.callers import Configured
from transom_identity.tokens import digest

pytestmark = pytest.mark.anyio

SHA = hashlib.sha256(b"a-token-of-some-length").hexdigest()


def plugin(toml: str) -> IdentityPlugin:
    table = msgspec.toml.decode(toml, type=dict[str, IdentityPlugin.Config])
    return IdentityPlugin(table["identity"])


def find(toml: str, token: str):
    table = msgspec.toml.decode(toml, type=dict[str, IdentityPlugin.Config])["identity"]
    return Configured(table.callers, table.operators, os.environ).find(digest(token))


def test_a_caller_is_a_key_of_the_default_tenant_unless_it_says_otherwise():
    caller = find(f'[identity.callers.ci]\nrole = "member"\ntoken_sha256 = "{SHA}"', "a-token-of-some-length")
    assert (caller.kind, caller.tenant, caller.scopes, caller.label) == ("key", "default", None, "")


def test_the_digest_may_be_written_in_capitals():
    assert find(f'[identity.callers.ci]\nrole = "member"\ntoken_sha256 = "{SHA.upper()}"', "a-token-of-some-length").id == "ci"


def test_an_operator_belongs_nowhere():
    caller = find(f'[identity.callers.ops]\nkind = "operator"\ntoken_sha256 = "{SHA}"', "a-token-of-some-length")
    assert (caller.kind, caller.tenant) == ("operator", "")


def test_a_token_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("CI_TOKEN", "from-the-environment")
    assert find('[identity.callers.ci]\nrole = "member"\ntoken_env = "CI_TOKEN"', "from-the-environment").id == "ci"


@pytest.mark.parametrize(
    ("settings", "named", "problem"),
    [
        (f'token_sha256 = "{SHA}"', "identity.callers.ci.role", "missing"),
        ('role = "member"', "identity.callers.ci:", "one token"),
        (f'role = "member"\ntoken_sha256 = "{SHA}"\ntoken_env = "CI"', "identity.callers.ci:", "one token"),
        (f'role = "member"\ntoken_sha256 = "{SHA[1:]}"', "identity.callers.ci.token_sha256", "64 hex digits"),
        ('role = "member"\ntoken_sha256 = "in-the-clear"', "identity.callers.ci.token_sha256", "64 hex digits"),
        ('role = "member"\ntoken_env = "NOT_SET"', "identity.callers.ci.token_env", "NOT_SET"),
        ('role = "member"\ntoken_env = "SHORT"', "identity.callers.ci.token_env", "SHORT"),
        ('role = "member"\ntoken_env = "BLANKS"', "identity.callers.ci.token_env", "BLANKS"),
        (f'role = "member"\ntenant = ""\ntoken_sha256 = "{SHA}"', "identity.callers.ci.tenant", "no tenant's name"),
        (f'role = "member"\ntenant = "a/b"\ntoken_sha256 = "{SHA}"', "identity.callers.ci.tenant", "no tenant's name"),
        (f'kind = "operator"\ntenant = "acme"\ntoken_sha256 = "{SHA}"', "identity.callers.ci:", "no tenant"),
        (f'kind = "operator"\nrole = "reader"\ntoken_sha256 = "{SHA}"', "identity.callers.ci:", "leave out"),
    ],
)
def test_a_wrong_caller_stops_the_start(monkeypatch, settings, named, problem):
    monkeypatch.setenv("SHORT", "tiny-secret")
    monkeypatch.setenv("BLANKS", "a token with blanks in it")
    with pytest.raises(TransomError) as refused:
        plugin(f"[identity.callers.ci]\n{settings}")
    assert refused.value.code == "invalid_argument"
    assert named in refused.value.message
    assert problem in refused.value.message
    assert "in-the-clear" not in refused.value.message
    assert "tiny-secret" not in refused.value.message


@pytest.mark.parametrize("name", ["a b", "über", "-a", "a" * 64, "person:x"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(TransomError, match="the name is not one"):
        plugin(f'[identity.callers."{name}"]\nrole = "member"\ntoken_sha256 = "{SHA}"')


def test_two_callers_cannot_share_a_token():
    with pytest.raises(TransomError, match="another caller has the same token"):
        plugin("".join(f'[identity.callers.{name}]\nrole = "member"\ntoken_sha256 = "{SHA}"\n' for name in ("a", "b")))


@pytest.mark.parametrize("settings", ['rolle = "member"', 'role = "root"', 'kind = "system"', 'kind = "subject"'])
def test_an_unknown_setting_or_value_is_refused(settings):
    with pytest.raises(msgspec.ValidationError):
        plugin(f'[identity.callers.ci]\n{settings}\ntoken_sha256 = "{SHA}"')


# -- operators' certificates


@pytest.mark.parametrize("sha", ["ab" * 32, "AB" * 32, ":".join(["aB"] * 32)])
async def test_a_certificate_makes_an_operator(head, sha):
    identity = plugin(f'[identity.operators.root]\ncertificate_sha256 = "{sha}"')
    caller = await identity.authenticate(head(certificate=f"sha256:{'ab' * 32}"))
    assert (caller.kind, caller.id, caller.tenant) == ("operator", "root", "")
    assert await identity.authenticate(head(certificate=f"sha256:{'cd' * 32}")) is None


@pytest.mark.parametrize("sha", ["", "ab", "x" * 64, "sha256:" + "ab" * 32])
def test_a_certificate_without_a_digest_stops_the_start(sha):
    with pytest.raises(TransomError, match=r"identity\.operators\.root\.certificate_sha256: it is no SHA-256"):
        plugin(f'[identity.operators.root]\ncertificate_sha256 = "{sha}"')


def test_two_operators_cannot_share_a_certificate():
    with pytest.raises(TransomError, match="another caller"):
        plugin("".join(f'[identity.operators.{name}]\ncertificate_sha256 = "{"ab" * 32}"\n' for name in ("a", "b")))


# -- beside the records


CONFIGURED = {
    "callers": {
        "kim": {"kind": "person", "role": "member", "tenant": "acme", "token_sha256": SHA},
        "ops": {"kind": "operator", "token_sha256": hashlib.sha256(b"the-operators-token").hexdigest()},
    }
}


async def test_configured_callers_work_beside_records_and_without_development_mode(house):
    async with house(dev=False, identity=CONFIGURED) as home:
        assert (await home.caller("a-token-of-some-length")).principal == "person:kim"
        people = await home.did("ListPeople", "the-operators-token", tenant="acme")
        assert [(each["id"], each["configured"]) for each in people["people"]] == [("kim", True)]


async def test_the_settings_hold_over_the_records(house):
    async with house(dev=False, identity=CONFIGURED) as home:
        for operation, fields in {
            "CreatePerson": {"id": "kim", "role": "admin"},
            "UpdatePerson": {"id": "kim", "role": "admin"},
            "DisablePerson": {"id": "kim"},
            "SetPassword": {"id": "kim", "password": "a long enough password"},
        }.items():
            status, said = await home.refused(operation, "the-operators-token", tenant="acme", **fields)
            assert (status, "transom.toml" in said) == (400, True), operation

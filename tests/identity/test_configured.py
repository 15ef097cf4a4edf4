"""Callers in transom.toml: what is right, and what stops the start with the setting's name."""

import hashlib

import msgspec
import pytest

from transom_hookspecs import TransomError
from transom_identity import IdentityPlugin

SHA = hashlib.sha256(b"a-token-of-some-length").hexdigest()


def plugin(toml: str) -> IdentityPlugin:
    table = msgspec.toml.decode(toml, type=dict[str, IdentityPlugin.Config])
    return IdentityPlugin(table["identity"])


def test_a_caller_is_a_key_of_the_default_tenant_unless_it_says_otherwise(head):
    identity = plugin(f'[identity.callers.ci]\nrole = "member"\ntoken_sha256 = "{SHA}"')
    caller = identity.authenticate(head("Bearer a-token-of-some-length"))
    assert (caller.kind, caller.tenant, caller.scopes, caller.label) == ("key", "default", None, "")


def test_an_operator_belongs_nowhere_and_may_everything(head, access):
    identity = plugin(f'[identity.callers.ops]\nkind = "operator"\ntoken_sha256 = "{SHA}"')
    caller = identity.authenticate(head("Bearer a-token-of-some-length"))
    assert caller.tenant == ""
    assert identity.authorize(access(caller, "anything")).ruling == "allow"


def test_a_token_may_come_from_the_environment(head, monkeypatch):
    monkeypatch.setenv("CI_TOKEN", "from-the-environment")
    identity = plugin('[identity.callers.ci]\nrole = "member"\ntoken_env = "CI_TOKEN"')
    assert identity.authenticate(head("Bearer from-the-environment")).id == "ci"


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

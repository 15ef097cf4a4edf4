"""The cookie that a browser keeps while it is at the provider, and the settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transom_oidc import OidcPlugin, OidcSettings
from transom_oidc.pending import LIFE, begin, key_of, seal, unseal
from transom_oidc.settings import ProviderSettings

from transom_hookspecs import TransomError

KEY = key_of("test", "the-secret-of-the-client")


def test_what_was_sealed_comes_back_until_it_is_too_old():
    pending = begin("/console", 1000)
    value = seal(pending, KEY)
    assert unseal(value, KEY, 1000 + LIFE - 1) == pending
    assert unseal(value, KEY, 1000 + LIFE) is None
    assert unseal(value, key_of("other", "the-secret-of-the-client"), 1000) is None
    assert unseal(value, key_of("test", "another-secret-of-it"), 1000) is None


@given(st.text(), st.integers(0, 200))
def test_whatever_else_a_browser_sends_is_nothing(text, at):
    value = seal(begin("/", 1000), KEY)
    assert unseal(text, KEY, 1000) is None
    changed = value[:at] + ("A" if value[at : at + 1] != "A" else "B") + value[at + 1 :]
    assert unseal(changed, KEY, 1000) is None


def test_two_sign_ins_share_nothing():
    one, other = begin("/", 1), begin("/", 1)
    assert not {one.state, one.nonce, one.verifier} & {other.state, other.nonce, other.verifier}
    assert len({one.state, one.nonce, one.verifier, one.challenge}) == 4
    assert 43 <= len(one.verifier) <= 128


GOOD = {"issuer": "https://id.example", "client_id": "transom", "client_secret_env": "OIDC_SECRET"}


@pytest.mark.parametrize(
    ("name", "changes", "setting"),
    [
        ("a b", {}, "oidc.providers.a b"),
        ("x", {"issuer": "http://id.example"}, "oidc.providers.x.issuer"),
        ("x", {"issuer": "id.example"}, "oidc.providers.x.issuer"),
        ("x", {"issuer": "https://id.example?x=1"}, "oidc.providers.x.issuer"),
        ("x", {"issuer": "https://[::1"}, "oidc.providers.x.issuer"),
        ("x", {"public_url": "ftp://x"}, "oidc.providers.x.public_url"),
        ("x", {"client_secret_env": "NOT_SET"}, "oidc.providers.x.client_secret_env"),
        ("x", {"client_secret_env": "SHORT"}, "oidc.providers.x.client_secret_env"),
    ],
)
def test_a_wrong_setting_stops_the_start_by_name(monkeypatch, name, changes, setting):
    monkeypatch.setenv("OIDC_SECRET", "the-secret-of-the-client")
    monkeypatch.setenv("SHORT", "tiny")
    with pytest.raises(TransomError) as refused:
        OidcPlugin(OidcSettings(providers={name: ProviderSettings(**{**GOOD, **changes})}))
    assert refused.value.message.startswith(setting)
    assert "the-secret" not in refused.value.message


def test_without_a_provider_there_is_no_route():
    assert OidcPlugin(OidcSettings()).register_doors() == []

"""ID tokens: only one that the provider signed, for this client and this sign-in, is believed."""

import base64
import hashlib
import hmac
import json

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey
from transom_oidc.claims import UnknownKey, id_claims, name_of, person_of

from transom_hookspecs import TransomError

KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
OTHER = RSAKey.generate_key(2048, {"kid": "one"})
EC = ECKey.generate_key("P-256", {"kid": "two"})
KEYS = KeySet([KEY, EC])
NOW = 1_800_000_000
GOOD = {"iss": "https://id.example", "sub": "anna", "aud": "transom", "exp": NOW + 300, "iat": NOW, "nonce": "n"}


def token(claims: dict | None = None, key=KEY, alg: str = "RS256", **header: str) -> str:
    return jwt.encode({"alg": alg, "kid": key.kid, **header}, {**GOOD, **(claims or {})}, key, algorithms=[alg])


def b64(value: dict) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def checked(text: str):
    return id_claims(text, KEYS, "https://id.example", "transom", "n", NOW)


@pytest.mark.parametrize(
    "text",
    [
        token(),
        token(key=EC, alg="ES256"),
        token({"aud": ["transom"]}),
        token({"aud": ["transom", "other"], "azp": "transom"}),
        token({"exp": NOW - 30}),
        token({"iat": NOW + 30}),
    ],
    ids=["RS256", "ES256", "a list of one", "two with azp", "within the leeway", "a clock ahead"],
)
def test_a_good_token_is_believed(text):
    assert checked(text)["sub"] == "anna"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": "https://id.example/"},
        {"aud": "other"},
        {"aud": []},
        {"aud": ["transom", "other"]},
        {"aud": ["transom", "other"], "azp": "other"},
        {"azp": "other"},
        {"exp": NOW - 61},
        {"exp": None},
        {"exp": "soon"},
        {"iat": NOW + 600},
        {"nonce": "m"},
        {"nonce": None},
        {"sub": ""},
        {"sub": 5},
        {"sub": None},
    ],
)
def test_a_token_for_somebody_or_something_else_is_not(claims):
    with pytest.raises(TransomError) as refused:
        checked(token(claims))
    assert refused.value.code == "unauthenticated"


def test_a_token_without_a_claim_is_not():
    for missing in GOOD:
        claims = {name: value for name, value in GOOD.items() if name != missing}
        text = jwt.encode({"alg": "RS256", "kid": "one"}, claims, KEY)
        with pytest.raises(TransomError):
            checked(text)


def test_a_token_that_the_provider_did_not_sign_is_not():
    head, body, _ = token().split(".")
    unsigned = b64({"alg": "none", "kid": "one"}) + f".{body}."
    confused = b64({"alg": "HS256", "kid": "one"}) + "." + body
    code = hmac.new(KEY.as_pem(private=False), confused.encode(), hashlib.sha256).digest()
    confused += "." + base64.urlsafe_b64encode(code).rstrip(b"=").decode()
    broken = [f"{head}.{body}.", f"{head}.{body}", f"{head}.{body}.AAAA", "", "a.b.c", "x", "é.é.é"]
    for text in [token(key=OTHER), unsigned, confused, *broken]:
        with pytest.raises(TransomError) as refused:
            checked(text)
        assert refused.value.code == "unauthenticated"


def test_a_key_that_is_not_known_yet_is_asked_for():
    new = RSAKey.generate_key(2048, {"kid": "three"})
    with pytest.raises(UnknownKey):
        checked(token(key=new))


@pytest.mark.parametrize(
    ("claims", "claim", "person"),
    [
        ({"sub": "Anna"}, "sub", "Anna"),
        ({"email": "Anna@Example.com", "email_verified": True}, "email", "anna@example.com"),
        *[({"email": "a@b", "email_verified": value}, "email", None) for value in (False, None, "true", 1)],
        ({"email": "a@b"}, "email", None),
        ({"sub": "x"}, "preferred_username", None),
        ({"preferred_username": ["x"]}, "preferred_username", None),
        ({"preferred_username": ""}, "preferred_username", None),
    ],
)
def test_who_it_is_comes_from_the_one_claim_that_is_set(claims, claim, person):
    if person is not None:
        assert person_of(claims, claim) == person
        return
    with pytest.raises(TransomError) as refused:
        person_of(claims, claim)
    assert refused.value.code == "unauthenticated"


def test_a_name_is_one_short_line_or_none():
    assert name_of({"name": "Anna Ω"}) == "Anna Ω"
    assert [name_of(claims) for claims in ({}, {"name": 5}, {"name": "a\nb"}, {"name": "x" * 201})] == [""] * 4

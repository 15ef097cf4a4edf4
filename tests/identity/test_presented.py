"""What a request shows of its sender: exactly one credential, or it is refused; nothing in a header fails."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import RequestHead, TransomError
from transom_identity.presented import COOKIE, presented

TOKEN = "a-token-of-some-length"
SESSION = f"{COOKIE}=tr_ses_x"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_scheme_is_read_in_any_case(head, scheme):
    assert presented(head(f"{scheme} {TOKEN}")).value == TOKEN


def test_a_token_may_have_4096_characters(head):
    assert presented(head("Bearer " + "x" * 4096)).value == "x" * 4096


def test_a_session_is_found_among_other_cookies(head):
    shown = presented(head(cookie=f"theme=dark; {SESSION};other=1"))
    assert (shown.way, shown.value) == ("session", "tr_ses_x")


def test_cookies_that_are_no_session_go_with_any_credential(head):
    assert presented(head(f"Bearer {TOKEN}", cookie="theme=dark")).way == "bearer"


def test_a_certificate_counts_only_as_its_digest(head):
    assert presented(head(certificate="sha256:AB")).value == "sha256:ab"
    assert presented(head(certificate="CN=somebody")) is None


@pytest.mark.parametrize(
    "authorization",
    [(), ("Basic dTpw",), ("Digest x",), (TOKEN,), ("Negotiate",)],
    ids=["no header", "Basic", "Digest", "no scheme", "a scheme alone"],
)
def test_what_is_no_bearer_token_is_left_to_others(head, authorization):
    assert presented(head(*authorization)) is None


@pytest.mark.parametrize(
    "authorization",
    [
        (f"Bearer {TOKEN}", f"Bearer {TOKEN}"),
        (f"Bearer {TOKEN}", "Bearer other"),
        ("Basic dTpw", f"Bearer {TOKEN}"),
        ("", f"Bearer {TOKEN}"),
        ("",),
        ("Bearer",),
        ("Bearer ",),
        (f"Bearer  {TOKEN}",),
        (f"Bearer {TOKEN} x",),
        (f"Bearer {TOKEN}\xe9",),
        (f"Bearer {TOKEN}\x00",),
        (f"Bearer {TOKEN}\n",),
        ("Bearer " + "x" * 4097,),
        ("Bearer " + "x" * 1_000_000,),
    ],
)
def test_what_is_ambiguous_or_no_token_is_refused_without_its_words(head, authorization):
    with pytest.raises(TransomError) as refused:
        presented(head(*authorization))
    assert refused.value.code == "unauthenticated"
    assert TOKEN not in refused.value.message


@pytest.mark.parametrize(
    "others",
    [
        {"cookie": SESSION},
        {"certificate": "sha256:ab"},
        {"x_api_key": "other"},
        {"x_api_key": ""},
    ],
    ids=["a session", "a certificate", "an X-API-Key", "an empty X-API-Key"],
)
def test_a_bearer_token_comes_with_no_other_credential(head, others):
    with pytest.raises(TransomError) as refused:
        presented(head(f"Bearer {TOKEN}", **others))
    assert refused.value.code == "unauthenticated"


@pytest.mark.parametrize(
    "cookie",
    [
        f"{SESSION}; {SESSION}",
        (SESSION, f"{COOKIE}=y"),
        f"{COOKIE}=",
        f"{COOKIE}=a b",
        f"{COOKIE}=\xe9",
        f"{COOKIE}={'x' * 5000}",
    ],
    ids=["twice", "in two headers", "empty", "a blank", "no ASCII", "too long"],
)
def test_a_session_that_is_ambiguous_or_none_is_refused(head, cookie):
    with pytest.raises(TransomError):
        presented(head(cookie=cookie))


def test_a_session_comes_with_no_authorization_of_any_scheme(head):
    with pytest.raises(TransomError):
        presented(head("Basic dTpw", cookie=SESSION))


any_bytes = st.binary(max_size=60).map(lambda raw: raw.decode("latin-1"))
headers = st.fixed_dictionaries(
    {},
    optional={
        "authorization": st.lists(any_bytes | any_bytes.map("Bearer {}".format) | st.just(f"Bearer {TOKEN}"), max_size=3),
        "cookie": st.lists(any_bytes | any_bytes.map(f"{COOKIE}={{}}".format) | st.just(SESSION), max_size=3),
        "x-api-key": st.lists(any_bytes, max_size=1),
    },
)


@given(headers, st.sampled_from(["", "sha256:ab", "CN=x"]))
def test_any_bytes_in_the_headers_give_one_credential_none_or_a_plain_refusal(given_headers, certificate):
    sent = {name: tuple(values) for name, values in given_headers.items()}
    request = RequestHead(method="GET", path="/", headers=sent, certificate=certificate)
    try:
        shown = presented(request)
    except TransomError:
        return
    if shown is None:
        return
    assert shown.value.isascii()
    if shown.way == "bearer":
        assert (len(sent["authorization"]), sent["authorization"][0].split(" ")[1]) == (1, shown.value)
        assert certificate != "sha256:ab"
        assert not any(pair.strip().startswith(f"{COOKIE}=") for c in sent.get("cookie", ()) for pair in c.split(";"))
    if shown.way == "session":
        assert "authorization" not in sent

"""Who sends a request: one bearer token, exactly one, or nobody."""

import hashlib
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import Access, RequestHead, TransomError
from transom_identity import IdentityPlugin
from transom_identity.callers import CallerConfig

TOKEN = "a-token-of-some-length"
OTHER = "another-token-of-length"


def sha(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def plugin() -> IdentityPlugin:
    callers = {
        "ci": CallerConfig(role="member", token_sha256=sha(TOKEN), label="built", scopes=("echo",)),
        "kim": CallerConfig(kind="person", tenant="acme", role="reader", token_sha256=sha(OTHER).upper()),
    }
    return IdentityPlugin(IdentityPlugin.Config(callers=callers))


def test_a_token_finds_its_caller(head):
    caller = plugin().authenticate(head(f"Bearer {TOKEN}"))
    assert (caller.kind, caller.id, caller.tenant, caller.label, caller.scopes) == ("key", "ci", "default", "built", ("echo",))


def test_the_digest_may_be_written_in_capitals(head):
    assert plugin().authenticate(head(f"Bearer {OTHER}")).principal == "person:kim"


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "bEaReR"])
def test_the_scheme_is_read_in_any_case(head, scheme):
    assert plugin().authenticate(head(f"{scheme} {TOKEN}")) is not None


@pytest.mark.parametrize(
    "authorization",
    [
        (),
        ("Basic dTpw",),
        ("Digest x",),
        (TOKEN,),
        ("Bearer unknown-token-altogether",),
        (f"Bearer {TOKEN}x",),
        (f"Bearer {TOKEN[:-1]}",),
    ],
    ids=["no header", "Basic", "Digest", "no scheme", "an unknown token", "a longer one", "a shorter one"],
)
def test_what_is_not_this_plugins_is_left_to_others(head, authorization):
    assert plugin().authenticate(head(*authorization)) is None


@pytest.mark.parametrize(
    "authorization",
    [
        (f"Bearer {TOKEN}", f"Bearer {TOKEN}"),
        (f"Bearer {TOKEN}", f"Bearer {OTHER}"),
        ("Basic dTpw", f"Bearer {TOKEN}"),
        ("", f"Bearer {TOKEN}"),
        ("Basic a", "Basic b"),
        ("",),
        ("Bearer",),
        ("Bearer ",),
        (f"Bearer  {TOKEN}",),
        (f"Bearer {TOKEN} {OTHER}",),
        (f"Bearer {TOKEN},{OTHER} ",),
        (f"Bearer {TOKEN}\xe9",),
        (f"Bearer {TOKEN}\x00",),
        (f"Bearer {TOKEN}\n",),
        ("Bearer " + "x" * 4097,),
    ],
)
def test_what_is_ambiguous_or_no_token_is_refused(head, authorization):
    with pytest.raises(TransomError) as refused:
        plugin().authenticate(head(*authorization))
    assert refused.value.code == "unauthenticated"
    assert TOKEN not in refused.value.message


def test_every_refusal_reads_the_same(head):
    def words(*authorization: str) -> str:
        with pytest.raises(TransomError) as refused:
            plugin().authenticate(head(*authorization))
        return refused.value.message

    assert words(f"Bearer {TOKEN}", f"Bearer {OTHER}") == words("Bearer ") == words("Bearer \xff")


def test_a_token_may_have_4096_characters(head):
    long = "x" * 4096
    callers = {"long": CallerConfig(role="reader", token_sha256=sha(long))}
    assert IdentityPlugin(IdentityPlugin.Config(callers=callers)).authenticate(head(f"Bearer {long}")).id == "long"


values = st.lists(
    st.one_of(
        st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")),
        st.binary(max_size=60).map(lambda raw: "Bearer " + raw.decode("latin-1")),
        st.sampled_from([f"Bearer {TOKEN}", f"bearer {OTHER}", "Bearer", "Basic x"]),
    ),
    max_size=3,
)


def outcome(authorization: list[str]) -> str:
    request = RequestHead(method="GET", path="/", headers={"authorization": tuple(authorization)})
    try:
        caller = plugin().authenticate(request)
    except TransomError as error:
        return error.code
    return caller.id if caller else "nobody"


@given(values)
def test_any_bytes_in_the_header_give_a_caller_nobody_or_a_plain_refusal(authorization):
    good = {f"Bearer {TOKEN}": "ci", f"bearer {OTHER}": "kim"}
    if len(authorization) == 1 and authorization[0] in good:
        assert outcome(authorization) == good[authorization[0]]
    else:
        assert outcome(authorization) in ("nobody", "unauthenticated")


def test_a_request_is_authenticated_and_authorized_in_well_under_60_microseconds(head):
    identity, request = plugin(), head(f"Bearer {TOKEN}")
    access = Access(caller=identity.authenticate(request), tenant="default", permission="jobs.start", object="echo")
    best = min(_seconds_each(identity, request, access) for _ in range(7))
    assert best < 60e-6


def _seconds_each(identity: IdentityPlugin, request: RequestHead, access: Access) -> float:
    begun = perf_counter()
    for _ in range(300):
        identity.authenticate(request)
        identity.authorize(access)
    return (perf_counter() - begun) / 300

"""Origins as they are written, and whether a browser's request comes from this server's own pages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import RequestHead, TransomError
from transom_identity.origins import check_own_page, origin_of, speaks_tls


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://app.example", "https://app.example"),
        ("HTTPS://App.Example:443", "https://app.example"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://x:80", "http://x"),
        ("https://x:80", "https://x:80"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        *[
            (text, None)
            for text in [
                *("", "*", "null", "app.example", "https://", "https://app.example/", "https://app.example/x", "ftp://x"),
                *("https://*.example", "https://u@x", "https://u:p@x", "https://x:0", "https://x:65536", "https://x:99999"),
                *("https://x y", "https://é.example", "https://x\n", "https://x?y", "https://x#y", "https://-x", "https://x."),
            ]
        ],
    ],
)
def test_an_origin_is_scheme_host_and_perhaps_a_port(text, origin):
    assert origin_of(text) == origin


@given(st.text())
def test_what_is_an_origin_stays_one_when_written_again(text):
    origin = origin_of(text)
    assert origin is None or origin_of(origin) == origin


def from_own_page(method: str = "POST", public: str = "", **headers: str | tuple[str, ...]) -> bool:
    given = {name.replace("_", "-"): (v,) if isinstance(v, str) else v for name, v in headers.items()}
    try:
        check_own_page(RequestHead(method=method, path="/", headers={"host": ("app.example:7443",), **given}), public)
    except TransomError as error:
        return error.code != "permission_denied"
    return True


OWN = "https://app.example:7443"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_what_only_reads_needs_no_origin(method):
    assert from_own_page(method)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "LOCK", "get"])
def test_everything_else_comes_from_an_own_page(method):
    assert not from_own_page(method)
    assert from_own_page(method, origin=OWN)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": OWN},
        {"origin": "http://app.example:7443"},
        {"origin": OWN.upper()},
        {"referer": f"{OWN}/console?x=1"},
        {"origin": OWN, "sec_fetch_site": "same-origin"},
        {"origin": OWN, "sec_fetch_site": "none"},
        {"origin": OWN, "referer": "https://evil.example/"},
    ],
)
def test_the_own_host_is_an_own_page(headers):
    assert from_own_page(**headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "null"},
        {"origin": ""},
        {"origin": "https://evil.example"},
        {"origin": "https://app.example"},
        {"origin": "https://app.example.evil.example:7443"},
        {"origin": "https://evil.app.example:7443"},
        {"origin": f"{OWN}@evil.example"},
        {"origin": (OWN, OWN)},
        {"origin": "https://[::1"},
        {"origin": "https://evil.example", "referer": f"{OWN}/"},
        {"referer": "https://evil.example/?https://app.example:7443"},
        {"origin": OWN, "sec_fetch_site": "cross-site"},
        {"origin": OWN, "sec_fetch_site": "same-site"},
        {"origin": OWN, "sec_fetch_site": ("same-origin", "cross-site")},
        {"origin": OWN, "host": ("app.example:7443", "evil.example")},
        {"origin": OWN, "host": ""},
    ],
)
def test_any_other_page_is_refused(headers):
    assert not from_own_page(**headers)


def test_the_public_address_is_an_own_page_whatever_host_the_proxy_says():
    assert from_own_page(origin="https://agents.example", public="https://agents.example/console")
    assert not from_own_page(origin="http://agents.example", public="https://agents.example/console")


@given(st.text(), st.text(), st.text())
def test_any_text_in_the_headers_is_an_answer(origin, referer, site):
    own = from_own_page(origin=origin, referer=referer, sec_fetch_site=site)
    assert not own or (origin_of(origin) in (OWN, OWN.replace("https", "http")) and site in ("same-origin", "none"))


@pytest.mark.parametrize(
    ("scheme", "host", "public", "secure"),
    [
        ("https", "x", "", True),
        ("http", "x", "", False),
        ("http", "agents.example", "https://agents.example", True),
        ("http", "localhost:7443", "https://agents.example", False),
        ("http", "agents.example", "http://agents.example", False),
    ],
)
def test_tls_is_spoken_to_the_process_or_to_the_proxy_before_it(scheme, host, public, secure):
    assert speaks_tls(RequestHead(method="POST", path="/", headers={"host": (host,)}), scheme, public) is secure

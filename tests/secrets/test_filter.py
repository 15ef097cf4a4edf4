"""The filter of secrets: a value passes in none of its writings, however the text is cut; all else passes unchanged."""

import json
import re
import string
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Sequence
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transom_hookspecs import FilterScope, TextFilter
from transom_secrets.matching import SHORTEST, Matcher
from transom_testing.contracts import FilterContract

pytestmark = pytest.mark.req("OUT-3")

VALUES = {"github": "ghp_9Zq2LmB7xKfT", "pass phrase": 'drei Bären/und "zwei"\\Fälle+%41', "überall": "schlüssel-überall"}

KEPT = st.characters(codec="utf-8", exclude_characters="[]")
"""A mask has brackets; a value with some could be made by masking another."""

TRICKY = st.text(st.sampled_from('ab%\\+u0061 c2n"/=é'), max_size=6)
"""Pieces that begin, break off and mix escapes, with the letters of the values that go with them."""

OPEN = re.compile(r"(?:\\|%[%0-9A-Fa-f]*)\Z")
AROUND = (st.text(KEPT, max_size=20) | TRICKY).map(lambda text: OPEN.sub(".", text))
"""Where an escape is open, what follows is part of that: what was the writing of a value is that of something else."""

PARAMETERS = settings(deadline=None, max_examples=150)


def written(value: str) -> dict[str, str]:
    """A value as others may write it."""
    data = value.encode()
    return {
        "as it is": value,
        "JSON": json.dumps(value)[1:-1],
        "JSON, UTF-8": json.dumps(value, ensure_ascii=False)[1:-1],
        "JSON, upper-case hex": "".join(f"\\u{ord(c):04X}" if ord(c) < 0x10000 else json.dumps(c)[1:-1] for c in value),
        "JSON, with its slashes escaped": json.dumps(value)[1:-1].replace("/", "\\/"),
        "percent": quote(value),
        "percent, all of it": "".join(f"%{byte:02x}" for byte in data),
        "percent, reserved too": quote(value, safe=""),
        "percent, lower case": quote(value).replace("%C3%A4", "%c3%a4"),
        "form": quote_plus(value),
        "base64": b64encode(data).decode(),
        "base64, unpadded": b64encode(data).decode().rstrip("="),
        "base64, URL-safe": urlsafe_b64encode(data).decode(),
    }


def fed(text_filter: TextFilter, pieces: Sequence[str]) -> str:
    return "".join([*(text_filter.feed(piece) for piece in pieces), text_filter.end()])


def cut(text: str, places: Sequence[int]) -> list[str]:
    return [text[start:end] for start, end in pairwise([0, *sorted(min(place, len(text)) for place in places), len(text)])]


class Filter:
    """As the plugin's, of a fixed set of values."""

    name = "secrets"

    def __init__(self, values: dict[str, str]) -> None:
        self._matcher = Matcher(values)

    def open(self, scope: FilterScope) -> TextFilter:
        return self._matcher.stream()


class TestOfSomeValues(FilterContract):
    secrets = st.sampled_from(sorted({form for value in VALUES.values() for form in written(value).values()}))

    @pytest.fixture
    def filter(self) -> Filter:
        return Filter(VALUES)


@pytest.mark.parametrize("form", written("x"))
@pytest.mark.parametrize("value", VALUES.values())
def test_a_value_is_found_in_each_of_its_writings(value, form):
    text = written(value)[form]
    said = Matcher(VALUES).redacted(f"<{text}>")
    assert "[secret " in said
    assert said.startswith("<[")
    assert said.endswith(">")


@pytest.mark.parametrize("before", ["", "a", "ab", "abc", "{'key': '"])
@pytest.mark.parametrize("after", ["", "z", "yz", "'}"])
def test_a_value_is_found_inside_of_what_is_encoded_as_a_whole(before, after):
    value = "ghp_9Zq2LmB7xKfT"
    for encode in (b64encode, urlsafe_b64encode):
        encoded = encode(f"{before}{value}{after}".encode()).decode()
        said = Matcher(VALUES).redacted(encoded)
        assert "[secret github]" in said
        assert len(said.replace("[secret github]", "")) <= len(encoded) - len(value)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_value_is_found_in_json_in_json(depth):
    """As it stands in arguments that are kept as text in a text. A key in lines is the secret with most to escape."""
    value = text = '-----BEGIN KEY-----\nMIIEvQ"IBADAN/Bgkqhé=\n-----END KEY-----\n'
    for _ in range(depth):
        text = json.dumps({"key": text})
    said = Matcher({"pem": value}).redacted(text)
    assert "[secret pem]" in said
    assert "MII" not in said


def test_escaped_base64_is_found_too():
    """A `/` of base64 is escaped by some writers of JSON, and `+` and `/` in a query."""
    value = "\xff\xfe>>>???~~~"
    encoded = b64encode(value.encode()).decode()
    assert "/" in encoded
    assert "+" in encoded
    for text in (encoded.replace("/", "\\/"), quote(encoded, safe="")):
        assert Matcher({"odd": value}).redacted(text) in ("[secret odd]", "[secret odd]%3D", "[secret odd]=")


@PARAMETERS
@given(
    values=st.lists(st.text(KEPT, min_size=SHORTEST, max_size=40).filter(str.strip), min_size=1, max_size=4),
    around=st.lists(AROUND, min_size=1, max_size=4),
    places=st.lists(st.integers(0, 400), max_size=12),
    form=st.sampled_from(sorted(written("x"))),
    data=st.data(),
)
def test_no_value_comes_out_however_the_text_is_cut(values, around, places, form, data):
    matcher = Matcher({f"s{number}": value for number, value in enumerate(values)})
    hidden = written(data.draw(st.sampled_from(values)))[form]
    text = hidden.join([*around, ""])
    said = fed(matcher.stream(), cut(text, places))
    assert hidden not in said
    for value in values:
        assert value not in said
    assert fed(matcher.stream(), list(text)) == fed(matcher.stream(), [text]) == said


@PARAMETERS
@given(
    value=st.text(st.sampled_from("ab%4\\u0+ "), min_size=SHORTEST, max_size=14).filter(str.strip),
    text=st.text(st.sampled_from("ab%4162\\u0+ "), max_size=60),
    times=st.integers(0, 3),
    places=st.lists(st.integers(0, 120), max_size=20),
)
def test_cuts_change_nothing_where_escapes_are_values_too(value, text, times, places):
    """The hardest texts: what is an escape to one reader is the value itself to another."""
    matcher = Matcher({"a": value, "b": value[::-1], "c": value[1:] + "ab"})
    text = value.join([text, *[text[::-1], quote_plus(value)][:times]])
    whole = fed(matcher.stream(), [text])
    assert fed(matcher.stream(), cut(text, places)) == whole
    assert fed(matcher.stream(), list(text)) == whole
    assert matcher.redacted(text) == whole


@PARAMETERS
@given(
    values=st.lists(st.text(string.ascii_letters + string.digits, min_size=SHORTEST, max_size=40), min_size=1, max_size=4),
    pieces=st.lists(st.text(max_size=30) | TRICKY, max_size=8),
)
def test_a_text_without_a_value_passes_unchanged(values, pieces):
    """Whatever writing it has: no character of it decodes to a letter or digit of a value, eight of them in a row."""
    text = "".join(pieces).translate({ord(each): "#" for each in string.ascii_letters + string.digits})
    assert fed(Matcher({str(n): value for n, value in enumerate(values)}).stream(), cut(text, range(0, len(text), 3))) == text


@PARAMETERS
@given(value=st.text(string.ascii_lowercase, min_size=SHORTEST, max_size=20), data=st.data())
def test_a_value_that_breaks_off_passes(value, data):
    """All but a value's last character is no value, and comes out at the text's end at the latest."""
    for form in (value[:-1], quote(value)[:-1], value[:-1] + "\\", value[:-1] + "%", value[:-1] + "\\u00"):
        pieces = data.draw(st.lists(st.integers(0, len(form)), max_size=4))
        assert fed(Matcher({"a": value}).stream(), cut(form, pieces)) == form


@PARAMETERS
@given(value=st.text(string.ascii_lowercase, min_size=SHORTEST, max_size=20))
def test_only_what_may_become_a_value_is_held(value):
    stream = Matcher({"a": value}).stream()
    assert stream.feed("# ") == "# "
    assert stream.feed(value[:5]) == ""
    assert stream.feed("#") == value[:5] + "#"
    assert stream.feed("%") == ""
    assert stream.feed("23#") == "%23#"


@pytest.mark.parametrize(
    ("values", "text", "said"),
    [
        ({"short": "1234567"}, "1234567", "1234567"),
        ({"just": "12345678"}, "12345678", "[secret just]"),
        ({"file": "12345678\n"}, "12345678", "[secret file]"),
        ({"spaced": "1234567 "}, "1234567 ", "[secret spaced]"),
        ({"spaced": "1234567 "}, "1234567", "1234567"),
        ({"a": "abcdefgh", "b": "abcdefghij"}, "abcdefghij abcdefghi", "[secret b] [secret a]i"),
        ({"a": "abcdefgh", "b": "cdefghij"}, "abcdefghij", "[secret a]ij"),
        ({"a": "same-value", "b": "same-value"}, "same-value", "[secret a]"),
        ({"hunter22": "hunter22"}, "hunter22", "[secret]"),
        ({"hunter22": "hunter22", "b": "[secret]"}, "hunter22", "[withheld]"),
        ({"hunter22": "hunter22", "b": "[secret]", "c": "[withheld]"}, "hunter22", "***"),
        ({"a": "abcdefgh"}, "abcdefghabcdefgh", "[secret a][secret a]"),
        ({}, "anything", "anything"),
    ],
)
def test_which_values_are_masked_and_how(values, text, said):
    matcher = Matcher(values)
    assert matcher.redacted(text) == said
    assert fed(matcher.stream(), list(text)) == said


def test_a_long_value_is_found_and_one_that_repeats_itself_takes_no_age():
    """Both would take minutes if each place of the text were compared with all of the value."""
    long = "".join(chr(33 + i * 7919 % 90) for i in range(64 * 1024))
    repeats = "a" * (64 * 1024 - 1) + "b"
    matcher = Matcher({"long": long, "repeats": repeats})
    assert matcher.redacted(f"x{long}y") == "x[secret long]y"
    assert matcher.redacted(b64encode(long.encode()).decode()) == "[secret long]"
    text = "a" * 100_000
    assert matcher.redacted(text) == text
    assert matcher.redacted(f"{text}b") == f"{'a' * (100_001 - 64 * 1024)}[secret repeats]"


def test_a_text_full_of_encoded_values_takes_no_age():
    text = "%61bcdefgh" * 20_000
    assert Matcher({"a": "abcdefgh"}).redacted(text) == "[secret a]" * 20_000


def test_many_secrets_are_looked_for_at_once():
    values = {f"s{i}": f"{i:04}-{i * i:08}-value" for i in range(500)}
    text = " ".join(values.values())
    assert Matcher(values).redacted(text) == " ".join(f"[secret {name}]" for name in values)

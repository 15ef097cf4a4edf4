"""Bodies as doors read them: forms, JSON with bounds, bytes as they came."""

import json
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_doors import bodies
from transom_doors.bodies import FORM, MAX_DEPTH, MAX_FIELDS, MAX_VALUES
from transom_hookspecs import RequestHead, TransomError

LIMIT = 1000
FORM_HEAD = {"content-type": (FORM,)}


def head(headers=None) -> RequestHead:
    return RequestHead(method="POST", path="/", headers=headers or {})


def sent(*parts: bytes):
    """`receive` for a body that comes in parts."""
    messages = [{"type": "http.request", "body": part, "more_body": n + 1 < len(parts)} for n, part in enumerate(parts)]

    async def receive():
        return messages.pop(0)

    return receive


def finished(coroutine) -> Any:
    """What a coroutine that waits for nothing returns."""
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    return stop.value.value


def form(content: bytes, headers=FORM_HEAD) -> dict[str, str]:
    return finished(bodies.form_body(head(headers), sent(content), LIMIT))


def refused(call) -> TransomError:
    with pytest.raises(TransomError) as caught:
        call()
    assert caught.value.code == "invalid_argument"
    return caught.value


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=8))
def test_a_form_is_what_was_put_into_it(fields):
    assert form(urlencode(fields).encode()) == fields


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (b"", {}),
        (b"a=1&b=x+y%2B", {"a": "1", "b": "x y+"}),
        (b"a=&b", {"a": "", "b": ""}),
        ("ü=ß".encode(), {"ü": "ß"}),
    ],
)
def test_a_form_in_its_odd_shapes(content, fields):
    assert form(content) == fields


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"scope=a&grant=x&scope=a", "'scope' is given twice"),
        (b"a=%ff", "UTF-8"),
        (b"a=\xff", "byte 2"),
        (b"&".join(b"f%d=1" % n for n in range(MAX_FIELDS + 1)), f"more than {MAX_FIELDS} fields"),
        (b"a=" + b"x" * LIMIT, f"{LIMIT:,} bytes"),
    ],
    ids=["twice", "escaped bytes", "bytes", "fields", "long"],
)
def test_a_form_that_is_refused_says_why(content, words):
    assert words in refused(lambda: form(content)).message


@pytest.mark.parametrize("headers", [{}, {"content-type": ("application/json",)}, FORM_HEAD | {"content-encoding": ("gzip",)}])
def test_a_form_comes_as_a_form(headers):
    assert refused(lambda: form(b"a=1", headers)).status == 415


def test_a_json_body_may_have_another_media_type_where_that_is_expected():
    def read(media: str):
        of = head({"content-type": (media,)})
        return finished(bodies.json_body(of, sent(b'{"a":', b"1}"), LIMIT, dict[str, int], ("application/a2a+json",)))

    assert read("application/a2a+json") == {"a": 1}
    assert "application/a2a+json" in refused(lambda: read("application/json")).message


def test_the_bytes_are_to_be_had_as_they_came():
    assert finished(bodies.read(head(), sent(b"{ ", b" \xff", b""), LIMIT)) == b"{  \xff"


VALUES = {
    "numbers": b"[" + b"1," * 2_000_000 + b"1]",
    "empty texts": b"[" + b'"",' * 1_300_000 + b'""]',
    "objects": b"[" + b'{"a":1},' * 500_000 + b"1]",
    "empty lists": b"[" + b"[]," * 1_300_000 + b"[]]",
    "just too many": b"[" + b"1," * (MAX_VALUES - 1) + b"1]",
    "just too many texts": b"[" + b'"",' * (MAX_VALUES - 1) + b'""]',
}


@pytest.mark.parametrize("name", VALUES)
def test_a_body_of_very_many_values_is_refused_before_anything_is_made_of_it(name, monkeypatch):
    monkeypatch.setattr(msgspec.json, "decode", None)
    error = refused(lambda: bodies.decode(VALUES[name], Any))
    assert error.message.startswith("the body has more than 200,000 values")


@pytest.mark.parametrize(
    "body",
    [
        [1] * (MAX_VALUES - 1),
        [""] * (MAX_VALUES - 1),
        {str(n): "," for n in range(MAX_VALUES - 1)},
        [",[{" * MAX_VALUES, '\\",[' * MAX_VALUES],
    ],
    ids=["numbers", "texts", "members", "few, with commas in them"],
)
def test_a_body_of_as_many_values_as_may_be_is_taken(body):
    assert bodies.decode(json.dumps(body).encode(), Any) == body


def marks(value) -> int:
    """Commas and opening brackets of a value, those in texts left out."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else max(len(inner), 1) + sum(marks(each) for each in inner)


def depth(value) -> int:
    """Levels of lists and objects."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max((depth(each) for each in inner), default=0)


JSONS = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(alphabet='"\\[{,a\u2028', max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='"\\,a', max_size=2), inner, max_size=4),
    max_leaves=12,
)


@given(JSONS, st.integers(1, 30))
def test_whatever_stands_in_its_texts_a_body_is_refused_for_its_own_values_and_levels_alone(value, limit):
    body = json.dumps(value, ensure_ascii=False).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "MAX_VALUES", limit)
        patch.setattr(bodies, "MAX_DEPTH", 3)
        if marks(value) >= limit:
            assert "values" in refused(lambda: bodies.decode(body, Any)).message
        elif depth(value) > 3:
            assert "levels" in refused(lambda: bodies.decode(body, Any)).message
        else:
            assert bodies.decode(body, Any) == value


def test_a_body_may_be_as_deep_as_is_said():
    deep = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert bodies.decode(deep, list) is not None
    assert f"more than {MAX_DEPTH} levels" in refused(lambda: bodies.decode(b"[" + deep + b"]", list)).message

"""YAML: values keep their author's meaning, and what cannot be read is refused in one line that says what to do."""

import json
import math
import time

import pytest
import yaml as pyyaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from transom import yaml
from transom_hookspecs import TransomError

PARSERS = {"libyaml": pyyaml.CSafeLoader, "python": pyyaml.SafeLoader}


@pytest.fixture(params=PARSERS)
def parser(request, monkeypatch):
    """Both of PyYAML's parsers: the second is what there is where no libyaml was built."""
    monkeypatch.setattr(yaml, "_PARSER", PARSERS[request.param])
    return request.param


def refusal(text, path="agents/a.yaml"):
    with pytest.raises(TransomError) as caught:
        yaml.load(text, path)
    assert caught.value.code == "invalid_argument"
    message = caught.value.message
    place = caught.value.details
    assert message.startswith(f"{path}:{place['line']}:{place['column']}: "), message
    assert "\n" not in message
    assert "; " in message
    return message


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("NO", "NO"),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("True", "True"),
        ("22:30", "22:30"),
        ("1:20:30", "1:20:30"),
        ("0755", "0755"),
        ("012", "012"),
        ("0o14", "0o14"),
        ("0x1F", "0x1F"),
        ("0b101", "0b101"),
        ("1_000", "1_000"),
        ("+49", "+49"),
        ("2026-03-01", "2026-03-01"),
        ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z"),
        ("1.2.3", "1.2.3"),
        ("12e3", "12e3"),
        ("1.", "1."),
        ("=", "="),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e+999", "1e+999"),
        ("9223372036854775808", "9223372036854775808"),
        ("NULL", "NULL"),
        ('"1.10"', "1.10"),
        ("'true'", "true"),
        ("!!str 12", "12"),
        ("! 12", "12"),
        ("9223372036854775807", 9223372036854775807),
        ("-7", -7),
        ("0", 0),
        ("1.10", 1.1),
        (".5", 0.5),
        ("-0.5", -0.5),
        ("1.5e3", 1500.0),
        ("1e-05", 1e-05),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
    ],
)
def test_a_value_is_read_as_its_author_means_it(written, read):
    value = yaml.load(f"a: {written}\n", "a.yaml")["a"]

    assert value == read
    assert type(value) is type(read)


@pytest.mark.usefixtures("parser")
def test_a_document_is_read_whole():
    text = "\ufeff# greets\nname: helper\non: {push: [main, 'v*']}\ntext: |\n  one\n  two\nfolded: >-\n  a\n  b\nempty: {}\n"

    assert yaml.load(text.encode(), "a.yaml") == {
        "name": "helper",
        "on": {"push": ["main", "v*"]},
        "text": "one\ntwo\n",
        "folded": "a b",
        "empty": {},
    }


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("agent: x\nbudget: 1\nbudget: 1000\n", "3:1", "'budget' stands in line 2 already; remove one"),
        ('a: 1\n"a": 2\n', "2:1", "'a' stands in line 1 already"),
        ("b: &b {x: 1}\nc:\n  <<: *b\n  y: 1\n  y: 2\n", "5:3", "'y' stands in line 4 already"),
        ("b: &b {x: 1}\nc:\n  <<: *b\n  <<: *b\n", "4:3", "merge several as `<<: [*a, *b]`"),
        ("agents:\n\t- name: a\n", "2:1", "a tab"),
        ("a:\t1\n", "1:3", "a tab"),
        ("é: 1\nü:\t1\n", "2:3", "a tab"),
        ("\ta: 1\n", "1:1", "a tab"),
        ("a: b: c\n", "1:5", "put text with `: ` in it in quotes"),
        ("a: 1\n b: 2\n", "2:3", "mend the indentation"),
        ("a: 1\n---\nb: 2\n", "2:1", "a second document begins; leave one document in the file"),
        ("a: 1\n...\nb: 2\n", "3:1", "leave one document in the file"),
        ("- a\n", "1:1", "write it as `key: value` lines"),
        ("a\n", "1:1", "the document is no mapping"),
        ("", "1:1", "the document is no mapping"),
        ("# nothing\n", "1:1", "the document is no mapping"),
        ("a: 'x\n", "2:1", "the quote that opens in line 1 is not closed"),
        ("a: [1, 2\n", "2:1", "add the missing `,` or `]`"),
        ("a: {b: 2\n", "2:1", "add the missing `,` or `}`"),
        ("a: @x\n", "1:4", "a value cannot begin with `@`; put it in quotes"),
        ("a: *\n", "1:5", "put the text in quotes"),
        ("- a\nb: c\n", "2:1", "does not fit"),
        ("1: x\n", "1:1", 'the key `1` is no text; write it as "1"'),
        ("true: x\n", "1:1", 'write it as "true"'),
        ("? [a]\n: b\n", "1:3", "a list or mapping as a key"),
        ("a: &a x\n*a : y\n", "2:1", "an alias as a key"),
        ("a: !!python/object:os.system x\n", "1:4", "the tag 'tag:yaml.org,2002:python/object:os.system' means nothing here"),
        ("a: !!int 12\n", "1:4", "the tag"),
        ("a: !x {b: 1}\n", "1:4", "the tag '!x' means nothing here; remove it"),
        ("a: *b\n", "1:4", "`*b` means nothing yet"),
        ("a: &b 1\nc:\n  <<: *b\n", "3:7", "`<<` merges something that is no mapping"),
        ("a: &a {b: *a}\n", "1:11", "`*a` stands inside what it means"),
        ("a: &a\n- &b [*a]\n", "2:7", "`*a` stands inside what it means"),
        ("a: b\0c\n", "1:5", "U+0000 is not allowed; remove it"),
        ('a: "\\0"\n', "1:4", "an escape stands for NUL"),
        ("a: \x1b[0m\n", "1:4", "U+001B is not allowed"),
        (b"ok: 1\nno: \xe9\n", "2:5", "the byte 0xe9 is no UTF-8; save the file as UTF-8"),
        ("a: 1\n".encode("utf-16"), "1:1", "no UTF-8"),
        ("a: \ud800", "1:4", "no UTF-8"),
        ("a: " + "[" * 70 + "]" * 70, "1:67", "deeper than 64 levels"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place_and_a_remedy(text, place, words):
    message = refusal(text)

    assert message.startswith(f"agents/a.yaml:{place}: ")
    assert words in message


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "text", ['a: "\\U0011FFFF"', 'a: "\\ud83d"', 'a: "\\q"', "%YAML 9.9\n---\na: 1", "a: - b", "%TAG !\n---\na: 1"]
)
def test_what_a_parser_trips_over_is_refused_as_well(text):
    refusal(text)


def test_a_tab_inside_a_text_or_a_comment_or_at_a_lines_end_is_no_fault():
    text = "a: 'x\ty'\t\nb: \"\\t\" #\tc\nc: x\ty\nd: |\n  x\ty\n"

    assert yaml.load(text, "a.yaml") == {"a": "x\ty", "b": "\t", "c": "x\ty", "d": "x\ty\n"}


@pytest.mark.usefixtures("parser")
def test_a_mapping_may_override_what_it_merges():
    text = """
    base: &base {model: m, budget: 1}
    more: &more {budget: 5, team: t}
    one: {<<: *base, budget: 2}
    two: {budget: 3, <<: [*base, *more]}
    three: {<<: [*base, *more]}
    quoted: {"<<": 1}
    """

    read = yaml.load(text, "a.yaml")

    assert read["one"] == {"model": "m", "budget": 2}
    assert read["two"] == {"model": "m", "team": "t", "budget": 3}
    assert read["three"] == {"model": "m", "team": "t", "budget": 1}
    assert read["quoted"] == {"<<": 1}


def test_an_alias_is_a_copy_of_its_own():
    read = yaml.load("a: &a {b: [1]}\nc: *a\n&k key: *a\nd: *k\n", "a.yaml")
    read["a"]["b"].append(2)

    assert read == {"a": {"b": [1, 2]}, "c": {"b": [1]}, "key": {"b": [1]}, "d": "key"}


def bomb(levels, width):
    lines = ["a0: &a0 [" + ",".join(["x"] * width) + "]"]
    lines += [f"a{n}: &a{n} [" + ",".join([f"*a{n - 1}"] * width) + "]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(
    "text",
    [
        bomb(9, 9),
        bomb(40, 2),
        "a: &a " + "x" * 100_000 + "\nb: [" + "*a," * 20 + "]",
        "a: &a {" + ",".join(f"k{n}: v" for n in range(20_000)) + "}\nb: [" + "{<<: *a}," * 20 + "]",
    ],
    ids=["wide", "deep", "long text", "merges"],
)
def test_aliases_that_stand_for_too_much_are_refused_at_once(text):
    began = time.process_time()

    assert "the aliases stand for more than 1,048,576 bytes" in refusal(text)
    assert time.process_time() - began < 10


@pytest.mark.usefixtures("parser")
def test_aliases_cannot_nest_deeper_than_the_limit():
    chain = "a0: &a0 []\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 80))

    assert "deeper than 64 levels" in refusal(chain)


def test_a_large_file_is_judged_by_its_size_alone():
    line = "- {name: thing, size: 12}\n"
    fits = "a:\n" + line * ((yaml.MAX_BYTES - 3) // len(line))

    assert len(yaml.load(fits, "a.yaml")["a"]) > 40_000
    assert "1,048,577 bytes are over the limit of 1,048,576" in refusal("a: " + "x" * (yaml.MAX_BYTES - 2))
    assert "bytes are over the limit" in refusal("é" * yaml.MAX_BYTES)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        "{" * 1_000_000,
        "- " * 500_000,
        "? " * 500_000,
        "a: [" + "{}," * 100_000,
        "&a " * 300_000,
        ":" * 1_000_000,
        "\t" * 1_000_000,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_no_text_takes_long_to_refuse(text):
    began = time.process_time()
    refusal(text)

    assert time.process_time() - began < 10


def is_json(value):
    if isinstance(value, dict):
        return all(type(key) is str and is_json(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(is_json, value))
    if type(value) is float:
        return math.isfinite(value)
    return type(value) in (str, int, bool, type(None))


# fmt: off
TOKENS = st.sampled_from([
    "a", "b", ": ", ":", "- ", "-", "&a ", "*a", "*b", "<<", "!!str ", "!x ", "[", "]", "{", "}", ", ", ",", "'", '"', "|",
    ">-", "? ", "#", " #", "12", "012", "1.5", "NO", "null", "\\x41", "\\ud800", "@", "`", "%", "=", "~", "é", "🦀", "\n",
    "\n  ", "\n    ", "\t", "\r\n", "---\n", "...\n", "%YAML 1.1\n", "\0", "\ufeff", "\x85", "\u2028",
])
# fmt: on
TEXTS = st.one_of(st.text(), st.lists(TOKENS, max_size=40).map("".join), st.binary())


@settings(max_examples=500, deadline=5_000)
@given(TEXTS)
@example("%YAML " + "9" * 5_000 + ".1\n---\na: 1")
@pytest.mark.parametrize("parser", PARSERS)
def test_any_text_is_json_or_refused(parser, text):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml, "_PARSER", PARSERS[parser])
        value, refused = attempt(text)

    assert is_json(value)
    assert (value is None) == bool(refused)
    assert "\n" not in refused


def attempt(text):
    try:
        return yaml.load(text, "x.yaml"), ""
    except TransomError as error:
        return None, error.message


WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Zl", "Zp"]) | st.sampled_from('\t\n"\\'), max_size=30)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(WORDS, JSON, max_size=4), st.sampled_from([None, 2]))
def test_json_is_yaml_and_read_as_itself(value, indent):
    written = json.dumps(value, ensure_ascii=False, indent=indent)

    assert yaml.load(written, "x.json") == value


@given(st.dictionaries(WORDS, WORDS, max_size=4))
def test_text_in_quotes_stays_that_text(value):
    written = "\n".join(
        f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(text, ensure_ascii=False)}" for key, text in value.items()
    )

    assert yaml.load(written or "{}", "x.yaml") == value

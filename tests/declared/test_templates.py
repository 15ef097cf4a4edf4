"""Templates: a path becomes what it leads to, and what it leads to is never read as a template."""

import re

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from transom_flows.templates import only_path, paths, render, render_text, resolve
from transom_hookspecs import TransomError

TEXTS = st.text() | st.sampled_from(["${{ input.secret }}", "${{", "}}", "${{ steps.a }} and ${{ trigger }}", "$", "{{ x }}"])
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=15,
)


def find_in(**roots):
    return lambda path: resolve(roots, path)


@given(DATA)
def test_a_whole_template_gives_the_value_as_it_is(value):
    assert render("${{ input.x }}", find_in(input={"x": value, "secret": "s3"})) == value


@given(DATA)
def test_a_template_inside_a_text_gives_text_as_it_is_and_all_else_as_json(value):
    shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()

    assert render("<${{ input.x }}>", find_in(input={"x": value, "secret": "s3"})) == f"<{shown}>"
    assert render_text("${{ input.x }}", find_in(input={"x": value})) == shown


@given(DATA, DATA)
def test_data_anywhere_in_a_declared_value_comes_out_as_it_went_in(one, other):
    declared = {"list": ["${{ input.one }}", {"deep": "${{input.other}}"}], "plain": 5, "none": None}

    made = render(declared, find_in(input={"one": one, "other": other, "secret": "s3"}))

    assert made == {"list": [one, {"deep": other}], "plain": 5, "none": None}


@given(st.text())
def test_a_text_without_a_template_stays_that_text(text):
    assume("${{" not in text)

    assert render(text, find_in()) == text
    assert list(paths(text)) == []


@given(st.text())
def test_any_text_after_an_opening_is_paths_or_refused(text):
    refused = attempt("${{" + text)

    assert refused or all(re.fullmatch(r"[\w-]+(\.[\w-]+)*", path, re.ASCII) for path in paths("${{" + text))
    assert "\n" not in refused


def attempt(declared):
    try:
        list(paths(declared))
    except TransomError as error:
        return error.message
    return ""


def test_paths_go_into_mappings_and_lists():
    root = {"input": {"items": [{"title": "a"}, {"title": "b"}], "0": "zero", "a-b_c": 1}}
    find = find_in(**root)

    assert render("${{ input.items.1.title }}", find) == "b"
    assert render("${{ input.0 }}", find) == "zero"
    assert render("${{input.a-b_c}}", find) == 1
    assert render("${{\n  input.items\n}}", find) == root["input"]["items"]
    assert render("${{ input.items.0.title }}/${{ input.items.1.title }}", find) == "a/b"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("input.repo.name", "`input.repo` is text and has no `name`"),
        ("input.items.2", "`input.items` is a list of 2 and has no `2`"),
        ("input.items.first", "`input.items` is a list of 2 and has no `first`"),
        ("input.items.99999999999999999999", "is a list of 2"),
        ("input.owner", "`input` is a mapping with 'repo', 'items', 'none', 'many', 'empty' and has no `owner`"),
        ("input.none.x", "`input.none` is null and has no `x`"),
        ("input.items.0.x", "`input.items.0` is a number or boolean"),
        ("input.empty.x", "`input.empty` is an empty mapping"),
        ("input.many.x", "'k8', 'k9', … and has no `x`"),
    ],
)
def test_a_path_that_leads_nowhere_says_where_it_stopped(path, words):
    root = {"input": {"repo": "a/b", "items": [1, 2], "none": None, "many": {f"k{n}": n for n in range(50)}, "empty": {}}}

    with pytest.raises(TransomError) as caught:
        resolve(root, path)

    assert caught.value.code == "failed_precondition"
    assert caught.value.message.startswith(f"`${{{{ {path} }}}}` leads nowhere: ")
    assert words in caught.value.message
    assert caught.value.message.endswith("mend the path")


@pytest.mark.parametrize(
    "declared",
    [
        "${{ }}",
        "${{ a + b }}",
        "${{ a..b }}",
        "${{ .a }}",
        "${{ a['b'] }}",
        "${{ f(a) }}",
        "${{ a",
        "x ${{ a } y",
        "${{ ${{ a }} }}",
        "${{ ä }}",
        {"${{ a }}": 1},
    ],
    ids=str,
)
def test_what_is_no_path_is_refused(declared):
    with pytest.raises(TransomError) as caught:
        list(paths(declared))

    assert caught.value.code == "invalid_argument"


@pytest.mark.parametrize("text", ["input.x", "${{ a }} ", "x${{ a }}", "${{ a }}${{ b }}", ""])
def test_a_condition_is_one_template_and_nothing_else(text):
    with pytest.raises(TransomError, match="is no single template"):
        only_path(text)

    assert only_path("${{ a.b }}") == "a.b"


def test_a_text_of_nothing_but_openings_is_refused_at_once():
    assert "not closed" in attempt("${{" * 300_000)
    assert "is no path" in attempt("${{" + " " * 1_000_000 + "!}}")

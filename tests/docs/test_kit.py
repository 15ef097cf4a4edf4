"""What compares a page with what was printed says no when it must, and learns the page's names."""

import pytest
from blocks import Block, anchor, blocks_of
from expected import Names
from install import check_complete
from page import commands_of

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("a\nb", "a\nb\n"),
        ("a\n...\nd", "a\nb\nc\nd"),
        ("a\n...", "a"),
        ("a\n...", "a\nb\nc\n"),
        ("...\nd", "d"),
        ('{"id":"x",...}', '{"id":"x","status":"done"}'),
        (f"job job-{ONE}", f"job job-{TWO}"),
        (f"{ONE} {ONE}", f"{TWO} {TWO}"),
        ("done · 0.1 s, 4 tokens", "done · 12.5 s, 14 tokens"),
        ("http://127.0.0.1:7443/", "http://127.0.0.1:40123/"),
        ("at 2026-01-01T12:00:00.000Z", "at 2031-12-31T23:59:59.123Z"),
        ("a   b", "a       b"),
        ("", "anything"),
        ("red", "\x1b[31mred\x1b[0m\r\n"),
    ],
)
def test_it_says_yes(expected, printed):
    Names().check(expected, printed, "here")


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("a\nb", "a"),
        ("a", "a\nb"),
        ("a\n...\nd", "a\nb"),
        ('{"id":"x",...}', '{"id":"y","status":"done"}'),
        ("a b", "a c"),
        (f"{ONE} {ONE}", f"{ONE} {TWO}"),
        ("done · 0.1 s", "failed · 0.1 s"),
        ("a b", "a     b"),
        (f"wait-{ONE}", "wait-x"),
    ],
)
def test_it_says_no(expected, printed):
    with pytest.raises(AssertionError, match="here"):
        Names().check(expected, printed, "here")


def test_a_name_once_learned_stands_for_the_real_one_in_commands_and_output():
    names = Names()
    names.check(f"wait wait-{ONE}", f"wait wait-{TWO}", "here")
    assert names.applied(f"approve wait-{ONE}") == f"approve wait-{TWO}"
    names.check(f"decided {ONE}", f"decided {TWO}", "here")
    with pytest.raises(AssertionError):
        names.check(f"decided {ONE}", "decided 33333333-3333-4333-8333-333333333333", "here")


def test_tokens_are_learned_although_a_page_shows_their_beginning_alone():
    names = Names()
    names.check(
        "  omar      tr_dev_yJIC...\n  ada       tr_dev_z-jv...", "  omar      tr_dev_AAA-1\n  ada       tr_dev_BBB_2", "here"
    )
    assert names.applied('"Bearer tr_dev_z-jv..."') == '"Bearer tr_dev_BBB_2"'


@pytest.mark.parametrize("missing", ["", "build-system", "tool"])
def test_a_project_that_pip_could_not_install_is_refused(tmp_path, missing):
    tables = {
        "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
        "project": {"name": "x", "entry-points": {"transom": {"lamp": "my_lamp:Plugin"}}},
        "tool": {"hatch": {"build": {"targets": {"wheel": {"only-include": ["my_lamp.py"]}}}}},
    }
    tables.pop(missing, None)
    if not missing:
        return check_complete(tables, tmp_path, "here")
    with pytest.raises(AssertionError, match="here"):
        check_complete(tables, tmp_path, "here")
    return None


def block(text: str) -> Block:
    return Block(page=None, line=1, language="console", kind="", path="", exit=0, text=text)


def test_commands_and_their_output_are_told_apart():
    text = "$ one \\\n  more\nout\n\nlast\n$ two 'a\nb'\n"
    assert commands_of(block(text)) == [("one \\\n  more", "out\n\nlast\n"), ("two 'a\nb'", "")]


def test_blocks_are_read_with_what_is_said_of_them(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A\n\n```yaml file=a/b.yaml\nx: 1\n```\n\n```console tty exit=4\n$ true\n```\n\n```\nplain\n```\n")
    found = [(b.language, b.kind, b.path, b.exit, b.line, b.known) for b in blocks_of(page)]
    assert found == [
        ("yaml", "file", "a/b.yaml", 0, 3, True),
        ("console", "tty", "", 4, 7, True),
        ("", "", "", 0, 11, False),
    ]


@pytest.mark.parametrize(
    ("heading", "expected"),
    [("`[openai.models.<name>]`", "openaimodelsname"), ("Decide what waits", "decide-what-waits"), ("A filter", "a-filter")],
)
def test_anchors_are_githubs(heading, expected):
    assert anchor(heading) == expected

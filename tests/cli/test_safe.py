"""What others wrote cannot act on a terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_cli.safe import safe, safe_line

hostile = st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b\x9b\x07\r\x08\u202e\u2066\u200f\U000e0041\ud800")))


@given(hostile)
def test_nothing_is_left_that_moves_hides_or_reorders(text):
    for character in safe(text):
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
        assert unicodedata.bidirectional(character) not in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@given(hostile, hostile)
def test_a_text_may_be_cut_anywhere(one, two):
    assert safe(one) + safe(two) == safe(one + two)


@given(hostile)
def test_it_is_idempotent(text):
    assert safe(safe(text)) == safe(text)


@pytest.mark.parametrize("text", ["plain", "zwei\nZeilen\tmit Tab", "日本語", "שלום", "👩‍👩‍👧", "x² ≠ ½"])
def test_what_people_write_stays(text):
    assert safe(text) == text


def test_what_is_taken_out_is_shown():
    assert safe("a\x1b[31mb\x9bc\u202ed\U000e0041") == "a\\x1b[31mb\\x9bc\\u202ed\\U000e0041"
    assert safe("line\r\n") == "line\n"


@given(hostile, st.integers(1, 20))
def test_a_line_is_one_line_of_at_most_its_limit(text, limit):
    line = safe_line(text, limit)
    assert "\n" not in line
    assert "\t" not in line
    assert len(line) <= limit

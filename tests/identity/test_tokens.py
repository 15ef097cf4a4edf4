"""Tokens: what each form looks like, and that nothing but a whole one of a form is taken for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import TransomError
from transom_identity.tokens import PREFIXES, TOKEN, digest, form_of, make

FORMS = [form for form in PREFIXES.values() if form != "dev"]


@pytest.mark.parametrize("form", FORMS)
def test_a_new_token_has_its_form_and_is_never_the_same(form):
    made = {make(form) for _ in range(50)}
    assert len(made) == 50
    assert {form_of(token) for token in made} == {form}
    assert all(TOKEN.fullmatch(token) for token in made)


@pytest.mark.req("RUNS-1")
def test_a_subjects_token_begins_as_published():
    assert make("sub").startswith("ast_")


@given(st.text())
def test_any_text_has_a_form_none_or_is_refused(text):
    try:
        form = form_of(text)
    except TransomError as error:
        form = error.code
    assert form in ((*PREFIXES.values(), "unauthenticated") if text.startswith(tuple(PREFIXES)) else (None,))


@given(st.sampled_from(sorted(PREFIXES)), st.text(st.characters(codec="utf-8"), max_size=60))
def test_only_43_letters_of_the_alphabet_follow_a_prefix(prefix, rest):
    good = len(rest) == 43 and rest.isascii() and all(c.isalnum() or c in "-_" for c in rest)
    if good:
        assert form_of(prefix + rest) == PREFIXES[prefix]
    else:
        with pytest.raises(TransomError):
            form_of(prefix + rest)


def test_what_is_kept_is_a_sha256_and_nothing_of_the_token():
    token = make("key")
    assert len(digest(token)) == 64
    assert token[7:] not in digest(token)

"""A filter as small as one can be does what every filter must; and the contract finds those that do not."""

from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from transom_hookspecs import FilterScope, TextFilter
from transom_testing.contracts import FilterContract

SECRET = "abab-1234"


class Masking:
    """One text; its end is held back while it may be the beginning of the secret."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        *before, rest = (self._held + text).split(SECRET)
        keep = next((n for n in range(min(len(SECRET) - 1, len(rest)), 0, -1) if SECRET.startswith(rest[-n:])), 0)
        self._held = rest[len(rest) - keep :]
        return "".join(f"{part}***" for part in before) + rest[: len(rest) - keep]

    def end(self) -> str:
        return self._held


class Sample:
    name = "sample"

    def __init__(self, make: Callable[[], TextFilter]) -> None:
        self._make = make

    def open(self, scope: FilterScope) -> TextFilter:
        return self._make()


class TestMasking(FilterContract):
    secrets = st.just(SECRET)

    @pytest.fixture
    def filter(self) -> Sample:
        return Sample(Masking)


class Forgetful(Masking):
    """Looks at each piece by itself."""

    def feed(self, text: str) -> str:
        return text.replace(SECRET, "***")


class Blind(Masking):
    """Masks nothing."""

    def feed(self, text: str) -> str:
        return text


class Tidy(Masking):
    """Changes what is harmless."""

    def feed(self, text: str) -> str:
        return super().feed(text.replace("\n", " "))


class Hoarding(Masking):
    """Lets nothing go before the end."""

    def feed(self, text: str) -> str:
        self._held += text
        return ""

    def end(self) -> str:
        return self._held.replace(SECRET, "***")


def shared() -> Callable[[], TextFilter]:
    """One state for all texts."""
    one = Masking()
    return lambda: one


@pytest.mark.parametrize(
    ("make", "broken"),
    [
        (Forgetful, "test_a_text_cut_anywhere_gives_the_same_as_the_whole"),
        (Blind, "test_what_must_be_masked_never_comes_out"),
        (Tidy, "test_what_is_harmless_goes_through_unchanged"),
        (Hoarding, "test_a_long_text_streams"),
        (shared(), "test_two_texts_at_once_know_nothing_of_each_other"),
    ],
    ids=["forgetful", "blind", "tidy", "hoarding", "shared"],
)
def test_the_contract_finds_one_that_is(make, broken):
    with pytest.raises(AssertionError):
        getattr(TestMasking(), broken)(Sample(make))

"""What every filter must do: subclass `FilterContract` in a test module, and give it a fixture `filter` and `secrets`.

class TestMyFilter(FilterContract):
    secrets = st.from_regex(r"sk-[a-z0-9]{20}", fullmatch=True)

    @pytest.fixture
    def filter(self) -> MyFilter:
        return MyFilter()
"""

# ruff: noqa: D102 - a test's name says what it is about

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from transom_hookspecs import Filter, FilterScope

_SETTINGS = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],  # several may subclass it
)
_PROSE = st.text(max_size=30) | st.sampled_from(["The quick brown fox. ", "Grüße, 世界!\n", "👍🏽 ", '{"a": [1, 2]}', " "])


class FilterContract:
    """A filter gives the same however a text is cut, lets through none of what it must mask, and all else unchanged.

    Parameters:
        secrets: texts that must be masked wherever they stand.
        harmless: texts that go through unchanged, also one after the other.
        scope: where the texts come from.
        held: how many characters of a harmless text it may hold back.
    """

    secrets: ClassVar[SearchStrategy[str]]
    harmless: ClassVar[SearchStrategy[str]] = _PROSE
    scope: ClassVar[FilterScope] = FilterScope(tenant="default", job="j", agent="a", source="model")
    held: ClassVar[int] = 256

    @pytest.fixture
    def filter(self) -> Filter:
        """The filter: subclasses give their own."""
        raise NotImplementedError

    def _fed(self, filter: Filter, pieces: Sequence[str]) -> list[str]:
        opened = filter.open(self.scope)
        assert opened is not None, f"{filter.name} has nothing to say of {self.scope.source}"
        return [*(opened.feed(piece) for piece in pieces), opened.end()]

    @_SETTINGS
    @given(data=st.data())
    def test_a_text_cut_anywhere_gives_the_same_as_the_whole(self, filter: Filter, data: st.DataObject) -> None:
        text = "".join(data.draw(st.lists(self.secrets | self.harmless, max_size=6)))
        places = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
        pieces = [text[start:end] for start, end in pairwise([0, *places, len(text)])]
        whole = "".join(self._fed(filter, [text]))
        assert ["".join(self._fed(filter, cut)) for cut in (pieces, list(text))] == [whole, whole]

    @_SETTINGS
    @given(data=st.data())
    def test_what_must_be_masked_never_comes_out(self, filter: Filter, data: st.DataObject) -> None:
        secret = data.draw(self.secrets)
        around = data.draw(st.lists(st.just(secret) | self.harmless, max_size=6))
        assert secret not in "".join(self._fed(filter, [*around, secret, *around]))

    @_SETTINGS
    @given(data=st.data())
    def test_what_is_harmless_goes_through_unchanged(self, filter: Filter, data: st.DataObject) -> None:
        pieces = data.draw(st.lists(self.harmless, max_size=6))
        assert "".join(self._fed(filter, pieces)) == "".join(pieces)

    @_SETTINGS
    @given(data=st.data())
    def test_a_long_text_streams(self, filter: Filter, data: st.DataObject) -> None:
        piece = data.draw(self.harmless.filter(lambda text: len(text) > 3))
        count = 4 * self.held // len(piece) + 1
        before_the_end = self._fed(filter, [piece] * count)[:-1]
        assert sum(map(len, before_the_end)) >= count * len(piece) - self.held

    @_SETTINGS
    @given(data=st.data())
    def test_two_texts_at_once_know_nothing_of_each_other(self, filter: Filter, data: st.DataObject) -> None:
        secret = data.draw(self.secrets)
        half = len(secret) // 2
        one, other = filter.open(self.scope), filter.open(self.scope)
        assert one is not None
        assert other is not None
        first = one.feed(secret[:half])
        second = other.feed("fox ") + other.end()
        assert second == "".join(self._fed(filter, ["fox "]))
        assert first + one.feed(secret[half:]) + one.end() == "".join(self._fed(filter, [secret]))

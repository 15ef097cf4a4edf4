"""The shared tail of a tree's followers holds a bounded number of events and bytes, and always the newest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom.log import TAIL, TAIL_BYTES, Tail
from transom_hookspecs import CallEnded, Entry, Text


def entries(start: int, sizes: list[int]) -> list[Entry]:
    return [Entry(start + i, 0, Text(job="j", message="m", delta="x" * size)) for i, size in enumerate(sizes)]


@given(st.lists(st.lists(st.integers(0, 700_000), min_size=1, max_size=5), min_size=1, max_size=12))
def test_it_keeps_what_fits_and_gives_it_without_a_gap(batches) -> None:
    tail, seq, sizes = Tail(), 0, []
    for batch in batches:
        tail.extend(entries(seq + 1, batch))
        seq, sizes = seq + len(batch), sizes + batch
        kept = [entry.seq for entry in tail.entries]
        assert kept == list(range(kept[0], seq + 1))
        assert len(kept) == 1 or sum(sizes[kept[0] - 1 :]) <= TAIL_BYTES
        assert kept[0] == 1 or sum(sizes[kept[0] - 2 :]) > TAIL_BYTES, "it dropped what would have fitted"
        assert tail.after(kept[0] - 1) is not None
        assert kept[0] == 1 or tail.after(kept[0] - 2) is None


def test_it_keeps_so_many_events_at_most() -> None:
    tail = Tail()
    tail.extend(entries(1, [1] * (TAIL + 50)))
    assert (len(tail.entries), tail.entries[-1].seq) == (TAIL, TAIL + 50)


@pytest.mark.parametrize("content", ["x" * 3_000_000, {"text": "x" * 3_000_000}, ["x" * 3_000_000]])
def test_large_results_count_whatever_their_form(content) -> None:
    tail = Tail()
    for seq in range(1, 4):
        tail.extend([Entry(seq, 0, CallEnded(job="j", call="c", content=content))])
    assert [entry.seq for entry in tail.entries] == [3]

"""What the store contract stores: records with fields and orders of every kind, and helpers to write them."""

from collections.abc import AsyncIterator, Sequence
from itertools import count, pairwise
from typing import Literal

import msgspec
import pytest
from hypothesis import strategies as st

from transom_hookspecs import (
    KERNEL_RECORDS,
    AuditRow,
    Event,
    Index,
    Json,
    Record,
    Store,
    Text,
    Tx,
    audit_hash,
    details_digest,
    details_text,
)


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    """A nested value."""

    name: str
    parts: tuple[int, ...] = ()


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """A record with a field of each kind."""

    id: str
    group: str = ""
    rank: int = 0
    weight: float = 0.0
    live: bool = True
    maybe: str | None = None
    state: Literal["new", "old"] = "new"
    tags: tuple[str, ...] = ()
    value: Json = None
    inner: Inner | None = None


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A record with a key of two fields, one of them called as a store might call a column of its own."""

    tenant: str
    order: int
    select: str = ""


RECORDS: tuple[Record, ...] = (
    *KERNEL_RECORDS,
    Record(
        type=Thing,
        key=("id",),
        indexes=(
            Index("rank", ("group", "rank", "id")),
            Index("heavy", ("group", "-weight", "id")),
            Index("maybe", ("-maybe", "id")),
            Index("likely", ("maybe", "-rank", "-id")),
            Index("live", ("live", "state", "-rank", "-id")),
        ),
    ),
    Record(type=Pair, key=("tenant", "order"), indexes=(Index("order", ("order", "tenant")),)),
)
"""The kernel's records, and some with fields and orders of every kind."""

_TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
_INT = st.integers(-(1 << 63), (1 << 63) - 1)
_FLOAT = st.floats(allow_nan=False, allow_infinity=False)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | _FLOAT | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
THINGS = st.builds(
    Thing,
    id=_TEXT,
    group=st.sampled_from(("", "a", "b")),
    rank=st.integers(-2, 2) | _INT,
    weight=st.sampled_from((0.0, 0.5, 2.0)) | _FLOAT,
    live=st.booleans(),
    maybe=st.none() | _TEXT,
    state=st.sampled_from(("new", "old")),
    tags=st.lists(_TEXT, max_size=2).map(tuple),
    value=_JSON,
    inner=st.none() | st.builds(Inner, name=_TEXT, parts=st.lists(_INT, max_size=2).map(tuple)),
)
ORDERS = st.sampled_from([(index, given) for index in RECORDS[-2].indexes for given in range(len(index.fields) + 1)])
_tenants = count(1)


def fresh_tenant() -> str:
    """A tenant that no example used before."""
    return f"tenant-{next(_tenants)}"


def text(delta: str = "x") -> Text:
    """A log event."""
    return Text(job="t", message="t:1", delta=delta)


async def put(store: Store, tenant: str, *things: msgspec.Struct) -> None:
    """Put records in one transaction."""

    def write(tx: Tx) -> None:
        for thing in things:
            tx.put(thing)

    await store.transact(tenant, write)


async def append(store: Store, tenant: str, tree: str, *events: Event) -> int:
    """Append events in a transaction of their own."""
    return await store.transact(tenant, lambda tx: tx.append(tree, events))


def verify_chain(rows: Sequence[AuditRow]) -> None:
    """Check that rows of a tenant's trail, one after the other, are whole and unchanged."""
    assert [row.previous for row in rows[1:]] == [row.hash for row in rows[:-1]]
    assert all(before.number + 1 == after.number for before, after in pairwise(rows))
    for row in rows:
        assert row.hash == audit_hash(row.previous, row.number, row.tenant, row.entry, row.digest, row.rule)
        assert row.purged or row.digest == details_digest(row.salt, row.details)
        assert row.details == details_text(row.entry)


def rank(value: object) -> tuple[object, ...]:
    """A value's place in an order: None before everything else."""
    return (0,) if value is None else (1, value)


class OpenedStore:
    """The fixtures that the parts of the contract share; a subclass gives `store`."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        """The event loop that stores run on."""
        return "asyncio"

    @pytest.fixture
    def store(self) -> Store:
        """A fresh store, not yet opened: subclasses give their own."""
        raise NotImplementedError

    @pytest.fixture
    async def opened(self, store: Store) -> AsyncIterator[Store]:
        """The store, opened for `RECORDS`."""
        async with store.open(RECORDS):
            yield store

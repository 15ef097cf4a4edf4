"""Walking along a chain: whatever was done to its rows by hand is found, and what retention does to them is none of that."""

import sqlite3

import pytest
from audit_kit import DAY, entry, fresh, write
from hypothesis import given, settings
from hypothesis import strategies as st

from transom_audit.walk import Fault, Head, Walk
from transom_hookspecs import AuditChain, AuditEntry, audit_hash
from transom_sqlite import trail

NONE = AuditChain(number=0, hash="", at=0)
COLUMNS = {
    "audit": (
        *("tenant", "number", "at", "action", "caller", "door", "object", "outcome", "via"),
        "digest",
        "rule",
        "previous",
        "hash",
    ),
    "audit_details": ("salt", "details"),
    "audit_chain": ("tenant", "number", "hash", "at", "cut", "cut_hash"),
}
VALUES = st.one_of(
    st.integers(0, 12),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.sampled_from(["a", "b", "person:omar", '{"n": 1}', '{"n":1}', "{}", "0" * 64]),
)


def chain_of(connection: sqlite3.Connection, tenant: str = "a") -> AuditChain:
    return trail.chains(connection.execute(trail.CHAINS).fetchall()).get(tenant, NONE)


def walked(connection: sqlite3.Connection, witness: Head | None = None) -> Fault | None:
    """The first fault of a chain that is read to its end."""
    chain = chain_of(connection)
    walk = Walk(chain, witness)
    rows = connection.execute(trail.ROWS, ("a", walk.number, 1_000)).fetchall()
    return walk.check([trail.audit_row("a", row) for row in rows]) or walk.end(chain)


TRAILS = st.tuples(st.lists(st.booleans(), min_size=1, max_size=6), st.integers(0, 7), st.integers(0, 7))


@given(made=TRAILS)
@settings(deadline=None)
def test_what_was_written_purged_and_cut_is_whole(made):
    with fresh() as connection:
        write(connection, *made)
        assert walked(connection) is None


def snapshot(connection: sqlite3.Connection) -> dict[str, list[list[object]]]:
    """All rows; bytes are the text that they are read as."""
    return {
        table: [
            [value.decode(errors="replace") if isinstance(value, bytes) else value for value in row]
            for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
        ]
        for table in COLUMNS
    }


def mutate(connection: sqlite3.Connection, data: st.DataObject) -> None:
    """Change one cell, remove one row, or let two rows change places."""
    kind = data.draw(st.sampled_from(["cell", "row", "places"]))
    table = data.draw(
        st.sampled_from(list(COLUMNS) if kind == "cell" else ["audit", "audit_chain"] if kind == "row" else ["audit"])
    )
    numbers = [row[0] for row in connection.execute(f"SELECT number FROM {table} WHERE tenant = 'a' ORDER BY number")]
    if not numbers or (kind == "places" and len(numbers) < 2):
        return
    first = data.draw(st.sampled_from(numbers))
    if kind == "row":
        connection.execute(f"DELETE FROM {table} WHERE tenant = 'a' AND number = ?", (first,))
    elif kind == "places":
        second = data.draw(st.sampled_from([number for number in numbers if number != first]))
        for old, new in ((first, -1), (second, first), (-1, second)):
            connection.execute("UPDATE audit SET number = ? WHERE tenant = 'a' AND number = ?", (new, old))
    else:
        column, value = data.draw(st.sampled_from(COLUMNS[table])), data.draw(VALUES)
        connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE tenant = 'a' AND number = ?", (value, first))


@pytest.mark.req("IDN-6")
@given(made=TRAILS, data=st.data())
@settings(max_examples=200, deadline=None)
def test_any_one_change_of_what_is_stored_is_found(made, data):
    with fresh() as connection:
        write(connection, *made)
        before, chain = snapshot(connection), chain_of(connection)
        head = Head(number=chain.number, hash=chain.hash, at=chain.at)
        mutate(connection, data)
        if snapshot(connection) != before:
            assert walked(connection, head) is not None


@given(made=TRAILS, data=st.data())
@settings(deadline=None)
def test_details_at_another_entry_are_found_and_details_of_none_are_a_purge(made, data):
    with fresh() as connection:
        write(connection, *made)
        numbers = [row[0] for row in connection.execute("SELECT number FROM audit_details WHERE tenant = 'a'")]
        taken = {row[0] for row in connection.execute("SELECT number FROM audit WHERE tenant = 'a'")}
        if not numbers:
            return
        old, new = data.draw(st.sampled_from(numbers)), data.draw(st.integers(1, 12).filter(lambda n: n not in numbers))
        connection.execute("UPDATE audit_details SET number = ? WHERE tenant = 'a' AND number = ?", (new, old))
        fault = walked(connection)
        assert (fault.kind if fault else None) == ("details" if new in taken else None)


@given(keep=st.integers(0, 5), trimmed=st.sampled_from(["rows", "details too", "head too"]), details=st.booleans())
def test_a_tail_that_was_cut_off_is_found_however_much_was_trimmed_with_it(keep, trimmed, details):
    with fresh() as connection:
        write(connection, [details] * 6)
        chain = chain_of(connection)
        witness = Head(number=chain.number, hash=chain.hash, at=chain.at)
        connection.execute("DELETE FROM audit WHERE tenant = 'a' AND number > ?", (keep,))
        if trimmed != "rows":
            connection.execute("DELETE FROM audit_details WHERE tenant = 'a' AND number > ?", (keep,))
        if trimmed == "head too":
            last = connection.execute("SELECT number, hash, at FROM audit WHERE tenant = 'a' ORDER BY number DESC").fetchone()
            connection.execute("UPDATE audit_chain SET number = ?, hash = ?, at = ? WHERE tenant = 'a'", last or (0, "", 0))
            assert walked(connection) is None, "the store alone can no longer tell"
        found = walked(connection, witness)
        assert found is not None
        assert found.kind == ("head_file" if trimmed == "head too" else "cut_tail")
        trail.chain(connection, [("a", entry(9))])
        assert walked(connection, witness) is not None, "it is told even after the trail went on"


def test_an_old_head_of_the_same_chain_speaks_for_it():
    with fresh() as connection:
        write(connection, [True] * 3)
        old = chain_of(connection)
        write(connection, [True] * 3)
        assert walked(connection, Head(number=old.number, hash=old.hash, at=old.at)) is None


def test_a_beginning_that_was_cut_by_hand_is_found():
    """Also when the place where the chain begins was set to fit: no entry vouches for that."""
    with fresh() as connection:
        write(connection, [True] * 4)
        number, hash = connection.execute("SELECT number, hash FROM audit WHERE tenant = 'a' AND number = 2").fetchone()
        connection.execute("DELETE FROM audit WHERE tenant = 'a' AND number <= 2")
        connection.execute("UPDATE audit_chain SET cut = ?, cut_hash = ? WHERE tenant = 'a'", (number, hash))
        fault = walked(connection)
        assert fault is not None
        assert fault.kind == "cut"


def test_what_is_cut_while_it_is_walked_along_is_jumped_over():
    with fresh() as connection:
        write(connection, [True] * 6)
        walk = Walk(chain_of(connection), None)
        rows = [trail.audit_row("a", row) for row in connection.execute(trail.ROWS, ("a", 0, 2)).fetchall()]
        assert walk.check(rows) is None
        done = trail.cut(connection, "a", 5 * DAY, 100)
        assert done is not None
        trail.chain(connection, [("a", done.entry("system:retention", "runtime"))])
        rows = [trail.audit_row("a", row) for row in connection.execute(trail.ROWS, ("a", walk.number, 100)).fetchall()]
        assert walk.check(rows) is not None
        assert walk.jump(chain_of(connection))
        rows = [trail.audit_row("a", row) for row in connection.execute(trail.ROWS, ("a", walk.number, 100)).fetchall()]
        assert walk.check(rows) is None
        assert walk.end(chain_of(connection)) is None
        assert not walk.jump(chain_of(connection))


def test_entries_of_the_first_rule_verify_under_it_and_their_details_with_them():
    """Versions before the digest hashed an entry with its details; such rows go before new ones in the same chain."""
    with fresh() as connection:
        previous = ""
        for number in (3, 7):
            old = AuditEntry(action="old", caller="c", door="d", at=number, details={"n": number} if number == 3 else {})
            hash = audit_hash(previous, number, "a", old, "", 1)
            text = '{"n":3}' if number == 3 else "{}"
            row = ("a", number, number, "old", "c", "d", "", "ok", "", text, 1, previous, hash)
            connection.execute(f"INSERT INTO audit VALUES ({', '.join('?' * 13)})", row)
            previous = hash
        connection.execute("INSERT INTO audit_chain VALUES ('a', 7, ?, 7, 0, '')", (previous,))
        trail.chain(connection, [("a", entry(8, n=8))])
        assert walked(connection) is None
        assert trail.audit_row("a", connection.execute(trail.ROWS, ("a", 0, 1)).fetchone()).entry.details == {"n": 3}
        for change in ("digest = '{\"n\":4}'", "digest = '{\"n\": 3}'", "rule = 2", "rule = 0"):
            connection.execute("SAVEPOINT change")
            connection.execute(f"UPDATE audit SET {change} WHERE number = 3")
            assert walked(connection) is not None, change
            connection.execute("ROLLBACK TO change")

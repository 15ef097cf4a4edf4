"""The rule of the hash, worked out again from the documentation with the standard library alone."""

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import AuditEntry, audit_hash, details_digest, details_text

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ENTRIES = st.builds(
    AuditEntry,
    action=TEXT,
    caller=TEXT,
    door=TEXT,
    object=TEXT,
    outcome=TEXT,
    via=TEXT,
    at=st.integers(0, 1 << 53),
    details=st.dictionaries(TEXT, JSON, max_size=3),
)


@given(entry=ENTRIES, number=st.integers(1, 1 << 53), tenant=TEXT, previous=st.sampled_from(["", "ab" * 32]), salt=st.binary())
def test_anybody_can_work_out_a_hash(entry, number, tenant, previous, salt):
    details = details_text(entry)
    digest = hashlib.sha256(salt + details.encode()).hexdigest() if details else ""
    assert details_digest(salt.hex(), details) == digest
    e = entry
    facts = [2, previous, number, tenant, e.at, e.action, e.caller, e.door, e.object, e.outcome, e.via, digest]
    text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    assert audit_hash(previous, number, tenant, entry, digest) == hashlib.sha256(text.encode()).hexdigest()


@given(entry=ENTRIES)
def test_equal_details_have_one_text(entry):
    """Whatever order they were put in."""
    turned = AuditEntry(action="", caller="", door="", details=dict(reversed(entry.details.items())))
    assert details_text(entry) == details_text(turned)
    assert json.loads(details_text(entry) or "{}") == entry.details


def test_an_unknown_rule_makes_no_hash_right():
    assert audit_hash("", 1, "a", AuditEntry(action="", caller="", door=""), "", 3) == ""

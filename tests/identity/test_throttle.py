"""How often a password may be tried."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import TransomError
from transom_identity import throttle
from transom_identity.throttle import ADDRESS, PAIR, PERSON, WINDOW, Throttle


class At:
    now = 1_000_000


@pytest.fixture
def at():
    return At()


def allowed(t: Throttle, person: str = "anna", address: str = "1.2.3.4") -> bool:
    try:
        t.check("default", person, address)
    except TransomError as error:
        return (error.code, error.details["retry_after"] > 0) != ("resource_exhausted", True)
    return True


def tried(t: Throttle, times: int, person: str = "anna", address: str = "1.2.3.4") -> None:
    for _ in range(times):
        t.failed("default", person, address)


def test_after_some_failures_the_pair_waits_until_the_window_is_over(at):
    t = Throttle(lambda: at.now)
    tried(t, PAIR - 1)
    assert allowed(t)
    tried(t, 1)
    assert not allowed(t)
    assert allowed(t, address="5.6.7.8")
    assert allowed(t, person="omar")
    at.now += WINDOW
    assert allowed(t)


def test_one_person_tried_from_everywhere_waits(at):
    t = Throttle(lambda: at.now)
    for n in range(PERSON):
        tried(t, 1, address=f"10.0.0.{n}")
    assert not allowed(t, address="10.9.9.9")
    assert allowed(t, person="omar", address="10.9.9.9")


def test_one_address_that_tries_everybody_waits(at):
    t = Throttle(lambda: at.now)
    for n in range(ADDRESS):
        tried(t, 1, person=f"p{n}")
    assert not allowed(t, person="somebody")


def test_a_right_password_forgets_the_pairs_failures(at):
    t = Throttle(lambda: at.now)
    tried(t, PAIR)
    t.passed("default", "anna", "1.2.3.4")
    assert allowed(t)


def test_right_ones_do_not_add_up(at):
    t = Throttle(lambda: at.now)
    for _ in range(3 * ADDRESS):
        tried(t, 1)
        t.passed("default", "anna", "1.2.3.4")
    assert allowed(t)
    assert len(t) == 0


def test_the_counters_are_bounded(at, monkeypatch):
    monkeypatch.setattr(throttle, "MOST", 100)
    t = Throttle(lambda: at.now)
    for n in range(1000):
        tried(t, 1, person=f"p{n}", address=f"a{n}")
    assert len(t) <= 100


@given(st.lists(st.tuples(st.sampled_from(["anna", "omar"]), st.sampled_from(["a", "b"]), st.booleans()), max_size=60))
def test_never_more_failures_of_a_pair_in_a_row_than_it_may(attempts):
    t = Throttle(lambda: 1)
    failures: dict[tuple[str, str], int] = {}
    for person, address, right in attempts:
        if not allowed(t, person, address):
            assert failures[person, address] >= PAIR
            continue
        t.failed("default", person, address)
        failures[person, address] = failures.get((person, address), 0) + 1
        if right:
            t.passed("default", person, address)
            failures[person, address] = 0
        assert failures[person, address] <= PAIR

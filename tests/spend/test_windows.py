"""Windows in time zones: they follow one another without gap or overlap, on days of 23 and 25 hours too."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import NEVER
from transom_spend.windows import window_of, zone_of

pytestmark = pytest.mark.req("IDN-4")

ZONES = [
    "UTC",
    "Europe/Paris",
    "America/New_York",
    "Asia/Kolkata",  # half an hour off
    "Africa/Cairo",  # changes at midnight
    "America/Havana",  # midnight comes twice
    "Australia/Lord_Howe",  # changes by half an hour
    "Pacific/Apia",
]
WINDOWS = ["minute", "hour", "day", "week", "month"]
times = st.integers(datetime(2020, 1, 1, tzinfo=UTC).timestamp(), datetime(2035, 1, 1, tzinfo=UTC).timestamp())


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


@given(times.map(lambda s: s * 1000 + 999), st.sampled_from(ZONES), st.sampled_from(WINDOWS))
def test_a_time_is_in_its_window_and_the_next_begins_where_it_ends(now, zone, window):
    start, end = window_of(window, now, ZoneInfo(zone))
    assert start <= now < end
    if window != "hour" or zone != "Australia/Lord_Howe":  # there an hour of the clocks can have half of one
        assert window_of(window, start, ZoneInfo(zone)) == (start, end)
        assert window_of(window, end - 1, ZoneInfo(zone)) == (start, end)
        following, _ = window_of(window, end, ZoneInfo(zone))
        assert following == end


@given(times.map(lambda s: s * 1000), st.integers(0, 10_000_000), st.sampled_from(ZONES), st.sampled_from(WINDOWS))
def test_time_never_goes_back_to_a_window_before(now, later, zone, window):
    zone = ZoneInfo(zone)
    if window == "hour" and zone.key == "Australia/Lord_Howe":
        return
    assert window_of(window, now, zone)[0] <= window_of(window, now + later, zone)[0]


@pytest.mark.parametrize(
    ("window", "now", "zone", "start", "end"),
    [
        ("day", "2027-03-28T12:00+02:00", "Europe/Paris", "2027-03-28T00:00+01:00", "2027-03-29T00:00+02:00"),
        ("day", "2027-10-31T02:30+01:00", "Europe/Paris", "2027-10-31T00:00+02:00", "2027-11-01T00:00+01:00"),
        ("hour", "2027-10-31T02:30+02:00", "Europe/Paris", "2027-10-31T02:00+02:00", "2027-10-31T02:00+01:00"),
        ("hour", "2027-10-31T02:30+01:00", "Europe/Paris", "2027-10-31T02:00+01:00", "2027-10-31T03:00+01:00"),
        ("hour", "2027-01-01T10:15+05:30", "Asia/Kolkata", "2027-01-01T10:00+05:30", "2027-01-01T11:00+05:30"),
        ("day", "2027-04-30T12:00+03:00", "Africa/Cairo", "2027-04-30T01:00+03:00", "2027-05-01T00:00+03:00"),
        ("day", "2027-11-07T12:00-05:00", "America/Havana", "2027-11-07T00:00-04:00", "2027-11-08T00:00-05:00"),
        ("week", "2027-01-03T23:59+00:00", "UTC", "2026-12-28T00:00+00:00", "2027-01-04T00:00+00:00"),
        ("month", "2028-02-29T23:00-05:00", "America/New_York", "2028-02-01T00:00-05:00", "2028-03-01T00:00-05:00"),
        ("month", "2027-12-31T23:00-05:00", "America/New_York", "2027-12-01T00:00-05:00", "2028-01-01T00:00-05:00"),
    ],
)
def test_windows_are_those_of_the_zones_clocks(window, now, zone, start, end):
    assert window_of(window, at(now), ZoneInfo(zone)) == (at(start), at(end))


def test_a_total_has_no_end():
    assert window_of("total", 1_800_000_000_000, ZoneInfo("UTC")) == (0, NEVER)


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "europe paris", "\0"])
def test_an_unknown_zone_is_utc_and_the_log_says_so(caplog, name):
    assert zone_of(name).key == "UTC"
    assert repr(name) in caplog.text

"""Windows of quotas: where in the tenant's time zone one begins and ends. Times are milliseconds (Unix).

Days begin at the zone's midnight, so that one may have 23 or 25 hours; where midnight is left out, at the first moment
after it. Hours and minutes are those of the zone's clocks.
"""

import logging
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from transom_hookspecs import NEVER

from .records import Window

log = logging.getLogger("transom.spend")

_SECONDS = {"minute": 60, "hour": 3_600}


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its IANA name; UTC, with a warning in the log, for one that is not known here. Reads files."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        log.warning("time_zone: there is no time zone %r here; quotas are counted in UTC", name)
        return ZoneInfo("UTC")


def window_of(window: Window, now: int, zone: ZoneInfo) -> tuple[int, int]:
    """The start and the end of the window that a time is in; 0 and NEVER for `total`."""
    if window == "total":
        return 0, NEVER
    there = datetime.fromtimestamp(now // 1000, zone)
    if seconds := _SECONDS.get(window):
        offset = there.utcoffset()
        assert offset is not None
        shift = int(offset.total_seconds())
        start = (now // 1000 + shift) // seconds * seconds - shift
        return start * 1000, (start + seconds) * 1000
    first, following = _days(window, there.date())
    return _midnight(first, zone), _midnight(following, zone)


def _days(window: Window, day: date) -> tuple[date, date]:
    """The first day of a window, and of the next one."""
    if window == "day":
        return day, day + timedelta(days=1)
    if window == "week":
        monday = day - timedelta(days=day.weekday())
        return monday, monday + timedelta(days=7)
    first = day.replace(day=1)
    return first, (first + timedelta(days=31)).replace(day=1)


def _midnight(day: date, zone: ZoneInfo) -> int:
    """When a day begins. Of a midnight that comes twice it is the first."""
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp()) * 1000

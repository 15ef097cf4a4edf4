"""How often somebody may try a password: counted by person and address, in bounded memory."""

from collections import OrderedDict
from collections.abc import Callable, Iterable

from transom_hookspecs import TransomError

WINDOW = 15 * 60_000
"""Milliseconds that failures are counted for, from the first of them."""

MOST = 20_000
"""Counters that are kept at most; the oldest go first."""

PAIR, PERSON, ADDRESS = 5, 100, 100
"""Failures within a window: of one person from one address, of one person from anywhere, from one address of anybody."""


class Throttle:
    """Counts failures. What is counted is the same whether there is such a person or not.

    Parameters:
        now: the time in milliseconds.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._counts: OrderedDict[tuple[str, ...], tuple[int, int]] = OrderedDict()

    def check(self, tenant: str, person: str, address: str) -> None:
        """May one more be tried?

        Raises:
            TransomError: resource_exhausted, with `retry_after` in seconds.
        """
        now = self._now()
        for key, most in _counters(tenant, person, address):
            failed, until = self._counts.get(key, (0, 0))
            if failed >= most and until > now:
                seconds = (until - now + 999) // 1000
                raise TransomError(
                    "resource_exhausted", f"too many failed sign-ins; try again in {seconds} s", {"retry_after": seconds}
                )

    def failed(self, tenant: str, person: str, address: str) -> None:
        """One was wrong, or is being tried: `passed` takes it back."""
        now = self._now()
        for key, _ in _counters(tenant, person, address):
            failed, until = self._counts.pop(key, (0, 0))
            self._counts[key] = (failed + 1, until) if until > now else (1, now + WINDOW)
        while len(self._counts) > MOST:
            self._counts.popitem(last=False)

    def passed(self, tenant: str, person: str, address: str) -> None:
        """It was right: the pair's failures are forgotten, and this try no longer counts as one."""
        for key, _ in _counters(tenant, person, address):
            failed, until = self._counts.get(key, (0, 0))
            if key[0] == "pair" or failed <= 1:
                self._counts.pop(key, None)
            else:
                self._counts[key] = (failed - 1, until)

    def __len__(self) -> int:
        return len(self._counts)


def _counters(tenant: str, person: str, address: str) -> Iterable[tuple[tuple[str, ...], int]]:
    return (
        (("pair", tenant, person, address), PAIR),
        (("person", tenant, person), PERSON),
        (("address", address), ADDRESS),
    )

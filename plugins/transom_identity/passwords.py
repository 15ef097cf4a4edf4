"""Passwords: Argon2id hashes, checked a few at a time on threads, so that a flood takes neither the memory nor the loop."""

import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from transom_hookspecs import TransomError

from .checks import wrong
from .home import Home
from .records import Password, Person
from .throttle import Throttle

if TYPE_CHECKING:
    from argon2 import PasswordHasher

T = TypeVar("T")

AT_ONCE = 1
"""Hashes that are computed at once, each in 19 MiB: a flood of sign-ins takes one core, not all."""

QUEUE = 32
"""Those that may wait for it; more are told to come back."""

SHORTEST, LONGEST = 12, 256


class Passwords:
    """Hashes and checks passwords."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._throttle = Throttle(home.now)
        self._slots = anyio.CapacityLimiter(AT_ONCE)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """The hash to keep of a new password.

        Raises:
            TransomError: invalid_argument when it is too short or too long.
        """
        if not SHORTEST <= len(password) <= LONGEST:
            raise wrong("password", f"it has {len(password)} characters", f"choose {SHORTEST} to {LONGEST}")
        return await self._slowly(_hash, password)

    async def check(self, tenant: str, person: str, password: str, address: str) -> Password | None:
        """The kept hash that this password fits; None when it is wrong, or nobody is let in by that name.

        It takes the same time and says the same whether the person is there, is disabled, or has no password.

        Parameters:
            address: from where it is tried.

        Raises:
            TransomError: resource_exhausted after too many failures, unavailable when too many are tried at once.
        """
        self._throttle.check(tenant, person, address)
        self._throttle.failed(tenant, person, address)  # at once, so that tries at the same time are counted too
        who = self._home.shown(await self._home.kernel.store.get(tenant, Person, person))
        kept = await self._home.kernel.store.get(tenant, Password, person)
        good = await self._slowly(_verify, kept.hash if kept else NOBODYS, password[: LONGEST + 1])
        if kept is None or who is None or who.disabled or not good:
            return None
        self._throttle.passed(tenant, person, address)
        return kept

    async def is_current(self, tenant: str, person: str, password: str) -> bool:
        """Whether this is the person's password, or she has none."""
        if await self._home.kernel.store.get(tenant, Password, person) is None:
            return True
        return await self.check(tenant, person, password, "a session of her own") is not None

    async def _slowly(self, fn: Callable[..., T], *args: str) -> T:
        if self._waiting >= QUEUE:
            raise TransomError("unavailable", "too many passwords are being checked; try again in a moment")
        self._waiting += 1
        try:
            return await anyio.to_thread.run_sync(fn, *args, limiter=self._slots)
        finally:
            self._waiting -= 1


NOBODYS = "$argon2id$v=19$m=19456,t=2,p=1$cCNwvnVyhSJPqro2Lq1Oyw$p+0dH9r4tqXfqKSqR1F77oAhGuOKylLNO1+80JLzFe8"
"""A hash of random bytes that nobody knows, checked where there is no other: it takes as long."""


def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


def _hash(password: str) -> str:
    return _hasher().hash(_normal(password))


def _verify(kept: str, password: str) -> bool:
    from argon2.exceptions import VerificationError

    try:
        return _hasher().verify(kept, _normal(password))
    except VerificationError:
        return False


def _normal(password: str) -> str:
    """The same letters typed on another keyboard are the same password."""
    return unicodedata.normalize("NFKC", password)

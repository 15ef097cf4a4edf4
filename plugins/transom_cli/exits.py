"""Exit codes: one table for outcomes of jobs, one for errors."""

from typing import Final

from transom_hookspecs import TransomError

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
ENDED_EARLY: Final = 3
WAITING: Final = 4
REFUSED: Final = 5
UNAVAILABLE: Final = 6
INTERRUPTED: Final = 130

BY_OUTCOME: Final = {
    "completed": OK,
    "failed": FAILED,
    "cancelled": ENDED_EARLY,
    "timed_out": ENDED_EARLY,
    "waiting": WAITING,
    "interrupted": INTERRUPTED,
    "abandoned": UNAVAILABLE,
}

_BY_CODE: Final = {
    "invalid_argument": USAGE,
    "not_found": USAGE,
    "already_exists": USAGE,
    "out_of_range": USAGE,
    "canceled": ENDED_EARLY,
    "deadline_exceeded": ENDED_EARLY,
    "permission_denied": REFUSED,
    "unauthenticated": REFUSED,
    "resource_exhausted": REFUSED,
    "unavailable": UNAVAILABLE,
}


def exit_code(error: TransomError) -> int:
    """What a command exits with that could not do what it was asked."""
    return _BY_CODE.get(error.code, FAILED)


HELP: Final = (
    "Exit codes: 0 completed, 1 failed, 2 usage, 3 cancelled or timed out, 4 waits for a person, "
    "5 refused, 6 unavailable, 130 interrupted."
)

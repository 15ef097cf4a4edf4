"""The one error vocabulary: what a door, an operation, a plugin or a job can fail with.

Every error a caller may see is a `TransomError`; a door maps its `code` once, in one table.

    TransomError                 code, message, details: told to the caller as it stands
    ├── PluginError              a plugin raised something else; names the plugin and the hook
    ├── StoreUnavailable         the store cannot take the work now (full disk, lock, damage)
    ├── Stale                    another worker owns the job now, or it has ended: stop, write nothing
    ├── ConcurrentUse            a Context was called while its previous call was still open
    └── Nondeterminism           a replay asked for another step than the journal holds

A quota, budget or limit of a job tree that has no room is a `resource_exhausted` with a `Refusal` as its details.

Anything else is `internal`. What an agent or a function raised is told in its own words, filtered; what the kernel or
a plugin raised goes to the log, and its text is told to nobody.
"""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from .values import Json

Code = Literal[
    "canceled",
    "unknown",
    "invalid_argument",
    "deadline_exceeded",
    "not_found",
    "already_exists",
    "permission_denied",
    "resource_exhausted",
    "failed_precondition",
    "aborted",
    "out_of_range",
    "unimplemented",
    "internal",
    "unavailable",
    "data_loss",
    "unauthenticated",
]
"""The Connect error codes, letter for letter."""

CODES: tuple[Code, ...] = get_args(Code)


class TransomError(Exception):
    """An error that the caller is told.

    Parameters:
        code: one of `CODES`; any other counts as `unknown`.
        message: a sentence that names the field or object, what is wrong and the remedy.
        details: facts a program can read, as JSON (`{"reason": "oz0_id_conflict", …}`).
    """

    def __init__(self, code: Code, message: str, details: Mapping[str, Json] | None = None) -> None:
        super().__init__(message)
        self.code: Code = code if code in CODES else "unknown"
        self.message = message
        self.details: dict[str, Json] = dict(details or {})

    def info(self) -> "ErrorInfo":
        """The error as a value, for a record, a log event or a wire."""
        return ErrorInfo(code=self.code, message=self.message, details=self.details)


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A `TransomError` at rest."""

    code: Code
    message: str
    details: dict[str, Json] = {}

    def error(self) -> TransomError:
        """The exception that this value was made from."""
        return TransomError(self.code, self.message, self.details)


class PluginError(TransomError):
    """A plugin's hook or object raised something that is no `TransomError`.

    The cause is chained; its text goes to the log, never to the caller.
    """

    def __init__(self, plugin: str, hook: str) -> None:
        super().__init__(
            "internal",
            f"plugin {plugin!r} failed in {hook}; the server's log has the cause",
            {"plugin": plugin, "hook": hook},
        )


RefusalType = Literal["oz0_quota_exceeded", "oz0_budget_exceeded", "oz0_tree_limit"]
REFUSALS: tuple[RefusalType, ...] = get_args(RefusalType)
"""The `type` of every error that a cap is behind."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a program is told of a cap that has no room: the details of the error. Money is in USD.

    Parameters:
        scope: whose cap it is: its `kind` (caller, team, agent, tenant, tree, job) and `name`.
        what: what is capped: jobs, tokens, usd; of a tree its depth, children, tree_jobs, steps.
        requested: what there was no room for, at the most.
        could_wait: whether the job may wait for somebody who raises the cap.
        raised_by: who can raise it, in words.
        limit, used, reserved: left out for those who may not read another person's or team's figures.
        window: in which the cap holds (minute, hour, day, week, month, total); empty for limits of a tree.
        resets_at: when the window ends, as `2026-03-01T00:00:00.000Z`, and in milliseconds (Unix) as `resets_at_ms`.
    """

    type: RefusalType
    scope: dict[str, str]
    what: str
    requested: int | float
    could_wait: bool
    raised_by: str
    limit: int | float | msgspec.UnsetType = msgspec.UNSET
    used: int | float | msgspec.UnsetType = msgspec.UNSET
    reserved: int | float | msgspec.UnsetType = msgspec.UNSET
    window: str = ""
    resets_at: str = ""
    resets_at_ms: int = 0

    def error(self, message: str) -> TransomError:
        """The error that tells of it."""
        return TransomError("resource_exhausted", message, msgspec.to_builtins(self))


class StoreUnavailable(TransomError):
    """The store cannot take the work now; nothing of it was kept."""

    def __init__(self, message: str) -> None:
        super().__init__("unavailable", message, {"reason": "store_unavailable"})


class Stale(TransomError):
    """The job belongs to another worker by now, or has ended; this worker stops and writes nothing."""

    def __init__(self, job: str) -> None:
        super().__init__("aborted", f"job {job!r} goes on elsewhere or has ended", {"reason": "stale_worker"})


class ConcurrentUse(TransomError):
    """A Context was used twice at once; concurrency goes through `together`, `tools` and `first`."""

    def __init__(self, call: str) -> None:
        super().__init__(
            "failed_precondition",
            f"{call}: the Context's previous call is still open; use ctx.together(), ctx.tools() or ctx.first()",
            {"reason": "concurrent_use"},
        )


class Nondeterminism(TransomError):
    """On replay the agent asked for another step than the journal holds."""

    def __init__(self, key: str, recorded: str, asked: str) -> None:
        super().__init__(
            "failed_precondition",
            f"step {key} was {recorded} and is {asked} on replay: the agent's code changed, or it decides by something "
            "that is not a step (time, random numbers, the environment); use ctx.now() and ctx.random(), or raise its version",
            {"reason": "nondeterminism", "step": key},
        )


RUNTIME_ERRORS: tuple[type[TransomError], ...] = (Stale, StoreUnavailable, ConcurrentUse, Nondeterminism)
"""Errors of the runtime itself: they say nothing about a step, are never recorded as its outcome, and nobody's
`on_error` takes them."""

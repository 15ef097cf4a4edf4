"""The engine family: where and when `advance` runs."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from .markers import hookspec

if TYPE_CHECKING:
    from .kernel import Kernel


class Engine(Protocol):
    """Runs `kernel.advance(tenant, job)` at least once after each wake, one at a time per job.

    `launch`, `wake` and `cancel` are hints given after the commit, idempotent; the store's leases are the truth,
    and what a crash left of them is found by a sweep at start and every few seconds.
    """

    name: str
    local: bool
    """Whether a job is advanced by the process that starts it, so that the start itself may claim it."""

    def run(self, kernel: "Kernel", *, own_only: bool = False) -> AbstractAsyncContextManager[None]:
        """The engine's whole life. `own_only`: advance only what this process started (an embedded use)."""

    def launch(self, tenant: str, job: str) -> None:
        """A job was accepted."""

    def wake(self, tenant: str, job: str, at: int | None = None) -> None:
        """A job can go on, now or at a time in milliseconds (Unix)."""

    def cancel(self, tenant: str, job: str) -> None:
        """A job has ended or belongs to another worker: stop what runs of it here."""


class EngineHooks:
    """Hooks of the engine family."""

    @hookspec
    def register_engines(self) -> Sequence[Engine]:  # type: ignore[empty-body]
        """Return engines. The setting `engine` names the one that is used."""

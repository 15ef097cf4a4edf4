"""The observing family: `on_*` hooks are told, off the stream, and `around_*` hooks wrap execution (never replay)."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from .agents import JobFacts
from .markers import hookspec
from .models import ModelRequest
from .policy import ToolUse
from .records import Job
from .trail import AuditRow


class ObserverHooks:
    """Observing hooks. One that fails five times in a row is switched off, and health says so."""

    @hookspec
    async def on_job_ended(self, tenant: str, job: Job) -> None:
        """A job ended here."""

    @hookspec
    async def on_audit(self, tenant: str, rows: Sequence[AuditRow]) -> None:
        """New entries of the audit trail, at least once each, in order."""

    @hookspec
    def around_job(self, job: JobFacts) -> AbstractAsyncContextManager[None]:  # type: ignore[empty-body]
        """Around one `advance` of a job."""

    @hookspec
    def around_model(self, job: JobFacts, model: str, request: ModelRequest) -> AbstractAsyncContextManager[None]:  # type: ignore[empty-body]
        """Around one model call."""

    @hookspec
    def around_tool(self, use: ToolUse) -> AbstractAsyncContextManager[None]:  # type: ignore[empty-body]
        """Around one execution of a function."""

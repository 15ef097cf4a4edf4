"""What a function gets of the runtime while it runs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from transom_hookspecs import Caller, Function, Secrets, Step, TransomError, Transport

if TYPE_CHECKING:
    from .run import JobRun


class FunctionContext:
    """Implements `transom_hookspecs.CallContext` for one attempt of a call."""

    def __init__(self, run: "JobRun", step: Step) -> None:
        self._run = run
        self.tenant = run.tenant
        self.job = run.job.id
        self.tree = run.job.tree
        self.agent = run.job.agent
        self.caller: Caller = run.job.caller
        self.step = step.key
        self.attempt = step.attempt
        self.idempotency_key = f"{run.job.id}/{step.key}"
        self.secret_env: Mapping[str, str] = {}

    def outbound(self, hosts: Sequence[str] = ()) -> Transport:
        """A guarded transport; see `CallContext.outbound`."""
        return self._run.core.outbound.guarded(hosts, tenant=self.tenant)

    def take_secrets(self, name: str, function: Function) -> None:
        """Get the values that a function declares as its `secret_env`; `name` is its full name.

        Raises:
            TransomError: one is not there, or its tool was not allowed to have it.
        """
        if not function.secret_env:
            return
        secrets = self._run.core.service(Secrets)
        if secrets is None:
            raise TransomError("failed_precondition", f"{name} needs secrets, and no plugin is loaded that keeps them")
        self.secret_env = secrets.environment(self.tenant, name.partition(".")[0], function.secret_env)

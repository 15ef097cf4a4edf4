"""A kernel and a launcher made for these tests: a job is a coroutine that writes its own log.

Also run as a program (`python cli_fakes.py run helper`), so that the commands can be tried at a real terminal.
"""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio

from transom_hookspecs import (
    AgentView,
    CallEnded,
    Caller,
    CallStarted,
    CancelJob,
    Catalog,
    DecideApproval,
    Decided,
    DevTokens,
    EditWait,
    Entry,
    ErrorInfo,
    GetCatalog,
    GetJob,
    GetJobTrace,
    GetJobWait,
    HookInfo,
    JobAnswer,
    JobEnded,
    JobPage,
    JobStarted,
    JobTrace,
    JobView,
    JobWait,
    ListApprovals,
    ListJobs,
    NotePinned,
    Operation,
    PendingStep,
    PluginInfo,
    Rule,
    SetJobTags,
    StartJob,
    StepView,
    Text,
    TextCut,
    TextEnded,
    TransomError,
    TreeRunning,
    TreeWaiting,
    WaitDecided,
    WaitOpened,
    WaitPage,
    WaitView,
    WatchGrant,
    WatchJob,
)

JOB = "job-1"
NOW = 1_772_000_000_000


class Run:
    """One job of the fake: its log, its waits, and the words a script writes it with."""

    def __init__(self, agent: str, id: str = JOB) -> None:
        self.id, self.agent = id, agent
        self.log: list[Entry] = []
        self.bell = anyio.Event()
        self.waits: dict[str, WaitView] = {}
        self.outcomes: dict[str, DecideApproval] = {}
        self.status, self.output, self.error = "running", None, None
        self.tags: tuple[str, ...] = ()

    def add(self, *events) -> None:
        for event in events:
            self.log.append(Entry(len(self.log) + 1, NOW + 100 * len(self.log), event))
        self.bell.set()
        self.bell = anyio.Event()

    def start(self, job: str = "", agent: str = "", parent: str = "") -> None:
        caller = Caller(kind="operator", id="me")
        self.add(JobStarted(job=job or self.id, agent=agent or self.agent, caller=caller, parent=parent))

    def say(self, text: str, job: str = "", step: int = 1) -> None:
        job = job or self.id
        message = f"{job}:{step}"
        for word in text.split(" ")[:1]:
            self.add(Text(job=job, message=message, delta=word))
        self.add(Text(job=job, message=message, delta=text[len(text.split(" ", maxsplit=1)[0]) :])) if " " in text else None
        self.add(TextEnded(job=job, message=message, text=text))

    def end(self, output=None, status: str = "completed", error: ErrorInfo | None = None) -> None:
        self.status, self.output, self.error = status, output, error
        self.waits.clear()
        self.add(JobEnded(job=self.id, status=status, output=output, error=error))

    async def wait(self, id: str, **facts) -> DecideApproval:
        """Open a wait, let the tree wait, and return the decision."""
        wait = make_wait(id, job=self.id, agent=self.agent, **facts)
        self.waits[id] = wait
        self.add(
            WaitOpened(
                job=self.id,
                wait=id,
                kind=wait.kind,
                token=wait.token,
                expires=wait.expires_at,
                message=wait.message,
                function=wait.function,
                shown=wait.shown,
                choices=wait.choices,
                rule=wait.rule,
            ),
            TreeWaiting(job=self.id, waits=(id,)),
        )
        while id not in self.outcomes:
            await self.bell.wait()
        return self.outcomes[id]

    def decide(self, request: DecideApproval, by: str = "operator:me") -> Decided:
        """Take a decision as the kernel would, with the checks that the tests need."""
        wait = self.waits.get(request.wait)
        if wait is None:
            raise TransomError("not_found", f"there is no wait {request.wait!r} here")
        if wait.rule.typed and request.approved and request.confirm != wait.shown[wait.rule.typed]:
            raise TransomError("failed_precondition", f"type the value of {wait.rule.typed!r}", {"reason": "confirm"})
        if wait.rule.count > 1:
            return Decided(wait=wait.id, job=self.id, result="acknowledged", by=by)
        outcome = "answered" if request.approved is None else "approved" if request.approved else "denied"
        self.outcomes[wait.id] = request
        del self.waits[wait.id]
        self.add(WaitDecided(job=self.id, wait=wait.id, outcome=outcome, by=by), TreeRunning(job=self.id))
        return Decided(wait=wait.id, job=self.id, result="decided", outcome=outcome, by=by)

    def view(self) -> JobView:
        return JobView(
            id=self.id,
            agent=self.agent,
            status=self.status,
            started_at=NOW,
            tree=self.id,
            token="t",
            closed_at=NOW + 1000 if self.status != "running" else 0,
            output=self.output,
            error=self.error,
            approvals=tuple(self.waits.values()),
            tags=self.tags,
        )


def make_wait(id: str = "wait-1", **facts) -> WaitView:
    fields = {
        "job": JOB,
        "agent": "helper",
        "kind": "approval",
        "message": "",
        "rule": Rule(),
        "can_decide": True,
        "opened_at": NOW,
        "expires_at": NOW + 86_400_000,
        **facts,
    }
    return WaitView(id=id, tenant="default", tree=fields["job"], token=f"ozi1.{id}", **fields)


Script = Callable[[Run, object], Awaitable[None]]


async def echo(run: Run, input) -> None:
    run.say(str(input))
    run.end(str(input))


async def helper(run: Run, input) -> None:
    run.add(CallStarted(job=run.id, call="c1", function="team.greet", arguments={"channel": "#team"}))
    decision = await run.wait(
        "wait-1", function="team.greet", shown={"channel": "#team"}, rule=Rule(reason="a greeting needs a yes")
    )
    if decision.approved:
        run.add(CallEnded(job=run.id, call="c1", content="Greeted #team."))
    else:
        run.add(CallEnded(job=run.id, call="c1", error=ErrorInfo(code="permission_denied", message="was denied")))
    answer = "I greeted the team." if decision.approved else "I did not greet the team."
    run.say(answer, step=2)
    run.end(answer)


async def asker(run: Run, input) -> None:
    decision = await run.wait("wait-1", kind="question", message="Which colour?", choices=("red", "green", "blue"))
    answer = "You chose nothing." if decision.approved is False else f"You chose {decision.answer}."
    run.say(answer)
    run.end(answer)


async def typed(run: Run, input) -> None:
    await run.wait("wait-1", function="team.remove", shown={"name": "bob"}, rule=Rule(typed="name"))
    run.end("Removed bob.")


async def pair(run: Run, input) -> None:
    await run.wait("wait-1", function="team.announce", shown={"text": "hi"}, rule=Rule(four_eyes=True), can_decide=False)


async def voted(run: Run, input) -> None:
    await run.wait("wait-1", function="team.announce", shown={"text": "hi"}, rule=Rule(count=2))


async def brief(run: Run, input) -> None:
    """Its question is answered by somebody else a moment later."""
    async with anyio.create_task_group() as tasks:

        async def other() -> None:
            await anyio.sleep(0.3)
            run.decide(DecideApproval(wait="wait-1", answer="no"), by="system:expiry")

        tasks.start_soon(other)
        await run.wait("wait-1", kind="question", message="Still there?")
    run.say("Nobody answered in time.")
    run.end("Nobody answered in time.")


async def planner(run: Run, input) -> None:
    run.add(NotePinned(job=run.id, id=1, kind="plan", text="Two workers.", agent="planner"))
    for number in (1, 2):
        run.start(job=f"child-{number}", agent="worker", parent=run.id)
    run.add(Text(job="child-1", message="child-1:1", delta="one "), Text(job="child-2", message="child-2:1", delta="two"))
    run.add(Text(job="child-1", message="child-1:1", delta="more"))
    for number in (1, 2):
        run.add(JobEnded(job=f"child-{number}", status="completed", output="done"))
    run.end({"done": True})


async def cut(run: Run, input) -> None:
    run.add(Text(job=run.id, message="m", delta="Half a sen"), TextCut(job=run.id, message="m"))
    run.say("A whole sentence.", step=2)
    run.end("A whole sentence.")


async def crasher(run: Run, input) -> None:
    run.say("Some text.")
    run.end(status="failed", error=ErrorInfo(code="internal", message="it broke"))


async def sleeper(run: Run, input) -> None:
    run.say("Going to sleep.")
    await anyio.sleep_forever()


AGENTS: dict[str, Script] = {
    script.__name__: script for script in (echo, helper, asker, typed, pair, voted, brief, planner, cut, crasher, sleeper)
}


class FakeKernel:
    """As much of a kernel as the command line asks for."""

    data = "/fake/data"

    def __init__(self, tasks, launcher: "FakeLauncher") -> None:
        self._tasks, self._launcher = tasks, launcher
        self.runs = launcher.runs
        self.store = SimpleNamespace(read=self._read)

    async def attended(self) -> bool:
        return self._launcher.attended

    async def _read(self, tenant: str, tree: str, after: int = 0) -> list[Entry]:
        return self.runs[tree].log[after : after + 5]

    async def call(self, operation: str, request, origin):
        assert operation == type(request).__name__
        self._launcher.calls.append((request, origin))
        return await getattr(self, f"_{operation}")(request)

    async def watch(self, tenant: str, tree: str, after: int = 0) -> AsyncIterator[Sequence[Entry]]:
        run = self.runs[tree]
        while True:
            bell = run.bell
            if batch := run.log[after : after + 200]:
                after += len(batch)
                yield batch
            else:
                await bell.wait()

    def service(self, protocol):
        assert protocol is DevTokens
        return SimpleNamespace(tokens=lambda: {"anna": "tr_anna", "key": "tr_key"})

    def documents(self, folder: str):
        return [SimpleNamespace(path=path, name="from_file") for path in self._launcher.files] if folder == "agents" else []

    def _run(self, id: str) -> Run:
        if id not in self.runs:
            raise TransomError("not_found", f"there is no job {id!r} here")
        return self.runs[id]

    async def _StartJob(self, request: StartJob) -> JobAnswer:
        name = "echo" if request.agent == "from_file" else request.agent
        if name not in AGENTS:
            raise TransomError("not_found", f"there is no agent {name!r}")
        run = Run(request.agent, request.id or JOB)
        if known := self.runs.get(run.id):
            known.bell = anyio.Event()  # of this command's event loop
            return JobAnswer(job=known.view(), retried=True)
        self.runs[run.id] = run
        run.tags = request.tags
        run.start()
        self._tasks.start_soon(AGENTS[name], run, request.input)
        return JobAnswer(job=run.view())

    async def _GetJob(self, request: GetJob) -> JobView:
        return self._run(request.id).view()

    async def _ListJobs(self, request: ListJobs) -> JobPage:
        return JobPage(jobs=tuple(run.view() for run in self.runs.values()), cursor="next" if request.limit == 1 else "")

    async def _WatchJob(self, request: WatchJob) -> WatchGrant:
        return WatchGrant(job=self._run(request.id).view(), since_seq=request.since_seq)

    async def _CancelJob(self, request: CancelJob) -> JobView:
        run = self._run(request.id)
        run.end(status="cancelled")
        return run.view()

    async def _GetJobTrace(self, request: GetJobTrace) -> JobTrace:
        step = StepView(
            job=JOB, key="1", kind="call", name="team.greet", state="done", attempt=2, begun_at=NOW, ended_at=NOW + 250
        )
        return JobTrace(job=self._run(request.id).view(), steps=(step,))

    async def _GetJobWait(self, request: GetJobWait) -> JobWait:
        step = PendingStep(key="1", kind="call", name="team.greet", attempts=1, why="Step 1 waits for a person.", since=NOW)
        return JobWait(job=self._run(request.id).id, status="waiting", why="It waits for a person.", steps=(step,))

    async def _SetJobTags(self, request: SetJobTags) -> JobView:
        run = self._run(request.id)
        run.tags = tuple(tag for tag in (*run.tags, *request.add) if tag not in request.remove)
        return run.view()

    async def _ListApprovals(self, request: ListApprovals) -> WaitPage:
        return WaitPage(waits=tuple(w for run in self.runs.values() for w in run.waits.values() if request.job in ("", w.job)))

    async def _DecideApproval(self, request: DecideApproval) -> Decided:
        for run in self.runs.values():
            if request.wait in run.waits:
                return run.decide(request)
        raise TransomError("not_found", f"there is no wait {request.wait!r} here")

    async def _EditWait(self, request: EditWait) -> WaitView:
        return make_wait(request.wait, shown=request.arguments)

    async def _GetCatalog(self, request: GetCatalog) -> Catalog:
        schemas = self._launcher.schemas
        views = [AgentView(name=n, description=s.__doc__ or "", input_schema=schemas.get(n)) for n, s in AGENTS.items()]
        schema = {"type": "object", "properties": {"repo": {}, "pr": {}}, "required": ["repo"]}
        return Catalog(agents=(*views, AgentView(name="acme-reviewer", flow=True, input_schema=schema)))


class FakeLauncher:
    """Keeps its runs from one command to the next, as a data folder does."""

    def __init__(self, config_path: str = "") -> None:
        self.config_path = config_path
        self.runs: dict[str, Run] = {}
        self.calls: list = []
        self.opened: list[dict] = []
        self.served: list[dict] = []
        self.blocked: list[tuple[str, bool]] = []
        self.files: list[str] = []
        self.broken: TransomError | None = None
        self.attended = False
        self.in_development: list[AgentView] = []
        self.schemas: dict[str, dict | None] = {}

    @asynccontextmanager
    async def embedded(self, *, data: str = "", dev: bool = False, agents: Sequence[str] = ()):
        if self.broken:
            raise self.broken
        self.opened.append({"data": data, "dev": dev, "agents": list(agents)})
        self.files = list(agents)
        async with anyio.create_task_group() as tasks:
            yield FakeKernel(tasks, self)
            tasks.cancel_scope.cancel()

    def serve(self, *, host="", port=None, data="", dev=False, ready=None, with_parent=False) -> int:
        self.served.append({"host": host, "port": port, "data": data, "dev": dev, "with_parent": with_parent})
        ready("http://127.0.0.1:7443", FakeKernel(None, self))
        return 0

    def agents(self, tenant: str, *, dev: bool = False) -> list[AgentView]:
        assert dev
        return self.in_development

    def found(self) -> list[PluginInfo]:
        return [
            PluginInfo(name="rest", distribution="transom", version="1", state="loaded", hooks=("register_doors",)),
            PluginInfo(name="github", distribution="transom-github", version="2", state="failed", why="no module named x"),
        ]

    def set_blocked(self, name: str, *, blocked: bool) -> str:
        self.blocked.append((name, blocked))
        return "/etc/transom.toml"

    def hooks(self) -> list[HookInfo]:
        facts = {"kind": "register", "arguments": (), "description": "", "plugins": ("rest", "agui")}
        return [
            HookInfo(name="register_tools", family="tools", **facts),
            HookInfo(name="register_doors", family="doors", **facts),
        ]

    def operations(self) -> list[Operation]:
        async def handler(call, request):
            raise AssertionError("never called")

        return [
            Operation(
                name="StartJob",
                request=StartJob,
                response=JobAnswer,
                permission="jobs.start",
                handler=handler,
                audit="run.start",
                idempotent=True,
                description="Start a job.",
            )
        ]


def main() -> None:
    """The commands as a program."""
    import click

    from transom_cli.commands import COMMANDS

    group = click.Group("transom", commands={command.name: command for command in COMMANDS})
    group.main(sys.argv[1:], obj=FakeLauncher())


if __name__ == "__main__":
    main()

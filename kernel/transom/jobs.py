"""Operations that read jobs, and the small ones that change them."""

from typing import TYPE_CHECKING

import anyio.lowlevel
import msgspec

from transom_hookspecs import (
    BranchCost,
    CallEnded,
    CancelJob,
    Catalog,
    Cost,
    CostView,
    ErrorInfo,
    EventWait,
    GetCatalog,
    GetJob,
    GetJobTrace,
    GetJobWait,
    Job,
    JobAnswer,
    JobOutput,
    JobPage,
    JobTrace,
    JobView,
    JobWait,
    Json,
    JsonObject,
    ListJobs,
    PendingStep,
    Published,
    PublishEvent,
    SetJobTags,
    StartJob,
    Step,
    StepView,
    TransomError,
    Tx,
    Wait,
    WatchGrant,
    WatchJob,
)

from . import schemas, waits
from .filters import Filters
from .operations import OperationCall
from .start import start
from .tree import Ended, TreeWork
from .words import MAX_NAME, check_words

if TYPE_CHECKING:
    from .core import Core

MAX_TAGS = 50
MAX_TAG = 100
SLICE = 200


async def start_job(call: OperationCall, request: StartJob) -> JobAnswer:
    """StartJob."""
    check_tags(request.tags)
    started = await start(call.core, request, call.origin)
    if started.retried:
        return JobAnswer(job=await view(call, started.job), retried=True)
    return JobAnswer(job=brief(call, started.job))


async def get_job(call: OperationCall, request: GetJob) -> JobView:
    """GetJob."""
    return await view(call, await call.core.job(call, request.id, "jobs.read"))


async def view(call: OperationCall, job: Job) -> JobView:
    """A job as this caller sees it, with its output, open waits, children and cost."""
    core, tenant = call.core, call.origin.tenant
    sight = await waits.content_of(core, tenant, call.origin.caller, job)
    output = await core.store.get(tenant, JobOutput, job.id) if sight.allowed and job.ended else None
    members = await core.store.select(tenant, Job, "tree", {"tree": job.tree}, limit=10_000)
    children = [member for member in members if member.parent == job.id]
    open_waits = [] if job.ended else await core.store.select(tenant, Wait, "job", {"job": job.id, "open": True})
    facts = brief(call, job) if sight.allowed else withheld(brief(call, job), sight)
    return msgspec.structs.replace(
        facts,
        output=output.value if output else None,
        children=tuple(child.id for child in children),
        approvals=tuple([await waits.view(core, tenant, call.origin.caller, wait, job) for wait in open_waits]),
        cost=await cost(core, tenant, job, members),
    )


def withheld(facts: JobView, sight: waits.Sight) -> JobView:
    """A job's facts without content: an error says only of which kind it is, and behind a wall tags are kept back too."""
    error = no_words(facts.error) if facts.error is not None else None
    tags = () if sight.label else facts.tags
    return msgspec.structs.replace(facts, error=error, tags=tags, content=sight.allowed, redacted=sight.label)


def no_words(error: ErrorInfo) -> ErrorInfo:
    """An error without its text, which may tell of content."""
    return ErrorInfo(code=error.code, message="(reading this needs the permission to read content)")


def brief(call: OperationCall, job: Job) -> JobView:
    """A job's facts, as the caller may see them."""
    return JobView(
        id=job.id,
        agent=job.agent,
        status=job.status,
        started_at=job.created_at,
        tree=job.tree,
        token=job.token,
        closed_at=job.ended_at,
        error=job.error,
        flow=job.flow,
        card=job.card,
        conversation=job.conversation,
        turn=job.turn,
        tags=job.tags,
        team=job.team,
        labels=job.labels,
        taint=job.taint,
        caller=waits.name_for(call.core, call.origin.tenant, call.origin.caller, job.caller.principal),
    )


async def cost(core: "Core", tenant: str, job: Job, members: list[Job]) -> CostView:
    """What a job and all below it cost."""
    rows = await core.store.select(tenant, Cost, "tree", {"tree": job.tree}, limit=10_000)
    inside = below(job.id, members)
    agents = {job.id: job.agent} | {m.id: m.agent for m in members if m.id in inside}
    branches = tuple(branch(identity, agent, [r for r in rows if r.job == identity]) for identity, agent in agents.items())
    return CostView(
        usd=sum(b.usd for b in branches),
        calls=sum(b.calls for b in branches),
        input_tokens=sum(b.input_tokens for b in branches),
        output_tokens=sum(b.output_tokens for b in branches),
        branches=branches,
    )


def branch(job: str, agent: str, rows: list[Cost]) -> BranchCost:
    """One job's part of a tree's cost."""
    return BranchCost(
        job=job,
        agent=agent,
        models=tuple(r.model for r in rows),
        calls=sum(r.calls for r in rows),
        input_tokens=sum(r.input_tokens for r in rows),
        output_tokens=sum(r.output_tokens for r in rows),
        cached_tokens=sum(r.cached_tokens for r in rows),
        usd=sum(r.micro_usd for r in rows) / 1_000_000,
    )


def below(root: str, members: list[Job]) -> set[str]:
    """A job and all that it delegated to, directly or not; `members` in the order in which they were made."""
    inside = {root}
    for member in members:
        if member.parent in inside:
            inside.add(member.id)
    return inside


async def list_jobs(call: OperationCall, request: ListJobs) -> JobPage:
    """ListJobs: a cursor is the last job's place in the order."""
    if not 1 <= request.limit <= 200:
        raise TransomError("invalid_argument", "limit: must be 1 to 200")
    after = parse_cursor(request.cursor)
    page = await call.core.store.select(call.origin.tenant, Job, "recent", {"top": True}, after=after, limit=request.limit)
    cursor = f"{page[-1].created_at}.{page[-1].id}" if len(page) == request.limit else ""
    core, origin = call.core, call.origin
    seen = [j for j in page if (await core.may(origin.caller, origin.tenant, "jobs.read", j.id, j)).ruling == "allow"]
    sights = [await waits.content_of(core, origin.tenant, origin.caller, job) for job in seen]
    return JobPage(jobs=tuple(withheld(brief(call, j), s) for j, s in zip(seen, sights, strict=True)), cursor=cursor)


def parse_cursor(cursor: str) -> tuple[int, str] | None:
    """A cursor: the time and ID of the last record of the page before."""
    if not cursor:
        return None
    at, dot, identity = cursor.partition(".")
    if not dot or not at.isdecimal() or not at.isascii() or len(at) > 15:
        raise TransomError("invalid_argument", "cursor: is none of this list; leave it out to begin")
    return int(at), identity


async def cancel_job(call: OperationCall, request: CancelJob) -> JobView:
    """CancelJob: the job and its children, at once; a job that has ended stays as it is."""
    core, tenant = call.core, call.origin.tenant
    job = await core.job(call, request.id, "jobs.cancel")
    check_words("reason", request.reason)
    if not job.ended:
        job = await call.transact(
            lambda tx: write_cancel(tx, job.id), object=job.id, details={"reason": request.reason} if request.reason else None
        )
        core.engine.cancel(tenant, job.id)
    return await view(call, job)


def write_cancel(tx: Tx, identity: str) -> Job:
    """End a job as cancelled, inside a transaction."""
    job = tx.get(Job, identity)
    assert job is not None
    work = TreeWork(tx, job.tree)
    ended = work.end(job, Ended(status="cancelled"))
    work.finish()
    return ended


async def watch_job(call: OperationCall, request: WatchJob) -> WatchGrant:
    """WatchJob: the job may be followed, and the cursor is one of its own log."""
    running = call.core.running.get((call.origin.tenant, request.id))
    if running is not None:  # its facts are at hand, and what changes of them is in the log
        job = running.job
        await call.require("jobs.read", job.id, job)
    else:
        job = await call.core.job(call, request.id, "jobs.read")
    await call.require("feeds.read", job.id, job)
    await call.require("content.read", job.id, job)
    if job.parent:  # its log is the whole tree's
        await call.require("content.read", job.tree, await call.core.job(call, job.tree, "jobs.read"))
    if request.token and request.token != job.token:
        raise TransomError("invalid_argument", "the cursor's token is not of this job; begin without one")
    since = request.since_seq
    if since < 0 or (since and since > await call.core.store.last(call.origin.tenant, job.tree)):
        raise TransomError("invalid_argument", f"since_seq: {request.since_seq} is not in this job's log; begin without one")
    return WatchGrant(job=brief(call, job), since_seq=request.since_seq)


async def get_trace(call: OperationCall, request: GetJobTrace) -> JobTrace:
    """GetJobTrace: the steps in the order of their keys' numbers."""
    job = await call.core.job(call, request.id, "jobs.read")
    steps = await call.core.store.select(call.origin.tenant, Step, "job", {"job": job.id}, limit=10_000)
    steps.sort(key=lambda step: (step.begun_at, key_order(step.key)))
    shown = await view(call, job)
    return JobTrace(job=shown, steps=tuple(step_view(step, content=shown.content) for step in steps))


def key_order(key: str) -> list[tuple[int, str]]:
    """Numbers of a step's path as numbers, names as they are."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in key.split(".")]


def step_view(step: Step, *, content: bool) -> StepView:
    """A step without what it read and wrote."""
    error = step.error if content or step.error is None else no_words(step.error)
    return StepView(
        job=step.job,
        key=step.key,
        kind=step.kind,
        name=step.name,
        state=step.state,
        attempt=step.attempt,
        verdict=step.verdict,
        error=error,
        child=step.child,
        begun_at=step.begun_at,
        ended_at=step.ended_at,
    )


async def get_wait(call: OperationCall, request: GetJobWait) -> JobWait:
    """GetJobWait: one sentence for each step that is not done."""
    core, tenant = call.core, call.origin.tenant
    job = await core.job(call, request.id, "jobs.read")
    steps = await core.store.select(tenant, Step, "job", {"job": job.id}, limit=10_000)
    open_waits = await core.store.select(tenant, Wait, "job", {"job": job.id, "open": True})
    by_step = {wait.step: wait for wait in open_waits}
    failures = [s for s in steps if s.error is not None]
    sight = await waits.content_of(core, tenant, call.origin.caller, job)
    last = failures[-1].error.message if sight.allowed and failures and failures[-1].error else ""
    pending = tuple(pending_step(s, by_step.get(s.key), last) for s in steps if s.state != "done")
    return JobWait(
        job=job.id,
        status=job.status,
        why=" ".join(p.why for p in pending) or plain_status(job),
        queue=core.engine.name,
        steps=() if job.ended else pending,
        redacted=sight.label,
    )


def plain_status(job: Job) -> str:
    """Why a job with no pending step is where it is."""
    if job.ended:
        return f"The job has ended ({job.status})."
    return "The job waits for a worker." if job.status == "queued" else "The job is being worked on."


def pending_step(step: Step, wait: Wait | None, last_failure: str) -> PendingStep:
    """What one step waits for."""
    what = f"Step {step.key} ({step.kind} {step.name})" if step.name else f"Step {step.key} ({step.kind})"
    if wait is not None:
        who = ", ".join(wait.rule.deciders) or "whoever may decide here"
        why, waits_for = f"{what} waits for a person to decide: {who}.", wait.id
    elif step.child:
        why, waits_for = f"{what} waits for job {step.child}.", step.child
    elif step.kind == "event":
        why, waits_for = f"{what} waits for an event of source {step.name!r}.", step.name
    elif step.kind == "sleep":
        why, waits_for = f"{what} waits for a timer.", str(step.until)
    elif step.state == "ready":
        why, waits_for = f"{what} may go on and waits for a worker.", "worker"
    else:
        why, waits_for = f"{what} is being run.", ""
    return PendingStep(
        key=step.key,
        kind=step.kind,
        name=step.name,
        attempts=step.attempt,
        why=why,
        waits_for=waits_for,
        last_failure=last_failure,
        since=step.begun_at,
    )


async def get_catalog(call: OperationCall, request: GetCatalog) -> Catalog:
    """GetCatalog."""
    core, origin = call.core, call.origin
    views = core.catalog.views(origin.tenant)
    seen = []
    for n, each in enumerate(views, 1):
        if (await core.may(origin.caller, origin.tenant, "catalog.read", each.name)).ruling == "allow":
            seen.append(each)
        if n % SLICE == 0:
            await anyio.lowlevel.checkpoint()
    return Catalog(agents=views if len(seen) == len(views) else tuple(seen))


async def set_tags(call: OperationCall, request: SetJobTags) -> JobView:
    """SetJobTags, also after the job ended."""
    job = await call.core.job(call, request.id, "jobs.tag")
    check_tags(request.add)
    added = call.core.filters_for(job, call.origin.tenant).texts("person", request.add)

    def write(tx: Tx) -> Job:
        current = tx.get(Job, job.id)
        assert current is not None
        kept = [t for t in current.tags if t not in request.remove]
        tags = tuple(dict.fromkeys([*kept, *added]))
        check_tags(tags)
        return tx.update(current, tags=tags)

    details: JsonObject = {"add": list(added), "remove": list(request.remove)}
    return await view(call, await call.transact(write, object=job.id, details=details))


def check_tags(tags: tuple[str, ...]) -> None:
    """At most 50 tags of at most 100 characters."""
    if len(tags) > MAX_TAGS or any(not t or len(t) > MAX_TAG or not t.isprintable() for t in tags):
        raise TransomError("invalid_argument", f"tags: at most {MAX_TAGS}, each of 1 to {MAX_TAG} printable characters")


async def publish_event(call: OperationCall, request: PublishEvent) -> Published:
    """PublishEvent: every step that waits for such an event goes on with its payload."""
    if not request.source:
        raise TransomError("invalid_argument", "source: must name the event's source")
    check_words("source", request.source, MAX_NAME)
    filters = Filters(call.core.filters, call.origin.tenant)
    source, payload = filters.text("arguments", request.source), filters.object("tool", request.payload)

    def write(tx: Tx) -> Published:
        woken = []
        for waiting in tx.select(EventWait, "source", {"source": source}, limit=10_000):
            if all(schemas.canonical(payload.get(k)) == schemas.canonical(v) for k, v in waiting.match.items()):
                deliver(tx, waiting, payload)
                woken.append(waiting.job)
        return Published(jobs=tuple(woken))

    return await call.transact(write, object=source)


def deliver(tx: Tx, waiting: EventWait, payload: Json) -> None:
    """Give an event to a step that waits for it."""
    step, job = tx.get(Step, waiting.job, waiting.step), tx.get(Job, waiting.job)
    if step is None or job is None or step.state != "waiting":
        return
    work = TreeWork(tx, job.tree)
    work.no_longer_awaits(waiting)
    work.taint(job, "event")
    work.settle_step(step, result=payload)
    if step.call:
        work.log(CallEnded(job=job.id, call=step.call, content=payload))
    work.finish()

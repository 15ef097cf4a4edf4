"""The start pipeline: the one function that starts every job, whichever door or agent asked.

ID or key looked up first → catalog → authorize → schema → admission → one transaction → engine.
"""

import hashlib
from typing import TYPE_CHECKING, Literal

import msgspec

from transom_hookspecs import (
    NEVER,
    REFUSALS,
    Access,
    Admission,
    AuditEntry,
    Conversation,
    Item,
    Job,
    JobInput,
    JobStarted,
    Json,
    JsonObject,
    Lease,
    Origin,
    Reservation,
    Run,
    StartJob,
    Step,
    TransomError,
    Tree,
    Tx,
)

from . import ids, schemas
from .auditing import audit, audit_refusal
from .catalog import Offer
from .dispatch import blamed
from .filters import Filters
from .operations import authorize, refusal
from .tree import TreeWork, too_many
from .turns import FORBIDDEN_IN_ID, MAX_ID, check_turn, continued, owner_of
from .words import MAX_NAME, check_words
from .workers import enroll

if TYPE_CHECKING:
    from .core import Core


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """Who delegates: the job, its worker's epoch, and the step that waits for the child."""

    job: Job
    epoch: int
    step: Step


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """What a start gave: the job, and whether it was there before."""

    job: Job
    retried: bool = False


class Taken(Exception):
    """The ID was taken between the look-up and the commit."""


def job_id(request: StartJob, origin: Origin) -> tuple[str, Literal["edge", "client", "key"]]:
    """The new job's ID, and who chose it.

    Raises:
        TransomError: invalid_argument for an ID that may not be one.
    """
    if request.id:
        if len(request.id) > MAX_ID or FORBIDDEN_IN_ID.search(request.id):
            raise TransomError(
                "invalid_argument",
                f'id: at most {MAX_ID} characters, without /, \\, " and control characters; leave it out for a new one',
            )
        return request.id, "client"
    if origin.key:
        named = hashlib.sha256(f"{origin.tenant}\0{origin.caller.principal}\0{origin.key}".encode()).hexdigest()
        return f"job-{named[:32]}", "key"
    return ids.new_id("job"), "edge"


def start_digest(request: StartJob) -> str:
    """What 'the same start' means; the caller is compared beside it."""
    return schemas.digest(
        [
            request.agent,
            request.input,
            list(request.tags),
            request.team,
            request.budget,
            request.timeout,
            list(request.data_subjects),
            request.conversation,
            request.continue_from,
        ]
    )


async def start(core: "Core", request: StartJob, origin: Origin, parent: Parent | None = None) -> Started:
    """Start a job, or answer with the one that this very start made before.

    Raises:
        TransomError: already_exists for another start under a taken ID, not_found, permission_denied,
            invalid_argument, or what admission refused with. Nothing is left behind but a refusal's audit entry.
    """
    try:
        return await _start(core, request, origin, parent)
    except TransomError as error:
        if error.details.get("type") in REFUSALS:
            object = request.id or (parent.job.id if parent else "")
            await audit_refusal(core, origin, error, object, {"agent": request.agent})
        raise


def filtered(core: "Core", request: StartJob, origin: Origin, identity: str) -> StartJob:
    """A start as it is recorded, and as the agent gets it."""
    filters = Filters(core.filters, origin.tenant, identity, request.agent)
    return msgspec.structs.replace(
        request,
        input=filters.value("input", request.input),
        tags=filters.texts("person", request.tags),
        team=filters.text("person", request.team),
        budget=filters.text("person", request.budget),
        data_subjects=filters.texts("person", request.data_subjects),
    )


async def _start(core: "Core", request: StartJob, origin: Origin, parent: Parent | None) -> Started:
    identity, id_from = job_id(request, origin)
    check_words("team", request.team, MAX_NAME)
    digest = start_digest(request)
    if id_from != "edge" and (known := await core.store.get(origin.tenant, Job, identity)):
        return await retried(core, known, digest, origin)
    offer = await permitted(core, request, origin, parent.job if parent else None)
    request = filtered(core, request, origin, identity)
    check_input(core, offer, request.input)
    conversation, owner = await continued(core, request, origin)
    if conversation and not offer.agent.conversations:
        raise TransomError("failed_precondition", f"conversation: the agent {request.agent!r} takes part in none")
    job = new_job(core, request, origin, offer, identity, parent)
    job = msgspec.structs.replace(job, digest=digest, id_from=id_from, conversation=conversation)
    value = request.input
    reservations = await core.hooks.every(
        "admit", Admission(origin=origin, job=job, input=value, parent=parent.job if parent else None)
    )
    plan = Plan(core, request, origin, job, value, reservations, parent, owner)
    await enroll(core)
    core.starting.add((origin.tenant, identity))
    try:
        job = await core.store.transact(origin.tenant, plan.commit)
    except Taken:
        core.starting.discard((origin.tenant, identity))
        known = await core.store.get(origin.tenant, Job, identity)
        if known is None:
            raise TransomError("unavailable", f"job {identity!r} ended and was removed meanwhile; try again") from None
        return await retried(core, known, digest, origin)
    except BaseException:
        core.starting.discard((origin.tenant, identity))
        raise
    core.launch(origin.tenant, job, value)
    return Started(job=job)


async def retried(core: "Core", job: Job, digest: str, origin: Origin) -> Started:
    """The job of a start that was made before, or the refusal of another start under its ID."""
    same = job.digest == digest and job.caller.principal == origin.caller.principal and job.id_from != "edge"
    if same and not job.parent:
        await core.adopt(origin.tenant, job)
        return Started(job=job, retried=True)
    details: JsonObject = {"type": "oz0.runtime.v1.IdConflict", "reason": "oz0_id_conflict", "job": job.id}
    access = Access(caller=origin.caller, tenant=origin.tenant, permission="jobs.read", object=job.id, job=job)
    if (await authorize(core, access)).ruling == "allow":
        details["started_at"] = job.created_at
    raise TransomError("already_exists", f"the ID {job.id!r} is taken by another start; use a new one", details)


async def permitted(core: "Core", request: StartJob, origin: Origin, parent: Job | None) -> Offer:
    """The agent, when the caller may start it and the tenant has it; who may not learns nothing of what there is."""
    access = Access(caller=origin.caller, tenant=origin.tenant, permission="jobs.start", object=request.agent, parent=parent)
    verdict = await authorize(core, access)
    if verdict.ruling != "allow":
        raise refusal(access, verdict)
    offer = core.catalog.offer(origin.tenant, request.agent)
    if offer is None:
        raise TransomError("not_found", f"agent: there is no agent or flow {request.agent!r} in tenant {origin.tenant!r}")
    return offer


def check_input(core: "Core", offer: Offer, value: Json) -> None:
    """The input fits the agent's schema and the size limit."""
    limit = core.config.limits.input
    if len(msgspec.json.encode(value)) > limit:
        raise TransomError("invalid_argument", f"input: larger than {limit} bytes", {"reason": "too_large"})
    if offer.agent.input_schema is not None:
        schemas.require(offer.agent.input_schema, value, "input")


def new_job(core: "Core", request: StartJob, origin: Origin, offer: Offer, identity: str, parent: Parent | None) -> Job:
    """The job's facts as they are before the transaction."""
    now = core.clock.now()
    limits, above = core.config.limits, parent.job if parent else None
    seconds = min(request.timeout or offer.agent.timeout, offer.agent.timeout, limits.job)
    if request.timeout is not None and request.timeout <= 0:
        raise TransomError("invalid_argument", "timeout: must be more than 0 seconds")
    if above is not None and above.depth + 1 > limits.depth:
        raise too_many("depth", limits.depth, above.depth, kind="tree", name=above.tree)
    deadline = now + int(seconds * 1000)
    return Job(
        id=identity,
        tree=above.tree if above else identity,
        agent=offer.agent.name,
        definition=offer.definition,
        caller=origin.caller,
        status="queued",
        created_at=now,
        digest="",
        id_from="edge",
        token=ids.token(6),
        top=above is None,
        flow=offer.agent.flow,
        parent=above.id if above else "",
        parent_step=parent.step.key if parent else "",
        depth=above.depth + 1 if above else 0,
        deadline=min(deadline, above.deadline) if above else deadline,
        tags=request.tags,
        team=request.team or (above.team if above else ""),
        budget=request.budget or (above.budget if above else ""),
        data_subjects=request.data_subjects or (above.data_subjects if above else ()),
        labels=tuple(x for x in ((origin.caller.label,) if above is None else above.labels) if x),
        taint=above.taint if above else ((origin.taint,) if origin.taint else ()),
        door=origin.door,
    )


def inherited(job: Job, before: Job | None) -> Job:
    """A turn reads what was said before it, so it carries the labels and data subjects of the turn before."""
    if before is None:
        return job
    labels = tuple(dict.fromkeys((*job.labels, *before.labels)))
    return msgspec.structs.replace(
        job, labels=labels, data_subjects=tuple(dict.fromkeys((*job.data_subjects, *before.data_subjects)))
    )


class Plan:
    """A start that passed every check, and the transaction that makes it so."""

    def __init__(
        self,
        core: "Core",
        request: StartJob,
        origin: Origin,
        job: Job,
        value: Json,
        reservations: list[tuple[str, Reservation]],
        parent: Parent | None,
        owner: str,
    ) -> None:
        self._core, self._request, self._origin, self._owner = core, request, origin, owner
        self._job, self._value = job, value
        self._reservations, self._parent = reservations, parent

    def commit(self, tx: Tx) -> Job:
        """Job, journal, log, run record, audit entry and lease, all or none."""
        job, claimed = self._job, self._core.engine.local
        self._count_in_tree(tx, job)
        if job.conversation:
            job = self._take_turn(tx, job)
        for plugin, reservation in self._reservations:
            with blamed(plugin, "admit (its reservation)"):
                job = reservation.reserve(tx, job)
        if claimed:
            job = msgspec.structs.replace(job, status="running", started_at=tx.now)
        if not tx.insert(job):
            raise Taken
        tx.insert(JobInput(job=job.id, value=self._value))
        tx.system.insert(
            Lease(
                tenant=tx.tenant,
                job=job.id,
                epoch=int(claimed),
                worker=self._core.store.worker if claimed else "",
                at=NEVER if claimed else tx.now,
            )
        )
        self._log(tx, job)
        self._audit(tx, job)
        return job

    def _count_in_tree(self, tx: Tx, job: Job) -> None:
        limits = self._core.config.limits
        if self._parent is None:
            if not tx.insert(Tree(id=job.tree, jobs=1)):
                raise Taken
            return
        tree = tx.get(Tree, job.tree)
        assert tree is not None
        if tree.jobs >= limits.tree_jobs:
            raise too_many("tree_jobs", limits.tree_jobs, tree.jobs, kind="tree", name=job.tree)
        members = tx.select(Job, "tree", {"tree": job.tree}, limit=limits.tree_jobs)
        children = sum(member.parent == job.parent for member in members)
        if children >= limits.children:
            raise too_many("children", limits.children, children, kind="job", name=job.parent)
        tx.update(tree, jobs=tree.jobs + 1)
        self._core.fence(tx, self._parent.job.id, self._parent.epoch)
        tx.put(msgspec.structs.replace(self._parent.step, child=job.id))

    def _take_turn(self, tx: Tx, job: Job) -> Job:
        conversation = tx.get(Conversation, job.conversation)
        if conversation is None:
            conversation = Conversation(id=job.conversation, owner=owner_of(job.caller), created_at=tx.now, updated_at=tx.now)
        elif conversation.owner != self._owner:
            raise TransomError("aborted", f"conversation {job.conversation!r} was begun by another meanwhile")
        elif conversation.job:
            check_turn(tx, conversation)
        turn = conversation.turns + 1
        tx.put(
            Item(
                conversation=job.conversation,
                number=conversation.items + 1,
                id=f"{job.id}:in",
                role="user",
                job=job.id,
                turn=turn,
                content=self._value,
                client_id=self._request.client_message,
            )
        )
        job = inherited(job, tx.get(Job, conversation.job) if conversation.job else None)
        taint = tuple(dict.fromkeys((*job.taint, *conversation.taint)))
        tx.put(
            msgspec.structs.replace(
                conversation,
                turns=turn,
                items=conversation.items + 1,
                updated_at=tx.now,
                job=job.id,
                agent=job.agent,
                taint=taint,
            )
        )
        return msgspec.structs.replace(job, turn=turn, taint=taint)

    def _log(self, tx: Tx, job: Job) -> None:
        if (run := self._request.run) is not None:
            made = Run(
                conversation=run.conversation,
                run=run.run,
                job=job.id,
                start=tx.last(job.tree),
                created_at=tx.now,
                view=run.view,
            )
            if not tx.insert(made):
                raise TransomError("already_exists", f"run {run.run!r} of this conversation was made before")
        work = TreeWork(tx, job.tree)
        work.started(job)
        work.log(
            JobStarted(
                job=job.id,
                agent=job.agent,
                caller=job.caller,
                parent=job.parent,
                step=job.parent_step,
                label=job.caller.label,
                flow=job.flow,
            )
        )
        work.finish()

    def _audit(self, tx: Tx, job: Job) -> None:
        caller = job.caller
        audit(
            self._core,
            tx,
            AuditEntry(
                action="run.start",
                caller=f"{caller.kind}:{caller.id}",
                via=caller.via,
                door=self._origin.door,
                object=job.id,
                details={"agent": job.agent, "taint": list(job.taint), "parent": job.parent},
            ),
        )

"""A run with a resume: a person's answers are checked, decided together, and the turn streams on from where it waited."""

from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

from transom_hookspecs import (
    DecidedTogether,
    DecideTogether,
    Job,
    Json,
    Run,
    RunRequest,
    TransomError,
    TreeWaiting,
    Wait,
    WaitEdited,
    WaitOpened,
    WaitView,
)

from .inputs import Answer, RunInput
from .interrupts import console, interrupt
from .resume import Found, LeftOut, Plan, Refused, WaitFacts, plan, told
from .runs import Kept, is_ours, keep, kept_of, packed
from .threads import Place, open_waits, reads_tree, waiting_of, waits_of
from .view import Resumed, View


def check_person(place: Place) -> None:
    """Only a person resumes.

    Raises:
        TransomError: permission_denied, naming where people decide.
    """
    if place.caller.is_person:
        return
    link = console(links(place), place.latest.id) if place.latest is not None else None
    where = f"; people decide at {link['url']}" if link else ""
    message = f"resume: only a person answers what waits, not a key, a service or an operator{where}"
    raise TransomError("permission_denied", message, {"console": link} if link else {})


async def resume(place: Place, asked: RunInput, known: Run | None, key: str) -> tuple[Run, bool]:
    """Decide what a resume answers, and make its run; the same resume again is the run that it made.

    Returns:
        The run, and whether its stream, or a part of it, was sent before.

    Raises:
        Refused: and nothing was decided.
    """
    if known is not None and is_again(known, asked):
        return known, True
    job = place.latest
    if job is None:
        raise Refused("invalid_resume", "nothing waits on this thread")
    waits = await open_waits(place)
    records = {wait.token: wait for wait in await waits_of(place, [job.tree])}
    records |= await _elsewhere(place, asked.answers, records)
    found = Found(
        named={token: WaitFacts(wait=waiting_of(wait), outcome=wait.outcome or "") for token, wait in records.items()},
        changed=await _changed(place, job, asked.answers, records),
        open=tuple(waiting_of(wait) for wait in waits.mine),
    )
    try:
        made = plan(asked.answers, found, place.kernel.clock.now())
    except LeftOut as left:
        left.raw = {"interrupts": shown(place, waits.mine, asked.protocol, {wait.id for wait in left.waits})}
        raise
    answered = await _made_before(place, made, records.values(), key)
    settings = place.kernel.settings(place.tenant)
    board = await reads_tree(place, job)
    kept = keep(asked, place.caller, settings, board=board, answers=answered, key=key)
    start = await _waited_at(place, job, answered) if not made.decisions else -1
    await _decide(place, job, asked, made, kept, start)
    run = await place.kernel.store.get(place.tenant, Run, place.thread, asked.run)
    assert run is not None
    return run, start >= 0


def is_again(run: Run, asked: RunInput) -> bool:
    """Whether a resume is the one that made a run."""
    answers = {each.interrupt for each in kept_of(run).answers}
    return bool(answers) and {each.interrupt for each in asked.answers} <= answers


async def _decide(place: Place, job: Job, asked: RunInput, made: Plan, kept: Kept, start: int) -> DecidedTogether:
    decisions = tuple(msgspec.structs.replace(each, run=asked.run) for each in made.decisions)
    request = DecideTogether(
        tree=job.tree,
        decisions=decisions,
        edits=made.edits,
        run=RunRequest(conversation=place.thread, run=asked.run, view=packed(kept)),
        start=start,
    )
    try:
        decided: DecidedTogether = await place.kernel.call("DecideTogether", request, place.origin)
    except TransomError as error:
        if error.code == "unavailable":
            raise
        raise told(error, {each.wait: each.interrupt for each in made.answered}) from error
    return decided


async def _elsewhere(place: Place, answers: Iterable[Answer], known: Mapping[str, Wait]) -> dict[str, Wait]:
    """Waits that answers name in earlier turns of the thread."""
    store = place.kernel.store
    found: dict[str, Wait] = {}
    for answer in answers:
        if answer.interrupt in known or not answer.interrupt.startswith("ozi1."):
            continue
        for wait in await store.select(place.tenant, Wait, "token", {"token": answer.interrupt}, limit=1):
            job = await store.get(place.tenant, Job, wait.tree)
            if job is not None and job.conversation == place.thread:
                found[wait.token] = wait
    return found


async def _changed(place: Place, job: Job, answers: Iterable[Answer], known: Mapping[str, Wait]) -> frozenset[str]:
    """Which unknown IDs were shown for waits that were changed since."""
    if all(answer.interrupt in known for answer in answers):
        return frozenset()
    tokens: set[str] = set()
    after = 0
    while batch := await place.kernel.store.read(place.tenant, job.tree, after):
        tokens.update(e.event.token for e in batch if isinstance(e.event, WaitOpened | WaitEdited))
        after = batch[-1].seq
    return frozenset(tokens)


async def _made_before(place: Place, made: Plan, records: Iterable[Wait], key: str) -> list[Resumed]:
    """The entries as they are taken: those that this very resume decided before, under its key, are decided by it."""
    by_id = {wait.id: wait for wait in records}
    answered = []
    for each in made.answered:
        wait = by_id[each.wait]
        taken = each
        if key and each.outcome == "already_decided" and wait.run:
            run = await place.kernel.store.get(place.tenant, Run, place.thread, wait.run)
            if (
                run is not None
                and is_ours(run)
                and (kept := kept_of(run)).key == key
                and kept.principal == place.caller.principal
            ):
                approved = wait.outcome in ("approved", "answered")
                taken = Resumed(interrupt=each.interrupt, wait=each.wait, outcome="decided", approved=approved)
        answered.append(taken)
    return answered


async def _waited_at(place: Place, job: Job, answered: Iterable[Resumed]) -> int:
    """Where the tree last waited for what was answered: the client has what came before."""
    names = {each.wait for each in answered}
    after = found = 0
    while batch := await place.kernel.store.read(place.tenant, job.tree, after):
        found = max([found, *(e.seq for e in batch if isinstance(e.event, TreeWaiting) and names & set(e.event.waits))])
        after = batch[-1].seq
    return found


def links(place: Place, protocol: str = "") -> View:
    """A view of no run, for what is told outside of one."""
    settings = place.kernel.settings(place.tenant)
    return View(
        thread=place.thread,
        run="",
        job="",
        tenant=place.tenant,
        protocol=protocol,
        label=settings.ai_label,
        console=settings.public_url,
        wait_seconds=settings.wait_seconds,
    )


def shown(place: Place, waits: Iterable[WaitView], protocol: str, only: set[str] | None = None) -> Json:
    """Waits as interrupts, for those who were refused because of them."""
    view = links(place, protocol)
    chosen = [wait for wait in waits if only is None or wait.id in only]
    return cast(Json, [interrupt(waiting_of(wait), view, content=not wait.redacted) for wait in chosen])

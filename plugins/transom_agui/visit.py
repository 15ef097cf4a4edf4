"""A request's way, once it is read: it follows a run that was made before, answers what waits, or begins a turn.

The order of the checks is the contract's: thread, resume, history, waits, spend.
"""

from typing import TYPE_CHECKING

import msgspec

from transom_hookspecs import ENDED, Job, JobAnswer, Json, Run, RunRequest, StartJob, TransomError, Tx, Wait, WaitView

from .answering import check_person, is_again, links, resume, shown
from .encode import Place as EventPlace
from .encode import refused, spend_type
from .follow import Told, not_of_this_turn, stream
from .history import course
from .inputs import RunInput, agent_input
from .interrupts import waiting_for, who
from .resume import Refused
from .runs import is_ours, keep, kept_of, packed, view_of
from .threads import (
    Place,
    accept,
    facts_of,
    messages_of,
    open_waits,
    reads_tree,
    refuse,
    same_words,
    waiting_of,
    waits_of,
)
from .view import Messages

if TYPE_CHECKING:
    from litestar.types import ASGIApp

    from . import AguiPlugin

OVER_HTTP = ("permission_denied", "not_found", "unavailable", "already_exists", "unauthenticated")
"""Codes of a refused start that are told over HTTP; every other refusal is told in the run's stream."""


class Mismatch(Refused):
    """The client's history is not the thread's."""

    def __init__(self) -> None:
        super().__init__("history_mismatch", "these messages are not the thread's as it is held here; load the thread again")


class Visit:
    """One request on a thread that its caller may read.

    Parameters:
        agent: the agent that it named.
        since: the last event that its client has.
        key: its Idempotency-Key.
    """

    def __init__(
        self, plugin: "AguiPlugin", place: Place, asked: RunInput, agent: str, since: EventPlace | None, key: str
    ) -> None:
        self._plugin, self._place, self._asked = plugin, place, asked
        self._agent, self._since, self._key = agent, since, key

    async def answer(self) -> "ASGIApp":
        """The answer's stream.

        Raises:
            TransomError: what is told over HTTP.
        """
        place, asked = self._place, self._asked
        try:
            return await self._answer()
        except Refused as error:
            if not asked.answers:
                await refuse(place, asked.said)
            messages: Messages = ()
            if isinstance(error, Mismatch):
                label = place.kernel.settings(place.tenant).ai_label
                messages = await messages_of(place, f"[{label}] " if label else "")
            return Told(refused(asked.thread, asked.run, error.message, error.code, raw=error.raw, messages=messages))
        except TransomError as error:
            if error.code in ("aborted", "permission_denied") and not asked.answers:
                await refuse(place, asked.said)
            raise

    async def _answer(self) -> "ASGIApp":
        place, asked = self._place, self._asked
        known = await self._known()
        if asked.answers:
            check_person(place)
        if self._since is not None and (known is None or (asked.answers and not is_again(known, asked))):
            raise not_of_this_turn()
        if asked.answers:
            run, again = await resume(place, asked, known, self._key)
            return await self._stream(run, again=again)
        if known is not None:
            return await self._again(known)
        facts = await facts_of(place, asked.said)
        what = course(asked, facts)
        if what == "mismatch" or (what == "follow" and place.latest is None):
            raise Mismatch
        if what == "follow" and place.latest is not None:
            return await self._stream(await self._follow(place.latest), again=True)
        return await self._new(refused_before=asked.said is not None and asked.said.id in facts.refused)

    async def _known(self) -> Run | None:
        """The run that was made under this ID before.

        Raises:
            TransomError: already_exists, when somebody else made it.
        """
        run = await self._place.kernel.store.get(self._place.tenant, Run, self._asked.thread, self._asked.run)
        if run is not None and (not is_ours(run) or kept_of(run).principal != self._place.caller.principal):
            raise self._conflict(run)
        return run

    def _conflict(self, run: Run) -> TransomError:
        return TransomError(
            "already_exists",
            f"runId: {run.run!r} is another run of this thread; use a new one",
            {"type": "oz0.runtime.v1.IdConflict", "reason": "oz0_id_conflict", "job": run.job},
        )

    async def _again(self, run: Run) -> "ASGIApp":
        """The same run again: it follows the same turn, and never starts another."""
        words, said = kept_of(run).words, self._asked.said
        if said is not None and said.id != f"{run.job}:in":
            same = await same_words(self._place, run.job, said) if words is None else words.are(said)
            if not same:
                raise self._conflict(run)
        return await self._stream(run, again=True)

    async def _stream(self, run: Run, *, again: bool) -> "ASGIApp":
        place, asked = self._place, self._asked
        if again and self._since is None:
            run = await self._as_it_stands(run)
        kept = kept_of(run)
        view = view_of(run, kept, place.tenant)
        messages = asked.messages if kept.again else ()
        return await stream(self._plugin.streams, self._plugin.rights, place, view, messages=messages, since=self._since)

    def _holds_answers(self) -> bool:
        """Whether the client has messages of the turn, which it would append to."""
        at = self._asked.said.at if self._asked.said else -1
        return any(message["role"] in ("assistant", "tool") for message in self._asked.messages[at + 1 :])

    async def _as_it_stands(self, run: Run) -> Run:
        """Whoever follows a run from its start is not stopped by what was decided since; its later reconnects neither."""
        place = self._place
        decided = tuple(wait.id for wait in await waits_of(place, [run.job]) if not wait.open)
        again, kept = self._holds_answers(), kept_of(run)
        if set(decided) == set(kept.decided) and again == kept.again:
            return run

        def write(tx: Tx) -> Run:
            current = tx.get(Run, run.conversation, run.run) or run
            return tx.update(current, view=packed(msgspec.structs.replace(kept_of(current), decided=decided, again=again)))

        return await place.kernel.store.transact(place.tenant, write)

    async def _follow(self, job: Job) -> Run:
        """A run that follows the latest turn from its start."""
        place, asked = self._place, self._asked
        board = await reads_tree(place, job)
        kept = keep(asked, place.caller, place.kernel.settings(place.tenant), board=board)

        def write(tx: Tx) -> Run:
            waits = tx.select(Wait, "tree", {"tree": job.tree}, limit=1_000)
            decided = tuple(wait.id for wait in waits if not wait.open)
            view = packed(msgspec.structs.replace(kept, decided=decided))
            run = Run(conversation=asked.thread, run=asked.run, job=job.id, start=0, created_at=tx.now, view=view)
            return run if tx.insert(run) else tx.get(Run, asked.thread, asked.run) or run

        return await place.kernel.store.transact(place.tenant, write)

    async def _new(self, *, refused_before: bool) -> "ASGIApp":
        """Begin a turn."""
        place, asked = self._place, self._asked
        assert asked.said is not None
        if place.latest is not None and place.latest.status not in ENDED:
            await self._refuse_waiting()
        agent = place.kernel.agent(place.tenant, self._agent)
        board = (await place.kernel.may(place.caller, place.tenant, "content.read")).ruling == "allow"
        kept = keep(asked, place.caller, place.kernel.settings(place.tenant), board=board)
        made = RunRequest(conversation=asked.thread, run=asked.run, view=packed(kept))
        request = StartJob(
            agent=self._agent,
            input=agent_input(asked.said.text, agent.input_schema if agent else None),
            conversation=asked.thread,
            client_message=asked.said.id,
            run=made,
        )
        try:
            started: JobAnswer = await place.kernel.call("StartJob", request, place.origin)
        except TransomError as error:
            run = await self._known() if error.code in ("aborted", "already_exists") else None
            if run is not None:  # the same run, a moment earlier
                return await self._again(run)
            await self._refuse_start(error)
            raise
        if refused_before:
            await accept(place, asked.said)
        run = Run(conversation=asked.thread, run=asked.run, job=started.job.id, start=0, created_at=0, view=made.view)
        return await self._stream(run, again=False)

    async def _refuse_start(self, error: TransomError) -> None:
        """Tell a refused start in the run's stream, unless it is told over HTTP."""
        if error.details.get("reason") == "turn_waiting":
            await self._refuse_waiting()
        if error.code not in OVER_HTTP and error.details.get("reason") != "turn_running":
            spend = spend_type(error.details)
            raise Refused(spend or error.code, error.message, error.details if spend else None) from error

    async def _refuse_waiting(self) -> None:
        """Refuse a new message while the turn waits; one that runs is left to the start to refuse."""
        place = self._place
        waits = await open_waits(place)
        if waits.mine and place.caller.is_person:
            raise Refused(
                "interrupts_pending",
                "the thread's turn waits for you: answer its interrupts with `resume` first",
                {"interrupts": shown(place, waits.mine, self._asked.protocol)},
            )
        told: list[WaitView] = [*waits.mine, *waits.others]
        if told or waits.partial:
            deciders = sorted({who(wait.rule, wait.kind) for wait in told})
            waiting: list[Json] = [waiting_for(waiting_of(wait), links(place)) for wait in told]
            raise Refused(
                "turn_waiting",
                f"the thread's turn waits for others to decide ({'; '.join(deciders)}); it goes on once they did",
                {"waiting": waiting},
            )

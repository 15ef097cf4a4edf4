"""Threads as they are held here: who may read one, how it stands, and the messages that were refused on it."""

from collections.abc import Iterable

import msgspec

from transom_hookspecs import (
    ENDED,
    Caller,
    Conversation,
    Index,
    Item,
    Job,
    JsonObject,
    Kernel,
    ListApprovals,
    Origin,
    Record,
    Run,
    TransomError,
    Tx,
    Wait,
    WaitPage,
    WaitView,
)

from .history import Thread, Turn
from .inputs import Said
from .interrupts import Waiting
from .messages import thread_messages
from .runs import Words, is_ours, kept_of
from .view import Messages

KEPT_REFUSALS, KEPT_FOR_MS = 50, 7 * 86_400_000
MOST_WAITS = 1_000
LOOKED_BACK = (20, 200, 1_000, 1_000)
"""How many items are looked through, page by page, for the last turn that sent something."""
SNAPSHOT_BYTES = 8_000_000
"""A client takes no event of more than 10 MB."""


class RefusedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A user message that was refused: its client goes on sending it, and it is not counted."""

    conversation: str
    caller: str
    id: str
    at: int


RECORDS: tuple[Record, ...] = (
    Record(
        type=RefusedMessage,
        key=("conversation", "caller", "id"),
        indexes=(Index("latest", ("conversation", "caller", "-at", "id")),),
        belongs=("conversation",),
    ),
)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a request is: its tenant, its caller, and its thread as it stands.

    Parameters:
        conversation: None while the thread has no turn.
        latest: its latest turn's job, while that is kept.
    """

    kernel: Kernel
    origin: Origin
    thread: str
    conversation: Conversation | None = None
    latest: Job | None = None

    @property
    def tenant(self) -> str:
        """The tenant's name."""
        return self.origin.tenant

    @property
    def caller(self) -> Caller:
        """Who asks."""
        return self.origin.caller

    @property
    def who(self) -> str:
        """Who asks, whatever app acts for her."""
        return f"{self.caller.kind}:{self.caller.id}"


async def find(kernel: Kernel, origin: Origin, thread: str) -> Place:
    """A thread, for who may read it; one that nobody began yet is anybody's to begin.

    Raises:
        TransomError: permission_denied.
    """
    store, tenant = kernel.store, origin.tenant
    conversation = await store.get(tenant, Conversation, thread)
    latest = await store.get(tenant, Job, conversation.job) if conversation is not None and conversation.job else None
    place = Place(kernel=kernel, origin=origin, thread=thread, conversation=conversation, latest=latest)
    if why := await unreadable(place):
        raise TransomError("permission_denied", f"threadId: {why}", {"thread": thread})
    return place


async def unreadable(place: Place) -> str:
    """Why the caller may not read the thread; empty when it may."""
    kernel, tenant, caller, conversation = place.kernel, place.tenant, place.caller, place.conversation
    job = place.latest
    identity = job.id if job is not None else ""
    for permission in ("feeds.read", "content.read"):
        verdict = await kernel.may(caller, tenant, permission, identity, job)
        if verdict.ruling != "allow":
            return f"you may not read this thread: {verdict.reason or permission}"
    if conversation is None or not conversation.owner or (caller.is_person and conversation.owner == place.who):
        return ""
    verdict = await kernel.may(caller, tenant, "conversations.continue", conversation.id)
    return "" if verdict.ruling == "allow" else "this thread is somebody else's"


async def reads_tree(place: Place, job: Job) -> bool:
    """Whether the caller may read the content of every job of a tree."""
    members = await place.kernel.store.select(place.tenant, Job, "tree", {"tree": job.tree}, limit=1_000)
    for member in members:
        verdict = await place.kernel.may(place.caller, place.tenant, "content.read", member.id, member)
        if verdict.ruling != "allow":
            return False
    return True


async def facts_of(place: Place, said: Said | None) -> Thread:
    """What the history of a request is checked against."""
    if place.conversation is None:
        return Thread(refused=await _refused(place))
    recent = await _recent(place)
    return Thread(
        turns=place.conversation.turns,
        recent=recent,
        refused=await _refused(place),
        same_words=said is not None and bool(recent) and await same_words(place, recent[0].job, said),
    )


async def _recent(place: Place) -> tuple[Turn, ...]:
    turns: dict[str, bool] = {}
    after: tuple[int, ...] | None = None
    for size in LOOKED_BACK:
        page = await place.kernel.store.select(
            place.tenant, Item, "latest", {"conversation": place.thread}, after=after, limit=size
        )
        for item in page:
            turns[item.job] = turns.get(item.job, False) or item.role != "user"
        # the latest turn is left out when it is followed, and the last turn of the page may go on in the next one
        if len(page) < size or any(list(turns.values())[1:-1]):
            break
        after = (page[-1].number,)
    return tuple(Turn(job=job, sent=sent) for job, sent in turns.items())


async def same_words(place: Place, job: str, said: Said) -> bool:
    """Whether a message is the one that began a turn; a turn that began elsewhere is known by what it was given."""
    store = place.kernel.store
    runs = await store.select(place.tenant, Run, "job", {"job": job}, limit=MOST_WAITS)
    words: Words | None = next((kept.words for kept in map(kept_of, filter(is_ours, runs)) if kept.words is not None), None)
    if words is not None:
        return words.are(said)
    items = await store.select(place.tenant, Item, "id", {"conversation": place.thread, "id": f"{job}:in"}, limit=1)
    return bool(items) and items[0].content == said.text


async def _refused(place: Place) -> frozenset[str]:
    found = await place.kernel.store.select(
        place.tenant, RefusedMessage, "latest", {"conversation": place.thread, "caller": place.who}, limit=KEPT_REFUSALS
    )
    since = place.kernel.clock.now() - KEPT_FOR_MS
    return frozenset(each.id for each in found if each.at > since)


async def refuse(place: Place, said: Said | None) -> None:
    """Remember a message that was refused."""
    if said is None:
        return

    def write(tx: Tx) -> None:
        if _is_turn(tx, place.thread, said):
            return
        tx.put(RefusedMessage(conversation=place.thread, caller=place.who, id=said.id, at=tx.now))
        where = {"conversation": place.thread, "caller": place.who}
        for old in tx.select(RefusedMessage, "latest", where, limit=2 * KEPT_REFUSALS)[KEPT_REFUSALS:]:
            tx.delete(RefusedMessage, old.conversation, old.caller, old.id)

    await place.kernel.store.transact(place.tenant, write)


def _is_turn(tx: Tx, thread: str, said: Said) -> bool:
    """Whether a message has begun a turn: it counts, whatever is refused about it now."""
    if tx.count(Item, "id", {"conversation": thread, "id": said.id}, limit=1):
        return True
    return any(item.client_id == said.id for item in tx.select(Item, "latest", {"conversation": thread}, limit=LOOKED_BACK[-1]))


async def accept(place: Place, said: Said) -> None:
    """A message that was refused before has become a turn."""
    who = place.who
    await place.kernel.store.transact(place.tenant, lambda tx: tx.delete(RefusedMessage, place.thread, who, said.id))


async def messages_of(place: Place, mark: str) -> Messages:
    """The thread's messages as they are held here, as many as one event may carry.

    A user message that is no longer kept stands there without its words, so that the client's count fits.
    """
    items: list[Item] = []
    size = 0
    while size < SNAPSHOT_BYTES:
        after = (items[-1].number,) if items else None
        page = await place.kernel.store.select(
            place.tenant, Item, "latest", {"conversation": place.thread}, after=after, limit=200
        )
        items += page
        size += sum(len(msgspec.json.encode(item)) for item in page)
        if len(page) < 200:
            break
    turns = place.conversation.turns if place.conversation is not None else 0
    gone = turns - sum(item.role == "user" for item in items)
    lost: list[JsonObject] = [{"id": f"gone-{i}:in", "role": "user", "content": "(no longer kept)"} for i in range(1, gone + 1)]
    return (*lost, *thread_messages(reversed(items), mark))


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """What the latest turn waits for, oldest first. `partial`: there is more than is read."""

    mine: tuple[WaitView, ...] = ()
    others: tuple[WaitView, ...] = ()
    partial: bool = False


async def open_waits(place: Place) -> Open:
    """The open waits of the latest turn's tree, apart by who may answer them; those past their deadline are over."""
    job = place.latest
    if job is None or job.status in ENDED:
        return Open()
    page: WaitPage = await place.kernel.call("ListApprovals", ListApprovals(job=job.tree, tree=True), place.origin)
    mine = tuple(wait for wait in page.waits if _is_mine(place, wait))
    others = tuple(wait for wait in page.waits if wait not in mine)
    return Open(mine=mine, others=others, partial=bool(page.cursor))


def _is_mine(place: Place, wait: WaitView) -> bool:
    if not place.caller.is_person:
        return True
    return wait.can_decide and all(vote.by != place.who for vote in wait.votes)


async def waits_of(place: Place, trees: Iterable[str]) -> list[Wait]:
    """All waits of trees, open or over."""
    found: list[Wait] = []
    for tree in trees:
        found += await place.kernel.store.select(place.tenant, Wait, "tree", {"tree": tree}, limit=MOST_WAITS)
    return found


def waiting_of(wait: Wait | WaitView) -> Waiting:
    """A wait's record as the encoder sees waits."""
    return Waiting(
        id=wait.id,
        job=wait.job,
        kind=wait.kind,
        token=wait.token,
        expires=wait.expires_at,
        opened=wait.opened_at,
        rule=wait.rule,
        message=wait.message,
        call=wait.call,
        function=wait.function,
        shown=wait.shown,
        schema=wait.schema,
        choices=wait.choices,
        voted=tuple(vote.by for vote in wait.votes),
    )

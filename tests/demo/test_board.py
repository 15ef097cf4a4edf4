"""The board: what may be pinned, what it supersedes, and who reads it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from transom_board import BoardPlugin
from transom_hookspecs import (
    KERNEL_RECORDS,
    Board,
    Caller,
    GetJobBoard,
    Job,
    NewNote,
    NotePinned,
    Origin,
    TransomError,
    Tree,
    Verdict,
)
from transom_testing.memory_store import MemoryStore

pytestmark = pytest.mark.anyio

ANNA = Caller(kind="person", id="anna", tenant="default")


def job_of(id: str = "root", tree: str = "root", **facts: Any) -> Job:
    given = {"agent": "planner", "caller": ANNA, "status": "running", "created_at": 1, **facts}
    return Job(id=id, tree=tree, definition="version:1", digest="", id_from="edge", token="t", **given)


class Desk:
    """A board on a store in memory, with a tree and its jobs."""

    def __init__(self, store: MemoryStore, plugin: BoardPlugin) -> None:
        self.store = store
        self.plugin = plugin
        (service,) = plugin.register_services()
        assert service.protocol is Board
        assert isinstance(service.provider, Board)
        self.board: Board = service.provider
        self.allowed: set[tuple[str, str]] = {("jobs.read", "root"), ("content.read", "root")}
        self.audited: list[Any] = []

    async def put(self, *records: Any) -> None:
        def write(tx: Any) -> None:
            for record in records:
                tx.put(record)

        await self.store.transact("default", write)

    async def pin(self, job: Job | None = None, call: str = "", **note: Any) -> NotePinned:
        return await self.store.transact("default", lambda tx: self.board.pin(tx, job or job_of(), NewNote(**note), call))

    async def may(self, caller: Caller, tenant: str, permission: str, object: str = "", job: Job | None = None) -> Verdict:
        assert (job.id if job is not None else object, caller, tenant) == (object, ANNA, "default")
        looks = job is None and permission in {allowed for allowed, _ in self.allowed}
        return Verdict(ruling="allow" if looks or (permission, object) in self.allowed else "deny")

    async def require(self, permission: str, object: str = "", job: Job | None = None) -> None:
        if (await self.may(ANNA, "default", permission, object, job)).ruling != "allow":
            raise TransomError("permission_denied", f"{permission} of {object}")

    async def audit(self, **entry: Any) -> None:
        self.audited.append(entry)

    async def read(self, id: str = "root") -> Any:
        (operation,) = self.plugin.register_operations()
        origin = Origin(tenant="default", caller=ANNA, door="rest")
        call = SimpleNamespace(origin=origin, audit=self.audit, require=self.require)
        async with self.plugin.run(self):
            return await operation.handler(call, GetJobBoard(id=id))


@asynccontextmanager
async def opened(**config: Any) -> AsyncIterator[Desk]:
    plugin, store = BoardPlugin(BoardPlugin.Config(**config)), MemoryStore()
    async with store.open([*KERNEL_RECORDS, *plugin.register_records()]):
        desk = Desk(store, plugin)
        await desk.put(Tree(id="root"), job_of())
        yield desk


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with opened() as desk:
        yield desk


async def refused(desk: Desk, **note: Any) -> TransomError:
    with pytest.raises(TransomError) as error:
        await desk.pin(**note)
    return error.value


# -- pinning


@pytest.mark.req("RT-38")
async def test_a_note_gets_the_trees_next_number_and_its_jobs_facts(desk):
    await desk.put(Tree(id="root", notes=6))
    job = job_of("child", agent="worker", labels=("legal",), taint=("agui",))
    event = await desk.pin(job, "call_1", text="It leaks.", kind="finding", tags=("roof", "rain"))
    assert event == NotePinned(
        job="child",
        id=7,
        kind="finding",
        text="It leaks.",
        agent="worker",
        tags=("roof", "rain"),
        tainted=True,
        labels=("legal",),
        call="call_1",
    )
    (note,) = (await desk.read()).notes
    assert (note.id, note.job, note.agent, note.text, note.kind, note.tags) == (
        7,
        "child",
        "worker",
        "It leaks.",
        "finding",
        ("roof", "rain"),
    )
    assert (note.tainted, note.labels) == (True, ("legal",))
    assert note.at > 0


async def test_numbers_count_from_one_in_each_tree(desk):
    await desk.put(Tree(id="other"))
    assert [(await desk.pin(text="x")).id for _ in range(3)] == [1, 2, 3]
    assert (await desk.pin(job_of("other", "other"), text="x")).id == 1


async def test_a_note_of_a_job_without_outside_input_is_not_tainted(desk):
    assert not (await desk.pin(text="x")).tainted


@pytest.mark.req("RT-38")
async def test_a_note_supersedes_another(desk):
    await desk.pin(text="first")
    await desk.pin(text="unrelated")
    assert (await desk.pin(text="second", supersedes=1)).supersedes == 1
    notes = (await desk.read()).notes
    assert [(note.id, note.supersedes, note.superseded_by) for note in notes] == [(1, 0, 3), (2, 0, 0), (3, 1, 0)]


@pytest.mark.parametrize("number", [2, 99, -1, 1 << 70])
async def test_only_a_note_of_the_board_can_be_superseded(desk, number):
    await desk.pin(text="first")
    error = await refused(desk, text="second", supersedes=number)
    assert (error.code, "no note" in error.message) == ("invalid_argument", True)
    assert len((await desk.read()).notes) == 1


async def test_a_note_is_superseded_once(desk):
    await desk.pin(text="first")
    await desk.pin(text="second", supersedes=1)
    error = await refused(desk, text="third", supersedes=1)
    assert error.code == "invalid_argument"
    assert "superseded by 2" in error.message
    assert (await desk.pin(text="third", supersedes=2)).id == 3


async def test_a_note_of_another_tree_cannot_be_superseded(desk):
    await desk.put(Tree(id="other"))
    await desk.pin(job_of("other", "other"), text="theirs")
    assert (await refused(desk, text="mine", supersedes=1)).code == "invalid_argument"


@pytest.mark.parametrize(
    ("note", "field"),
    [
        ({"text": ""}, "text"),
        ({"text": " \n"}, "text"),
        ({"text": "x" * 16_385}, "text"),
        ({"text": "é" * 8_193}, "text"),
        ({"text": "half \ud800"}, "text"),
        ({"text": "x", "kind": ""}, "kind"),
        ({"text": "x", "kind": "k" * 65}, "kind"),
        ({"text": "x", "kind": "a\nb"}, "kind"),
        ({"text": "x", "kind": "\ud800"}, "kind"),
        ({"text": "x", "tags": ("",)}, "tags"),
        ({"text": "x", "tags": ("t" * 65,)}, "tags"),
        ({"text": "x", "tags": ("a\x00",)}, "tags"),
        ({"text": "x", "tags": tuple("abcdefghijklmnopq")}, "tags"),
    ],
)
async def test_a_note_out_of_bounds_is_refused_by_field_and_leaves_nothing(desk, note, field):
    error = await refused(desk, **note)
    assert error.code == "invalid_argument"
    assert error.message.startswith(f"{field}: ")
    assert (await desk.pin(text="next")).id == 1


async def test_a_note_may_have_16_kib_16_tags_and_any_script(desk):
    await desk.pin(text="é" * 8_192, kind="дело", tags=tuple(f"標籤 {n}" for n in range(16)))
    assert len((await desk.read()).notes[0].text) == 8_192


async def test_a_tag_given_twice_is_one(desk):
    assert (await desk.pin(text="x", tags=("b", "a", "b"))).tags == ("b", "a")


async def test_a_full_board_takes_no_more(desk):
    await desk.put(Tree(id="root", notes=999))
    assert (await desk.pin(text="the last")).id == 1000
    error = await refused(desk, text="one more")
    assert (error.code, error.details["limit"]) == ("resource_exhausted", 1000)


async def test_the_limits_are_settings():
    async with opened(note_bytes=4, notes_per_tree=1) as desk:
        assert "at most 4" in (await refused(desk, text="12345")).message
        await desk.pin(text="1234")
        assert (await refused(desk, text="x")).code == "resource_exhausted"


async def test_a_tree_that_does_not_exist_has_no_board(desk):
    assert (await refused(desk, job=job_of("j", "nowhere"), text="x")).code == "not_found"


@given(st.lists(st.tuples(st.integers(-1, 8), st.sampled_from(["ok", "", "way too long"])), max_size=12))
async def test_whatever_is_pinned_each_note_has_at_most_one_successor_and_numbers_have_no_gap(pins):
    async with opened(note_bytes=6) as desk:
        for supersedes, text in pins:
            try:
                await desk.pin(text=text, supersedes=supersedes)
            except TransomError as error:
                assert error.code == "invalid_argument"  # noqa: PT017
        notes = (await desk.read()).notes
        assert [note.id for note in notes] == list(range(1, len(notes) + 1))
        for note in notes:
            assert [n.id for n in notes if n.supersedes == note.id] == [note.superseded_by] * bool(note.superseded_by)
            assert note.supersedes < note.id


# -- reading


@pytest.mark.req("RT-23")
async def test_without_the_right_to_content_a_board_has_no_words(desk):
    await desk.pin(text="secret", tags=("secret",), kind="finding")
    desk.allowed.remove(("content.read", "root"))
    board = await desk.read()
    assert not board.content
    assert [(note.id, note.kind, note.text, note.tags) for note in board.notes] == [(1, "finding", "", ())]


@pytest.mark.req("RT-23")
async def test_reading_words_is_audited_and_nothing_else_is(desk):
    await desk.read()
    assert desk.audited == []
    await desk.pin(text="x")
    await desk.read()
    assert desk.audited == [{"object": "root", "details": {"notes": 1}}]
    desk.allowed.remove(("content.read", "root"))
    await desk.read()
    assert len(desk.audited) == 1


async def test_the_audit_entry_is_a_board_read(desk):
    (operation,) = desk.plugin.register_operations()
    assert (operation.name, operation.audit, operation.permission) == ("GetJobBoard", "job.board.read", "jobs.read")
    assert operation.late


@pytest.mark.parametrize(("id", "code"), [("hidden", "permission_denied"), ("absent", "not_found")])
async def test_a_board_that_one_may_not_see_is_refused(desk, id, code):
    await desk.put(job_of("hidden", "hidden"))
    with pytest.raises(TransomError) as error:
        await desk.read(id)
    assert error.value.code == code


async def test_who_may_see_no_board_is_told_the_same_whether_it_is_there_or_not(desk):
    await desk.put(job_of("hidden", "hidden"))
    desk.allowed = set()
    said = []
    for id in ("hidden", "absent"):
        with pytest.raises(TransomError) as error:
            await desk.read(id)
        said.append((error.value.code, error.value.message.replace(id, "X")))
    assert said[0] == said[1]


async def test_a_childs_board_is_the_trees_and_its_words_need_a_right_to_the_root(desk):
    await desk.put(job_of("child"))
    await desk.pin(text="the root's")
    desk.allowed = {("jobs.read", "child"), ("content.read", "child")}
    assert (await desk.read("child")).notes[0].text == ""
    desk.allowed.add(("content.read", "root"))
    assert (await desk.read("child")).notes[0].text == "the root's"
    desk.allowed.remove(("content.read", "child"))
    assert (await desk.read("child")).notes[0].text == ""


async def test_a_long_board_is_read_whole_and_in_order(desk):
    for number in range(1, 451):
        await desk.pin(text=f"note {number}")
    assert [note.id for note in (await desk.read()).notes] == list(range(1, 451))


async def test_another_tenants_board_is_none(desk):
    await desk.store.transact("acme", lambda tx: tx.put(replace(job_of("theirs", "theirs"))))
    with pytest.raises(TransomError) as error:
        await desk.read("theirs")
    assert error.value.code == "not_found"

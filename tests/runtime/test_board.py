"""Notes on a tree's board: numbered over the tree, with who pinned them, and replaced by number."""

import pytest

from transom_hookspecs import Context, TransomError

pytestmark = pytest.mark.anyio

FUNCTION = "oz.board_write"


def notes_of(events) -> list[dict]:
    return [event for _, event in events if event["type"] == "note"]


async def pins(ctx: Context, input):
    first = await ctx.call(FUNCTION, {"text": "first", "kind": "finding", "tags": ["a", "b"]})
    await ctx.delegate("below")
    await ctx.call(FUNCTION, {"text": "third", "supersedes": 1})
    return first


async def below(ctx: Context, input):
    await ctx.call(FUNCTION, {"text": "second"})


@pytest.mark.req("RT-38")
async def test_a_note_gets_the_trees_next_number_and_says_whose_it_is(house) -> None:
    async with house(pins, below) as home:
        job = await home.ran("pins")
        assert job["status"] == "completed", job
        notes = notes_of(await home.events(job["id"]))
        assert [(n["id"], n["text"], n.get("kind", "note"), n.get("supersedes", 0)) for n in notes] == [
            (1, "first", "finding", 0),
            (2, "second", "note", 0),
            (3, "third", "note", 1),
        ]
        assert [(n["job"], n["agent"]) for n in notes] == [
            (job["id"], "pins"),
            (job["children"][0], "below"),
            (job["id"], "pins"),
        ]
        assert notes[0]["tags"] == ["a", "b"]
        assert not any(n.get("tainted") for n in notes)


BAD = {
    "no text": {},
    "text that is none": {"text": 1},
    "an unknown field": {"text": "x", "colour": "red"},
    "more than 16 KiB": {"text": "x" * 16_385},
    "a note that is not there": {"text": "x", "supersedes": 99},
    "a negative note": {"text": "x", "supersedes": -1},
}


@pytest.mark.req("RT-38")
@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
async def test_a_note_that_will_not_do_is_refused_and_takes_no_number(house, arguments) -> None:
    async def tries(ctx: Context, input):
        try:
            await ctx.call(FUNCTION, arguments)
        except TransomError as error:
            await ctx.call(FUNCTION, {"text": "fine"})
            return error.code

    async with house(tries) as home:
        job = await home.ran("tries")
        assert job["output"] == "invalid_argument"
        assert [(n["id"], n["text"]) for n in notes_of(await home.events(job["id"]))] == [(1, "fine")]


@pytest.mark.req("RT-38")
async def test_notes_pinned_at_once_have_numbers_without_a_gap(house) -> None:
    async def many(ctx: Context, input):
        return await ctx.together(*[lambda b, n=n: b.call(FUNCTION, {"text": f"no {n}"}) for n in range(12)])

    async with house(many) as home:
        notes = notes_of(await home.events((await home.ran("many"))["id"]))
        assert [n["id"] for n in notes] == list(range(1, 13))
        assert len({n["text"] for n in notes}) == 12


@pytest.mark.req("RT-38")
async def test_a_note_is_there_after_a_restart_and_not_pinned_again(house, tmp_path) -> None:
    async def pins_and_asks(ctx: Context, input):
        number = await ctx.call(FUNCTION, {"text": "once"})
        await ctx.ask("Go on?")
        return number

    async with house(pins_and_asks, data=str(tmp_path / "d")) as home:
        await home.started("pins_and_asks", id="one")
        await home.events("one", until="tree.waiting")
    async with house(pins_and_asks, data=str(tmp_path / "d")) as home:
        (wait,) = await home.waits()
        await home.post(f"/v1/approvals/{wait['id']}/answer", json={"answer": "yes"})
        job = await home.until("one")
        assert job["status"] == "completed"
        assert len(notes_of(await home.events("one"))) == 1

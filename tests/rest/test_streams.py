"""A job's events over HTTP: through a real application and a client that streams."""

import asyncio
import time

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transom_doors.streams import Stream
from transom_hookspecs import Caller, JobEnded, JobStarted, Text, TransomError, WatchJob
from transom_rest.encode import JobEncoder
from transom_testing.streaming import sse

pytestmark = pytest.mark.anyio

ANNA = Caller(kind="person", id="anna", tenant="default")
STARTED = JobStarted(job="j1", agent="echo", caller=ANNA)
ENDED = JobEnded(job="j1", status="completed", output="done")


def text(delta, job="j1"):
    return Text(job=job, message=f"{job}:1", delta=delta)


async def whole(client, url="/v1/jobs/j1/events", after=""):
    response = await client.get(url, headers={"last-event-id": after} if after else {})
    assert response.status_code == 200, response.text
    return response.content


async def settled(condition):
    """Wait a moment for something to become true."""
    with anyio.fail_after(5):
        while not condition():
            await anyio.sleep(0.001)


@pytest.mark.req("REST-5", "RT-18")
async def test_events_come_as_they_happen_and_the_stream_ends_with_the_job(client, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED)
    async with client.stream("GET", "/v1/jobs/j1/events?tenant=acme") as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in response.headers
        events = sse(response)
        assert (await anext(events)).event == "job.started"
        kernel.append("j1", text("a"))
        assert (await anext(events)).id == "2-t0k"
        kernel.append("j1", text("b"), ENDED)
        assert [e.event async for e in events] == ["text", "job.ended"]
    assert kernel.following == []
    assert kernel.calls[0][1:] == (WatchJob(id="j1"), kernel.calls[0][2])
    assert kernel.calls[0][2].tenant == "acme"


async def test_lines_end_in_lf_alone_and_an_event_has_one_data_line(client, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED, text("a\r\nb\rc\nd"), ENDED)
    content = await whole(client)
    assert b"\r" not in content
    assert content.count(b"\ndata: ") == content.count(b"\nevent: ") == content.count(b"\n\n") == 3


async def test_all_that_is_ready_is_one_write(client, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED, *[text("x")] * 30, ENDED)
    async with client.stream("GET", "/v1/jobs/j1/events") as response:
        chunks = [chunk async for chunk in response.aiter_raw()]
    assert len(chunks) == 1


@pytest.mark.req("RT-18")
async def test_a_stream_resumed_at_every_id_gives_what_came_after_byte_for_byte(client, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED, *[text(str(n)) for n in range(70)], ENDED)
    uncut = await whole(client)
    frames = [frame + b"\n\n" for frame in uncut.split(b"\n\n")[:-1]]
    for at, frame in enumerate(frames):
        after = frame.split(b"\n")[0][4:].decode()
        assert await whole(client, after=after) == b"".join(frames[at + 1 :])


@pytest.mark.req("RT-18")
async def test_a_childs_stream_is_its_own_and_its_childrens_and_resumes_too(client, kernel):
    kernel.add("j1")
    kernel.add("c", "j1", token="child")
    kernel.append("j1", STARTED, JobStarted(job="c", agent="a", caller=ANNA, parent="j1"), text("no"), text("1", "c"))
    kernel.append(
        "j1", JobStarted(job="d", agent="a", caller=ANNA, parent="c"), text("2", "d"), JobEnded(job="d", status="failed")
    )
    kernel.append("j1", text("no"), JobEnded(job="c", status="completed"), text("no"), ENDED)
    uncut = await whole(client, "/v1/jobs/c/events")
    ids = [line[4:] for line in uncut.decode().split("\n") if line.startswith("id: ")]
    assert ids == ["2-child", "4-child", "5-child", "6-child", "7-child", "9-child"]
    frames = [frame + b"\n\n" for frame in uncut.split(b"\n\n")[:-1]]
    for at, id in enumerate(ids):
        assert await whole(client, "/v1/jobs/c/events", after=id) == b"".join(frames[at + 1 :])


@given(st.data())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cuts_at_random_places_lose_nothing_and_repeat_nothing(make_fake, door, data):
    """A client that is cut off again and again, while the log grows, has the uncut stream in the end."""
    deltas = data.draw(st.lists(st.text(max_size=3), min_size=1, max_size=12))
    cuts = data.draw(st.lists(st.integers(1, 4), max_size=8))

    async def scenario():
        kernel = make_fake()
        kernel.add("j1")
        kernel.append("j1", STARTED)
        got, last = [], ""
        async with door(kernel) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(grow, kernel)
            for events_until_cut in (*cuts, 1000):
                left = events_until_cut
                async with client.stream(
                    "GET", "/v1/jobs/j1/events", headers={"last-event-id": last} if last else {}
                ) as response:
                    events = sse(response)
                    while left and (event := await anext(events, None)):
                        got.append((event.id, event.data))
                        last, left = event.id, left - 1
            uncut = [(e.id, e.data) async for e in sse(await client.get("/v1/jobs/j1/events"))]
        assert got == uncut
        assert kernel.following == []

    async def grow(kernel):
        for delta in deltas:
            kernel.append("j1", text(delta))
            await anyio.sleep(0)
        kernel.append("j1", ENDED)

    anyio.run(scenario)


@pytest.mark.req("REST-5")
@pytest.mark.parametrize("id", ["abc", "-1", "999999", "5", "1-other", "99-t0k", "1-child", "", "1-t0k\xe9"])
async def test_a_last_event_id_that_is_not_this_jobs_is_refused_and_nothing_is_read(client, kernel, id):
    kernel.add("j1")
    kernel.add("c", "j1", token="child")
    kernel.append("j1", STARTED, text("a"))
    response = await client.get("/v1/jobs/j1/events", headers=[(b"last-event-id", id.encode("latin-1"))])
    assert (response.status_code, response.json()["code"]) == (400, "invalid_argument")
    assert kernel.read == 0


async def test_a_stream_that_may_not_be_followed_is_refused_before_it_starts(client, kernel):
    kernel.answers["WatchJob"] = TransomError("permission_denied", "no")
    response = await client.get("/v1/jobs/j1/events")
    assert (response.status_code, response.headers["content-type"]) == (403, "application/json")
    assert (await client.get("/v1/jobs/j2/events", headers={"last-event-id": "1-x"})).status_code == 403


@pytest.mark.req("FEED-6")
async def test_a_slow_reader_is_waited_for_and_holds_back_no_other(door, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED)
    async with door(kernel) as client, client.stream("GET", "/v1/jobs/j1/events") as slow:
        reader = sse(slow)
        await anext(reader)
        kernel.append("j1", *[text("x" * 1000) for _ in range(3000)], ENDED)
        await anyio.sleep(0.02)
        assert kernel.read < 400  # of 3,002: less than 256 KiB and a batch ahead
        fast = await whole(client)
        assert fast.count(b"\n\n") == 3002
        assert kernel.read < 400 + 3002
        assert len([e async for e in reader]) == 3001


@pytest.mark.req("FEED-6")
async def test_one_write_is_bounded_however_much_is_ready(door, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED, *[text("x" * 20_000) for _ in range(45)], ENDED)
    async with door(kernel) as client, client.stream("GET", "/v1/jobs/j1/events") as response:
        sizes = [len(chunk) async for chunk in response.aiter_raw()]
    assert max(sizes) < 192 * 1024
    assert len(sizes) > 4


async def test_a_client_that_leaves_releases_everything_at_once(client, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED)
    async with client.stream("GET", "/v1/jobs/j1/events") as response:
        await anext(sse(response))
        assert (kernel.following, len(client.streams)) == (["j1"], 1)
    assert (kernel.following, len(client.streams)) == ([], 0)


async def test_a_reader_that_leaves_while_it_is_waited_for_releases_everything(door, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED, *[text("x" * 1000) for _ in range(1000)])
    async with door(kernel, bound=1000) as client:
        async with client.stream("GET", "/v1/jobs/j1/events"):
            await settled(lambda: kernel.read)
            await anyio.sleep(0.005)
        assert (kernel.following, len(client.streams)) == ([], 0)


async def test_clients_that_leave_before_the_first_byte_leave_nothing_behind(client, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED)
    kernel.slow = 2
    before = len(asyncio.all_tasks())
    for n in range(1000):
        with anyio.CancelScope() as scope:
            asyncio.get_running_loop().call_soon(later, n % 12, scope.cancel)
            async with client.stream("GET", "/v1/jobs/j1/events"):
                scope.cancel()
    await settled(lambda: len(asyncio.all_tasks()) == before)
    assert (kernel.following, len(client.streams)) == ([], 0)
    assert len(kernel.heads) > 900


def later(turns, call):
    """Call something after so many turns of the loop."""
    asyncio.get_running_loop().call_soon(*((later, turns - 1, call) if turns else (call,)))


@pytest.mark.req("FEED-4")
async def test_a_silent_stream_gets_comments_and_a_busy_one_does_not(door, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED)
    async with door(kernel, ping=0.06) as client, client.stream("GET", "/v1/jobs/j1/events") as response:
        chunks = response.aiter_raw()
        assert (await anext(chunks)).startswith(b"id: 1-")
        begun = time.monotonic()
        assert [await anext(chunks), await anext(chunks)] == [b": ping\n\n"] * 2
        assert 0.11 < time.monotonic() - begun < 0.6
        for _ in range(10):
            kernel.append("j1", text("x"))
            assert (await anext(chunks)).startswith(b"id: ")
            await anyio.sleep(0.01)
        kernel.append("j1", ENDED)
        assert b"job.ended" in b"".join([chunk async for chunk in chunks])


async def test_a_reader_that_takes_nothing_gets_no_heap_of_comments(door, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED, text("x" * 2000))
    async with door(kernel, ping=0.01, bound=1000) as client:
        before = len(asyncio.all_tasks())
        async with client.stream("GET", "/v1/jobs/j1/events") as response:
            await anyio.sleep(0.2)
            assert len(asyncio.all_tasks()) <= before + 3  # the application's, its watch for a disconnect, one comment
            kernel.append("j1", ENDED)
            content = b"".join([chunk async for chunk in response.aiter_raw()])
    assert content.count(b": ping\n\n") <= 2
    assert content.count(b"\nevent: ") == 3


async def test_a_reader_that_does_not_take_the_end_stops_no_other_streams_comments(door, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED, text("x" * 2000), ENDED)
    kernel.add("j2")
    async with (
        door(kernel, ping=0.01, bound=1000) as client,
        client.stream("GET", "/v1/jobs/j1/events") as stuck,
        client.stream("GET", "/v1/jobs/j2/events") as idle,
    ):
        await anyio.sleep(0.1)
        assert len(client.streams) == 2
        comments = idle.aiter_raw()
        with anyio.fail_after(2):
            assert [await anext(comments) for _ in range(20)] == [b": ping\n\n"] * 20
        content = b"".join([chunk async for chunk in stuck.aiter_raw()])
    assert (content.count(b"\nevent: "), content.count(b": ping")) == (3, 0)


@pytest.mark.req("FEED-4")
async def test_a_stream_ends_cleanly_after_its_lifetime_and_goes_on_where_it_was(door, kernel):
    kernel.add("j1")
    kernel.append("j1", STARTED)
    async with door(kernel, stream=0.1) as client:
        with anyio.fail_after(2):
            async with client.stream("GET", "/v1/jobs/j1/events") as response:
                events = [event async for event in sse(response)]
        assert [e.id for e in events] == ["1-t0k"]
        kernel.append("j1", ENDED)
        assert (await whole(client, after="1-t0k")).startswith(b"id: 2-t0k")


async def test_at_shutdown_streams_end_at_once_and_cleanly(kernel, door):
    kernel.add("j1")
    kernel.append("j1", STARTED)
    ends = []

    async def follow():
        async with client.stream("GET", "/v1/jobs/j1/events") as response:
            ends.append(([e.id async for e in sse(response)], time.monotonic()))

    async with door(kernel) as client, anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(follow)
        await settled(lambda: len(client.streams) == 20)
        begun = time.monotonic()
        await client.shutdown()
        assert len(client.streams) == 0
    assert [ids for ids, _ in ends] == [["1-t0k"]] * 20
    assert max(at for _, at in ends) - begun < 0.5


async def test_a_stream_that_comes_into_the_shutdown_still_has_a_head_and_an_end(kernel, door, job_view):
    sent = []

    async def send(message):
        await anyio.sleep(0)
        sent.append(message["type"])

    async with door(kernel) as client:
        await client.shutdown()
        with anyio.fail_after(2):
            await Stream(client.streams, lambda: kernel.watch("default", "j1"), JobEncoder(job_view()))(
                {}, anyio.sleep_forever, send
            )
    assert sent == ["http.response.start", "http.response.body"]


async def test_a_stuck_reader_holds_a_shutdown_for_a_second_at_most(kernel, door):
    kernel.add("j1")
    kernel.append("j1", STARTED, *[text("x" * 1000) for _ in range(1000)])
    async with door(kernel, bound=1000) as client, client.stream("GET", "/v1/jobs/j1/events") as response:
        await settled(lambda: kernel.following)
        begun = time.monotonic()
        await client.shutdown()
        assert time.monotonic() - begun < 1.5
        with pytest.raises(RuntimeError, match="before its response was complete"):
            assert [chunk async for chunk in response.aiter_raw()]


async def test_a_request_after_the_shutdown_is_refused(kernel, door):
    async with door(kernel) as client:
        await client.shutdown()
        response = await client.get("/v1/jobs/j1/events")
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")


async def test_a_log_that_breaks_ends_the_stream_and_is_logged(client, kernel, caplog):
    kernel.add("j1")
    kernel.append("j1", STARTED)

    async def broken(tenant, tree, after=0):
        yield kernel.logs[tree]
        raise ValueError("the disk is gone")

    kernel.watch = broken
    content = await whole(client)
    assert content.startswith(b"id: 1-t0k")
    assert "the disk is gone" in caplog.text
    assert len(client.streams) == 0

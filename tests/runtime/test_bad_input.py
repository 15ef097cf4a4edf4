"""What cannot be started is refused in clear words, and leaves nothing behind."""

import json
from urllib.parse import quote

import pytest

from transom_hookspecs import Agent, Context, Job

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {
        "repo": {"type": "string"},
        "pr": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["repo", "pr"],
    "additionalProperties": False,
}


async def say(ctx: Context, input):
    return "said"


STRICT = Agent(name="strict", run=say, input_schema=SCHEMA)
JSON = {"Content-Type": "application/json"}


async def nothing_is_left(home) -> None:
    """No job, no event, no conversation, no audit entry of a start, in no tenant."""
    assert await home.jobs() == []
    assert await home.jobs("acme_key", tenant="acme") == []
    assert await home.audited("run.start") == 0


async def refused(home, answer, status: int, code: str, *words: str) -> dict:
    """Check a refusal, and that it left nothing."""
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    for word in words:
        assert word in answer.json()["message"], answer.text
    assert "Traceback" not in answer.text
    await nothing_is_left(home)
    return answer.json()


BODIES = {
    "no JSON": (b"{repo:", JSON, 400, "JSON"),
    "half an object": (b'{"repo": "a"', JSON, 400, "JSON"),
    "two values": (b"1 2", JSON, 400, "JSON"),
    "NaN": (b"NaN", JSON, 400, "JSON"),
    "bytes that are no UTF-8": (b'"\xff"', JSON, 400, "UTF-8"),
    "half a surrogate pair": (rb'"\ud800"', JSON, 400, "surrogate"),
    "half a pair as a key": (rb'{"\udc00": 1}', JSON, 400, "surrogate"),
    "text that is no UTF-8": (b"\xff", {"Content-Type": "text/plain"}, 400, "UTF-8"),
    "101 levels of lists": (b"[" * 101 + b"]" * 101, JSON, 400, "levels"),
    "a million open lists": (b"[" * 1_000_000, JSON, 400, ""),
    "a million open objects": (b'{"a":' * 600_000, JSON, 400, ""),
    "gzip": (b'"x"', {**JSON, "Content-Encoding": "gzip"}, 415, "Content-Encoding"),
    "a form": (b"a=1", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "Content-Type"),
    "another charset": (b'"x"', {"Content-Type": "application/json; charset=utf-16"}, 415, "Content-Type"),
    "more than 4 MiB": (b'"' + b"x" * (4 * 1024 * 1024) + b'"', JSON, 413, "4,194,304"),
}


@pytest.mark.req("REST-1", "RT-3")
@pytest.mark.parametrize(("body", "headers", "status", "word"), BODIES.values(), ids=BODIES)
async def test_a_body_that_is_none_is_refused(house, body, headers, status, word) -> None:
    async with house(say) as home:
        answer = await home.post("/v1/agents/say/jobs?id=one", content=body, headers=headers)
        await refused(home, answer, status, "invalid_argument", word)
        assert (await home.get("/v1/jobs/one")).status_code == 404


async def test_a_body_in_pieces_is_counted_too(house) -> None:
    async def pieces():
        yield b'"'
        for _ in range(70):
            yield b"x" * 65_536

    async with house(say) as home:
        answer = await home.post("/v1/agents/say/jobs", content=pieces(), headers=JSON)
        await refused(home, answer, 413, "invalid_argument")


async def test_100_levels_and_4_mib_are_taken(house) -> None:
    async with house(say) as home:
        deep = await home.post("/v1/agents/say/jobs", content=b"[" * 100 + b"]" * 100, headers=JSON)
        assert deep.status_code == 201, deep.text
        large = b'"' + b"x" * (4 * 1024 * 1024 - 2) + b'"'
        assert (await home.post("/v1/agents/say/jobs", content=large, headers=JSON)).status_code == 201


MISFITS = {
    "missing": ({"repo": "a"}, "pr"),
    "wrong type": ({"repo": "a", "pr": "1"}, "pr"),
    "a number that is no integer": ({"repo": "a", "pr": 1.5}, "pr"),
    "a bool is no integer": ({"repo": "a", "pr": True}, "pr"),
    "too small": ({"repo": "a", "pr": 0}, "pr"),
    "unknown field": ({"repo": "a", "pr": 1, "x": 1}, "x"),
    "deep": ({"repo": "a", "pr": 1, "tags": ["a", 2]}, "tags"),
    "text": ("hello", "object"),
    "null": (None, "object"),
}


@pytest.mark.req("RT-3")
@pytest.mark.parametrize(("value", "where"), MISFITS.values(), ids=MISFITS)
async def test_an_input_that_misses_the_schema_is_refused_saying_what_and_where(house, value, where) -> None:
    async with house(STRICT) as home:
        answer = await home.start("strict", value, id="one", conversation="c1")
        body = await refused(home, answer, 400, "invalid_argument", "input", where)
        assert len(body["message"]) < 600
        fine = await home.start("strict", {"repo": "a", "pr": 1}, id="one", conversation="c1")
        assert fine.status_code == 201, "the refused start left something"


@pytest.mark.req("RT-3")
async def test_a_misfit_does_not_repeat_a_long_input(house) -> None:
    async with house(STRICT) as home:
        answer = await home.start("strict", {"repo": "a", "pr": "x" * 100_000})
        assert answer.status_code == 400
        assert len(answer.content) < 3000


IDS = ["a/b", "/", "a\\b", 'a"b', "a\nb", "a\x00b", "a\x7fb", "a\x80b", "a\x9fb", "a\u2028b", "a\u2029b", "\t", "x" * 201]


@pytest.mark.req("RT-5")
@pytest.mark.parametrize("identity", IDS, ids=ascii)
async def test_an_id_may_not_hold_what_breaks_a_path_a_line_or_a_quote(house, identity) -> None:
    async with house(say) as home:
        answer = await home.start("say", "x", id=identity)
        await refused(home, answer, 400, "invalid_argument", "id")


@pytest.mark.req("RT-5")
@pytest.mark.parametrize("escaped", ["%ED%A0%80", "%ED%B0%80", "%FF", "%C0%AF"])
async def test_an_id_that_is_no_unicode_text_is_refused(house, escaped) -> None:
    async with house(say) as home:
        answer = await home.post(f"/v1/agents/say/jobs?id=a{escaped}", json="x")
        await refused(home, answer, 400, "invalid_argument")


@pytest.mark.req("RT-5", "RT-6", "REST-2", "REST-5")
@pytest.mark.parametrize(
    "identity", ["über", "a b", "a%b", "a?b#c", "..", "日本🦀", "a'b", "events", "x" * 200, "-", "a;b=c,d", "+"]
)
async def test_any_other_id_is_taken_and_found_again_on_every_route(house, identity) -> None:
    async with house(say) as home:
        answer = await home.start("say", "x", id=identity)
        assert (answer.status_code, answer.json()["id"]) == (201, identity)
        path = "/v1/jobs/" + (quote(identity, safe="") if identity != ".." else "%2E%2E")
        with_end = None
        for _ in range(400):
            with_end = await home.get(path)
            if with_end.json().get("status") == "completed":
                break
        assert with_end.status_code == 200, with_end.text
        assert with_end.json()["id"] == identity
        for route in ("trace", "wait"):
            assert (await home.get(f"{path}/{route}")).status_code == 200
        assert (await home.post(f"{path}/cancel", json={})).json()["status"] == "completed"


@pytest.mark.req("RT-9")
@pytest.mark.parametrize("key", ["", "k" * 129, "\u00fc", "a b", " ", "a\tb", "\x7f"], ids=ascii)
async def test_a_key_that_is_none_is_refused(house, key) -> None:
    async with house(say) as home:
        headers = [("Idempotency-Key", key.encode("latin-1"))]
        answer = await home.post("/v1/agents/say/jobs", json="x", headers=headers)
        await refused(home, answer, 400, "invalid_argument", "Idempotency-Key", "128")


@pytest.mark.req("RT-9")
@pytest.mark.parametrize("key", ["k" * 128, "!", "~", '"k"', "a/b\\c"])
async def test_any_1_to_128_visible_characters_are_a_key(house, key) -> None:
    async with house(say) as home:
        assert (await home.start("say", "x", key=key)).status_code == 201
        assert (await home.start("say", "x", key=key)).status_code == 200


@pytest.mark.req("RT-4")
@pytest.mark.parametrize("agent", ["nobody", "SAY", "say ", "s%61y%00", "x" * 300])
async def test_an_unknown_agent_is_not_found(house, agent) -> None:
    async with house(say) as home:
        answer = await home.post(f"/v1/agents/{agent}/jobs?id=one&conversation=c1", content=b"{", headers=JSON)
        assert answer.status_code in (400, 404), answer.text
        answer = await home.post(f"/v1/agents/{agent}/jobs?id=one&conversation=c1", json="x")
        await refused(home, answer, 404, "not_found")


@pytest.mark.req("RT-4")
async def test_an_unknown_agent_and_a_missing_right_come_before_the_schema(house) -> None:
    async with house(STRICT) as home:
        assert (await home.start("nobody", {"wrong": 1}, who="echo_key")).status_code in (403, 404)
        assert (await home.start("strict", {"wrong": 1}, who="echo_key")).status_code == 403
        assert (await home.start("strict", {"wrong": 1}, who="rita")).status_code == 403
        assert (await home.start("strict", {"wrong": 1}, who="anna")).status_code == 400
        await nothing_is_left(home)


@pytest.mark.req("REST-9", "RT-2")
@pytest.mark.parametrize("tenant", ["", "default"])
async def test_an_absent_or_empty_tenant_is_default(house, tenant) -> None:
    async with house(say) as home:
        job = await home.started("say", "x", tenant=tenant)
        assert job in await home.jobs()
        assert (await home.get(f"/v1/jobs/{job}?tenant={tenant}")).status_code == 200


@pytest.mark.req("REST-9", "IDN-8")
@pytest.mark.parametrize("who", ["anna", "omar", "ada", "rita", "key", "echo_key"])
@pytest.mark.parametrize("tenant", ["acme", "nowhere"])
async def test_another_tenant_and_one_that_is_not_there_look_alike(house, who, tenant) -> None:
    async with house(say) as home:
        await home.started("say", "x", "acme_key", tenant="acme", id="theirs")
        await home.started("say", "x", id="ours")
        answers = [
            await home.start("say", "x", who, tenant=tenant),
            *[
                await home.get(f"/v1/jobs{path}", who, params={"tenant": tenant})
                for path in ("", "/theirs", "/theirs/events", "/ours", "/theirs/trace")
            ],
            await home.post("/v1/jobs/theirs/cancel", who, json={}, params={"tenant": tenant}),
            await home.get("/v1/agents", who, params={"tenant": tenant}),
            await home.get("/v1/approvals", who, params={"tenant": tenant}),
        ]
        assert {a.status_code for a in answers} == {403}
        assert {a.json()["code"] for a in answers} == {"permission_denied"}
        assert {a.json()["message"].replace(tenant, "T") for a in answers} == {"no access to tenant 'T'"}
        missing = 403 if who == "echo_key" else 404  # a scoped key is told the same of jobs of other agents and of none
        assert (await home.get("/v1/jobs/theirs", who)).status_code == missing
        assert await home.jobs("acme_key", tenant="acme") == ["theirs"]


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer x", "Basic YTpi", "Bearer \xe9", "bearer  "])
async def test_no_valid_credential_is_unauthenticated_before_anything_is_read(house, header) -> None:
    async with house(say) as home:
        headers = [] if header is None else [("Authorization", header.encode("latin-1"))]

        async def body():
            raise AssertionError("the body was read")
            yield b""

        answer = await home.post("/v1/agents/say/jobs", "nobody", content=body(), headers=headers)
        await refused(home, answer, 401, "unauthenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")


OPTIONS = {
    "timeout without unit": {"timeout": "900"},
    "timeout in minutes": {"timeout": "15m"},
    "timeout 0": {"timeout": "0s"},
    "negative timeout": {"timeout": "-1s"},
    "timeout nan": {"timeout": "nans"},
    "an empty tag": {"tags": "a,,b"},
    "a tag with a line break": {"tags": "a\nb"},
    "a tag of 101 characters": {"tags": "x" * 101},
    "51 tags": {"tags": ",".join(f"t{n}" for n in range(51))},
    "an option that is not there": {"colour": "red"},
    "a conversation with a /": {"conversation": "a/b"},
    "a conversation with a control character": {"conversation": "a\x00b"},
}


@pytest.mark.req("RT-2")
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
async def test_an_option_that_will_not_do_is_refused_by_name(house, options) -> None:
    async with house(say) as home:
        await refused(home, await home.start("say", "x", id="one", **options), 400, "invalid_argument", next(iter(options)))


@pytest.mark.req("RT-2", "RT-13", "REST-2")
async def test_what_a_start_takes_is_what_the_job_shows(house) -> None:
    async with house(say) as home:
        answer = await home.start(
            "say", {"a": 1}, tags="x,y", team="blue", conversation="c1", timeout="900s", budget="b", data_subjects="p1,p2"
        )
        job = await home.until(answer.json()["id"])
        assert (job["tags"], job["team"], job["conversation"], job["turn"]) == (["x", "y"], "blue", "c1", 1)
        record = await home.kernel.store.get("default", Job, job["id"])
        assert (record.budget, record.data_subjects) == ("b", ("p1", "p2"))
        assert record.deadline - record.created_at == 900_000


@pytest.mark.req("REST-1")
async def test_a_text_input_may_come_as_text(house) -> None:
    async def same(ctx: Context, input):
        return input

    async with house(same) as home:
        text = "línea\r\n{not json"
        answer = await home.post(
            "/v1/agents/same/jobs", content=text.encode(), headers={"Content-Type": "text/plain; charset=UTF-8"}
        )
        assert (await home.until(answer.json()["id"]))["output"] == text
        value = {"a": [1, 2.5, None, True, "ü🦀"], "": {}, "n": 9007199254740993}
        answer = await home.post("/v1/agents/same/jobs", content=json.dumps(value), headers=JSON)
        assert (await home.until(answer.json()["id"]))["output"] == value


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/jobs/none", 404), ("/v1/jobs/none/events", 404), ("/v1/jobs/none/wait", 404), ("/v1/nothing", 404)],
)
async def test_what_is_not_there_is_404_in_json(house, path, status) -> None:
    async with house(say) as home:
        answer = await home.get(path)
        assert (answer.status_code, answer.json()["code"]) == (status, "not_found")


async def test_a_method_that_is_not_there_is_405_in_json(house) -> None:
    async with house(say) as home:
        answer = await home.client.delete("/v1/jobs/x", headers=home.headers("anna"))
        assert (answer.status_code, answer.json()["code"]) == (405, "unimplemented")

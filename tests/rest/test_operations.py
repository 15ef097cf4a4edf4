"""Any operation by its name: its fields in, its answer's fields out, and nothing else."""

from typing import Literal

import msgspec
import pytest

from transom_hookspecs import JobPage, ListJobs, Operation, PublishEvent, Rule, StartJob, TransomError

pytestmark = pytest.mark.anyio


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A value with a name of its own."""

    name: str
    at: int = 0


class Narrow(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="narrow"):
    """One of two kinds."""

    by: str


class Wide(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="wide"):
    """The other."""

    rules: tuple[Rule, ...] = ()


class PutThings(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """A request of a plugin's operation."""

    settings: list[Setting] = []
    by_name: dict[str, Setting] = {}
    one: Setting | None = None
    pair: tuple[str, Setting] | None = None
    kind: Narrow | Wide | None = None
    level: Literal["low", "high"] = "low"
    from_: str = ""
    key: bytes = b""
    anything: msgspec.Raw | dict[str, object] = {}


class Things(msgspec.Struct, frozen=True, kw_only=True):
    """Its answer."""

    made_at: int
    key: bytes = b""
    settings: tuple[Setting, ...] = ()


async def never(call, request):
    raise AssertionError("the kernel of these tests calls no handler")


OPERATION = Operation(name="ThingsPut", request=PutThings, response=Things, permission="things.write", handler=never)


@pytest.fixture
def kernel(kernel):
    kernel.operations["ThingsPut"] = OPERATION
    kernel.answers["ThingsPut"] = Things(made_at=1_772_366_400_250, key=b"\xff", settings=(Setting(name="a"),))
    return kernel


async def call(client, name, body=None, **options):
    return await client.post(f"/v1/operations/{name}", **({} if body is None else {"json": body}), **options)


@pytest.mark.req("REST-2")
async def test_a_plugins_operation_is_called_with_its_fields_and_answers_with_its_own(client, kernel):
    body = {
        "settings": [{"name": "a", "at": 3}],
        "by_name": {"x": {"name": "b"}},
        "one": {"name": "c"},
        "pair": ["p", {"name": "d"}],
        "kind": {"type": "wide", "rules": [{"count": 2}]},
        "level": "high",
        "from": "here",
        "key": "AAE=",
        "anything": {"goes": [{"here": 1}]},
    }
    response = await call(client, "ThingsPut?tenant=acme", body, headers={"Idempotency-Key": "k-1"})
    assert response.status_code == 200, response.text
    assert response.json() == {"made_at": 1_772_366_400_250, "key": "/w==", "settings": [{"name": "a", "at": 0}]}
    assert response.headers["cache-control"] == "no-store"
    ((name, asked, origin),) = kernel.calls
    assert (name, origin.tenant, origin.caller, origin.door, origin.key) == ("ThingsPut", "acme", kernel.caller, "rest", "k-1")
    assert asked == PutThings(
        settings=[Setting(name="a", at=3)],
        by_name={"x": Setting(name="b")},
        one=Setting(name="c"),
        pair=("p", Setting(name="d")),
        kind=Wide(rules=(Rule(count=2),)),
        level="high",
        from_="here",
        key=b"\x00\x01",
        anything={"goes": [{"here": 1}]},
    )


async def test_the_kernels_own_are_called_too_and_a_body_may_be_left_out(client, kernel, job_view):
    kernel.answers["ListJobs"] = JobPage(jobs=(job_view(),), cursor="c")
    response = await call(client, "ListJobs")
    assert msgspec.convert(response.json(), JobPage) == kernel.answers["ListJobs"]
    assert "started_at" in response.json()["jobs"][0]
    assert kernel.calls[0][1] == ListJobs()


WRONG = {
    "a field too many": ("ThingsPut", {"nmae": 1}, "$.nmae"),
    "a Struct's own name for a renamed field": ("ThingsPut", {"from_": "x"}, "$.from_"),
    "in a list": ("ThingsPut", {"settings": [{"name": "a"}, {"name": "b", "att": 1}]}, "$.settings[1].att"),
    "in a dict": ("ThingsPut", {"by_name": {"x": {"name": "a", "att": 1}}}, "$.by_name.x.att"),
    "in an optional one": ("ThingsPut", {"one": {"name": "a", "att": 1}}, "$.one.att"),
    "in a pair": ("ThingsPut", {"pair": ["p", {"name": "a", "att": 1}]}, "$.pair[1].att"),
    "of the other kind": ("ThingsPut", {"kind": {"type": "narrow", "by": "x", "rules": []}}, "$.kind.rules"),
    "deep": ("ThingsPut", {"kind": {"type": "wide", "rules": [{"count": 1, "cout": 2}]}}, "$.kind.rules[0].cout"),
    "a wrong type": ("ThingsPut", {"settings": [{"name": 1}]}, "$.settings[0].name"),
    "a time as text": ("ThingsPut", {"settings": [{"name": "a", "at": "2026-03-01T12:00:00Z"}]}, "$.settings[0].at"),
    "a missing field": ("ThingsPut", {"one": {}}, "`name`"),
    "another word": ("ThingsPut", {"level": "middle"}, "$.level"),
    "no object": ("ThingsPut", [1], "object"),
    "a start's run": ("StartJob", {"agent": "echo", "run": {"conversation": "c", "run": "r"}}, "$.run"),
    "a decision's run": ("DecideApproval", {"wait": "w", "approved": True, "run": "r"}, "$.run"),
    "one of several decisions' run": ("DecideTogether", {"tree": "t", "decisions": [{"wait": "w", "run": "r"}]}, "[0].run"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_body_that_does_not_fit_is_refused_naming_the_field(client, kernel, name):
    operation, body, words = WRONG[name]
    response = await call(client, operation, body)
    assert (response.status_code, response.json()["code"], kernel.calls) == (400, "invalid_argument", [])
    assert words in response.json()["message"]


async def test_what_is_anybodys_may_have_any_field(client, kernel, job_view):
    kernel.answers["StartJob"] = TransomError("permission_denied", "no")
    kernel.answers["PublishEvent"] = TransomError("permission_denied", "no")
    await call(client, "StartJob", {"agent": "echo", "input": {"agent": [{"x": 1}]}})
    await call(client, "PublishEvent", {"source": "s", "payload": {"source": {"y": [2]}}})
    assert [asked for _, asked, _ in kernel.calls] == [
        StartJob(agent="echo", input={"agent": [{"x": 1}]}),
        PublishEvent(source="s", payload={"source": {"y": [2]}}),
    ]


@pytest.mark.parametrize("name", ["Nothing", "WatchJob", "thingsput", "x" * 3000])
async def test_what_is_no_operation_or_streams_is_not_found_before_the_body_is_read(client, kernel, name):
    async def body():
        raise AssertionError("the body was read")
        yield b""

    response = await client.post(f"/v1/operations/{name}", content=body(), headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["code"], kernel.calls) == (404, "not_found", [])
    assert len(response.json()["message"]) < 200


async def test_who_calls_is_known_before_it_is_told_what_there_is(client, kernel):
    kernel.caller = TransomError("unauthenticated", "who are you?")
    for name in ("Nothing", "ListJobs"):
        assert (await call(client, name, {})).status_code == 401
    assert (await client.get("/v1/operations/ListJobs")).status_code == 405


async def test_an_error_of_the_operation_is_told_as_it_is(client, kernel):
    kernel.answers["ThingsPut"] = TransomError("failed_precondition", "not now", {"reason": "r"})
    response = await call(client, "ThingsPut", {})
    assert (response.status_code, response.json()) == (
        400,
        {"code": "failed_precondition", "message": "not now", "details": {"reason": "r"}},
    )

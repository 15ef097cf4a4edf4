"""The routes of the REST door that are the same in every tenant, as OpenAPI has them."""

from collections.abc import Mapping, Sequence
from typing import Final

from transom_hookspecs import Json, JsonObject

from .shapes import ANY, FLAG, OBJECT, TEXT, WORDS, ref, shape

JSON: Final = "application/json"

_ID: Final[JsonObject] = {"type": "string", "minLength": 1, "maxLength": 200}
_NEW: Final[JsonObject] = {"type": "string", "maxLength": 200, "pattern": r'^[^/\\"\x00-\x1f\x7f-\x9f\u2028\u2029]*$'}
_TENANT: Final[JsonObject] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"}
_CURSOR: Final[JsonObject] = {"type": "string", "description": "From the page before; empty for the first."}
_LIST: Final[JsonObject] = {"type": "string", "pattern": "^[^,]+(,[^,]+)*$"}
"""Words between commas. An array would say more, but generated clients send one as a parameter that is repeated."""


def _query(name: str, schema: JsonObject, description: str) -> JsonObject:
    """A parameter; one that is empty counts as left out."""
    return {"name": name, "in": "query", "description": description, "allowEmptyValue": True, "schema": schema}


def _in_path(name: str, schema: JsonObject, description: str) -> JsonObject:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def _limit(default: int) -> JsonObject:
    return _query("limit", {"type": "integer", "minimum": 1, "maximum": 200, "default": default}, "At most so many.")


def parameters(tenant: str) -> JsonObject:
    """The parameters that routes share, by name; what is left out for the tenant means this one."""
    return {
        "tenant": _query("tenant", {**_TENANT, "default": tenant}, "The tenant; left out, it is `default`."),
        "job": _in_path("id", _ID, "The job's ID."),
        "wait": _in_path("wait", TEXT, "The approval's ID, or its token."),
        "id": _query("id", _NEW, "The job's ID: the same start under the same ID starts nothing again."),
        "timeout": _query(
            "timeout",
            {"type": "string", "pattern": r"^[0-9]{1,12}(\.[0-9]{1,9})?s$", "examples": ["900s"]},
            "The longest time of the whole job, waits included.",
        ),
        "tags": _query("tags", _LIST, "Words between commas, to find the job by."),
        "team": _query("team", TEXT, "The team that the job is for."),
        "budget": _query("budget", TEXT, "Recorded with the job."),
        "dataSubjects": _query("data_subjects", _LIST, "Between commas, whom the job's data is about."),
        "conversation": _query("conversation", _NEW, "Go on with this conversation, or begin it."),
        "continueFrom": _query("continue_from", TEXT, "Go on with the conversation of this job."),
        "idempotencyKey": {
            "name": "Idempotency-Key",
            "in": "header",
            "description": "The same request under the same key is done once.",
            "schema": {"type": "string", "pattern": r"^[\x21-\x7e]{1,128}$"},
        },
    }


RESPONSES: Final[JsonObject] = {
    "Refused": {
        "description": "Refused; the status goes with the code.",
        "content": {JSON: {"schema": ref("Error")}},
    }
}

SECURITY: Final[JsonObject] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or the token of a person or an app."}
}


def answered(schema: Json, description: str = "Done.", media: str = JSON) -> JsonObject:
    """A response with a body."""
    return {"description": description, "content": {media: {"schema": schema}}}


def operation(
    name: str,
    tag: str,
    summary: str,
    response: Json,
    *,
    given: Sequence[JsonObject] = (),
    body: Json = None,
    required: bool = False,
    shared: Sequence[str] = (),
    others: Mapping[str, Json] | None = None,
) -> JsonObject:
    """One operation.

    Parameters:
        response: what 200 has.
        others: what other statuses have.
        given: parameters of its own.
        body: the schema of its body, if it has one.
        shared: names of parameters that routes share, beside `tenant`.
    """
    made: JsonObject = {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        "parameters": [*(ref(each, "parameters") for each in (*shared, "tenant")), *given],
    }
    if body is not None:
        made["requestBody"] = {"required": required, "content": {JSON: {"schema": body}}}
    return {**made, "responses": {"200": response, **(others or {}), "default": ref("Refused", "responses")}}


_WORD: Final = {"comment": TEXT, "confirm": TEXT, "token": TEXT, "answer": ANY}
_SINCE: Final[JsonObject] = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The `id:` of the last event that the client has; it gets what came after.",
    "schema": {"type": "string", "pattern": r"^[1-9][0-9]{0,14}-[\x21-\x7e]{1,200}$"},
}


def _closed(description: str, always: Mapping[str, Json], sometimes: Mapping[str, Json]) -> JsonObject:
    return {**shape(description, always, sometimes), "additionalProperties": False}


def _jobs() -> JsonObject:
    job = "/v1/jobs/{id}"
    reason = _closed("Why, in words.", {}, {"reason": TEXT})
    tags = _closed("Which to add and which to remove.", {}, {"add": WORDS, "remove": WORDS})
    stream = answered(ANY, "Server-Sent Events, up to the job's end.", "text/event-stream")
    page = (_limit(50), _query("cursor", _CURSOR, "Where the page begins."))

    def read(name: str, summary: str, component: str) -> JsonObject:
        return {"get": operation(name, "jobs", summary, answered(ref(component)), shared=("job",))}

    def change(name: str, summary: str, body: JsonObject) -> JsonObject:
        return {"post": operation(name, "jobs", summary, answered(ref("Job")), shared=("job",), body=body)}

    return {
        "/v1/jobs": {"get": operation("list_jobs", "jobs", "Recent jobs, newest first", answered(ref("Jobs")), given=page)},
        job: read("get_job", "A job, with its answer once it has one", "Job"),
        f"{job}/events": {
            "get": operation("watch_job", "jobs", "Follow a job", stream, shared=("job",), given=(_SINCE,)),
        },
        f"{job}/board": read("get_job_board", "The notes of the job's tree", "Board"),
        f"{job}/trace": read("get_job_trace", "The job's steps", "Trace"),
        f"{job}/wait": read("get_job_wait", "Why the job waits", "Waiting"),
        f"{job}/cancel": change("cancel_job", "Cancel a job and all that it delegated", reason),
        f"{job}/tags": change("set_job_tags", "Change the job's tags", tags),
    }


def _approvals() -> JsonObject:
    wait = "/v1/approvals/{wait}"
    word = _closed("A decision.", {}, _WORD)
    reply = _closed("The answer to a question.", {"answer": ANY}, {key: _WORD[key] for key in ("comment", "confirm", "token")})
    edit = _closed("The arguments in place of those that wait.", {"arguments": OBJECT}, {})
    page = (
        _query("job", TEXT, "Only what this job waits for."),
        _query("tree", FLAG, "Also what that job delegated to."),
        _limit(200),
        _query("cursor", _CURSOR, "Where the page begins."),
    )

    def decide(name: str, summary: str, body: JsonObject, component: str = "Decided") -> JsonObject:
        need = "required" in body
        response = answered(ref(component))
        return {"post": operation(name, "approvals", summary, response, shared=("wait",), body=body, required=need)}

    listed = answered(ref("Approvals"))
    return {
        "/v1/approvals": {"get": operation("list_approvals", "approvals", "What waits for a person", listed, given=page)},
        f"{wait}/approve": decide("approve", "Say yes", word),
        f"{wait}/deny": decide("deny", "Say no, or decline a question", word),
        f"{wait}/answer": decide("answer", "Answer a question", reply),
        f"{wait}/edit": decide("edit_approval", "Change the arguments that wait", edit, "Approval"),
    }


def _others() -> JsonObject:
    key = ("idempotencyKey",)
    source = _in_path("source", TEXT, "The event's source.")
    named = _in_path("name", TEXT, "The operation's name.")
    plugin = _query("plugin", TEXT, "Only this plugin's agents and flows.")
    match: JsonObject = {
        "name": "If-None-Match",
        "in": "header",
        "description": "ETags that the client has.",
        "schema": TEXT,
    }
    document = operation(
        "get_openapi_document",
        "catalog",
        "This document",
        answered(OBJECT, "An OpenAPI document."),
        given=(plugin, match),
        others={"304": {"description": "The client has it already."}},
    )
    listed = operation("list_agents", "catalog", "Agents and flows", answered(ref("Agents")))
    publish = operation(
        "publish_event",
        "events",
        "Tell of something that happened outside",
        answered(ref("Published")),
        shared=key,
        given=(source,),
        body=OBJECT,
    )
    call = operation(
        "call_operation",
        "operations",
        "Call any operation by its name",
        answered(OBJECT),
        shared=key,
        given=(named,),
        body=OBJECT,
    )
    return {
        "/v1/agents": {"get": listed},
        "/v1/openapi.json": {"get": document},
        "/v1/events/{source}": {"post": publish},
        "/v1/operations/{name}": {"post": call},
    }


def paths() -> JsonObject:
    """The routes, by path."""
    return {**_jobs(), **_approvals(), **_others()}

"""The JSON of the REST routes as OpenAPI has it: the schemas that are the same in every tenant.

They say what the REST door sends: tests hold them to its own types and to its answers. No name of theirs but `Job` ends
in `Input`, `Job` or `Output`: those are the names of agents' schemas.
"""

from collections.abc import Mapping
from typing import Final

from transom_hookspecs import CODES, Json, JsonObject

ANY: Final[JsonObject] = {}
FLAG: Final[JsonObject] = {"type": "boolean"}
MONEY: Final[JsonObject] = {"type": "number"}
OBJECT: Final[JsonObject] = {"type": "object"}
TEXT: Final[JsonObject] = {"type": "string"}
TIME: Final[JsonObject] = {"type": "string", "format": "date-time"}
WHOLE: Final[JsonObject] = {"type": "integer"}
WORDS: Final[JsonObject] = {"type": "array", "items": TEXT}


def ref(name: str, kind: str = "schemas") -> JsonObject:
    """A reference to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


def many(name: str) -> JsonObject:
    """A list of a component's."""
    return {"type": "array", "items": ref(name)}


def shape(description: str, always: Mapping[str, Json], sometimes: Mapping[str, Json] | None = None) -> JsonObject:
    """An object.

    Parameters:
        always: the fields that it must have.
        sometimes: those that are left out when they have nothing to say.
    """
    made: JsonObject = {"description": description, "type": "object", "properties": {**always, **(sometimes or {})}}
    return {**made, "required": list(always)} if always else made


STATUS: Final[JsonObject] = {
    "type": "string",
    "enum": ["queued", "running", "waiting", "completed", "failed", "cancelled", "timed_out"],
}
CODE: Final[JsonObject] = {"type": "string", "enum": list(CODES)}

FACTS: Final = "JobFacts"
"""A job without its output, which each agent types for itself."""

SCHEMAS: Final[JsonObject] = {
    "Agent": shape(
        "An agent or a flow.",
        {"name": TEXT, "flow": FLAG, "conversations": FLAG},
        {
            "title": TEXT,
            "description": TEXT,
            "inputSchema": OBJECT,
            "outputSchema": OBJECT,
            "cardSchema": OBJECT,
            "plugin": TEXT,
            "definition": TEXT,
        },
    ),
    "Agents": shape("The catalog.", {"agents": many("Agent")}),
    "Approval": shape(
        "Something that waits for a person; `redacted` is the label of a data rule that hides what waits.",
        {
            "id": TEXT,
            "tenant": TEXT,
            "job": TEXT,
            "tree": TEXT,
            "agent": TEXT,
            "kind": TEXT,
            "token": TEXT,
            "message": TEXT,
            "openedAt": TIME,
            "rule": ref("Rule"),
            "canDecide": FLAG,
        },
        {
            "expiresAt": TIME,
            "starter": TEXT,
            "function": TEXT,
            "call": TEXT,
            "shown": ANY,
            "schema": OBJECT,
            "choices": WORDS,
            "votes": many("Vote"),
            "redacted": TEXT,
        },
    ),
    "Approvals": shape(
        "A page of what waits, oldest first; an empty cursor is the last page's.",
        {"approvals": many("Approval"), "cursor": TEXT},
    ),
    "Board": shape(
        "The notes of a job's tree; `content` says whether their words are shown.",
        {"tree": TEXT, "notes": many("Note"), "content": FLAG},
        {"redacted": TEXT},
    ),
    "Branch": shape(
        "What one job of a tree cost.",
        {"job": TEXT, "agent": TEXT, "calls": WHOLE, "inputTokens": WHOLE, "outputTokens": WHOLE, "usd": MONEY},
        {"models": WORDS, "cachedTokens": WHOLE},
    ),
    "Cost": shape(
        "What a job and all that it delegated cost, in USD.",
        {"usd": MONEY, "calls": WHOLE, "inputTokens": WHOLE, "outputTokens": WHOLE, "branches": many("Branch")},
    ),
    "Decided": shape(
        "How a decision came out.",
        {"wait": TEXT, "job": TEXT, "result": {"type": "string", "enum": ["decided", "already_decided", "acknowledged"]}},
        {"outcome": TEXT, "by": TEXT, "reason": TEXT},
    ),
    "Error": shape(
        "Why a request was refused. Of an ID that is taken, `reason`, `job` and `started_at` stand here too.",
        {"code": CODE, "message": TEXT, "details": OBJECT},
        {"reason": TEXT, "job": TEXT, "started_at": TIME},
    ),
    "Failure": shape("How a job or a step failed.", {"code": CODE, "message": TEXT}, {"details": OBJECT}),
    "Job": {"description": "A job.", "allOf": [ref(FACTS), {"type": "object", "properties": {"output": ANY}}]},
    FACTS: shape(
        "A job without its output; `redacted` is the label of a data rule that hides its content.",
        {"id": TEXT, "agent": TEXT, "status": STATUS},
        {
            "startedAt": TIME,
            "closedAt": TIME,
            "error": ref("Failure"),
            "children": WORDS,
            "approvals": many("Approval"),
            "flow": FLAG,
            "cost": ref("Cost"),
            "conversation": TEXT,
            "turn": WHOLE,
            "tags": WORDS,
            "team": TEXT,
            "taint": WORDS,
            "labels": WORDS,
            "card": FLAG,
            "redacted": TEXT,
        },
    ),
    "Jobs": shape("A page of jobs; an empty cursor is the last page's.", {"jobs": many("Job"), "cursor": TEXT}),
    "Note": shape(
        "A note of a board.",
        {"id": WHOLE, "kind": TEXT, "job": TEXT, "agent": TEXT, "at": TIME},
        {"text": TEXT, "tags": WORDS, "supersedes": WHOLE, "supersededBy": WHOLE, "tainted": FLAG, "labels": WORDS},
    ),
    "Pending": shape(
        "A step that is not done, and what it waits for.",
        {"key": TEXT, "kind": TEXT, "name": TEXT, "attempts": WHOLE, "why": TEXT},
        {"waitsFor": TEXT, "lastFailure": TEXT, "since": TIME},
    ),
    "Published": shape("The jobs that an event woke.", {"jobs": WORDS}),
    "Rule": shape(
        "Who may decide.",
        {"count": WHOLE},
        {
            "deciders": WORDS,
            "fourEyes": FLAG,
            "confirm": FLAG,
            "veto": FLAG,
            "typed": TEXT,
            "edit": FLAG,
            "reason": TEXT,
        },
    ),
    "Step": shape(
        "A step of a job.",
        {"job": TEXT, "key": TEXT, "kind": TEXT, "name": TEXT, "state": TEXT, "attempt": WHOLE},
        {"verdict": TEXT, "error": ref("Failure"), "child": TEXT, "begunAt": TIME, "endedAt": TIME},
    ),
    "Trace": shape("A job and its steps.", {"job": ref("Job"), "steps": many("Step")}),
    "Vote": shape("One person's word.", {"by": TEXT, "approved": FLAG, "at": TIME}, {"via": TEXT, "comment": TEXT}),
    "Waiting": shape(
        "Why a job waits.",
        {"job": TEXT, "status": STATUS, "why": TEXT, "steps": many("Pending")},
        {"queue": TEXT, "redacted": TEXT},
    ),
}
"""The components' schemas, by name."""

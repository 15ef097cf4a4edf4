"""The document of some agents and flows: a pure function, the same bytes for the same agents."""

from collections.abc import Iterable
from typing import Final

import msgspec

from transom_hookspecs import AgentView, Json, JsonObject

from .generic import JSON, RESPONSES, SECURITY, answered, parameters, paths
from .schemas import Components, pascal
from .shapes import ANY, FACTS, FLAG, SCHEMAS, TEXT, ref

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_TURN: Final = ("conversation", "continueFrom")
_PARAMETERS: Final = ("tenant", "id", "timeout", "tags", "team", "budget", "dataSubjects")


def document_of(tenant: str, plugin: str, agents: Iterable[AgentView]) -> bytes:
    """The document as JSON.

    Parameters:
        plugin: the plugin whose agents they are; empty for all.
    """
    listed = sorted(agents, key=lambda agent: agent.name)
    components = Components(iter((*SCHEMAS, *(name for agent in listed for name in _reserved(agent)))))
    runs: dict[str, object] = {}
    schemas: dict[str, object] = {}
    for agent in listed:  # each encoded by itself: one large encoding would hold up all other threads
        runs[f"/v1/agents/{agent.name}/jobs"] = {"post": _encoded(_run(agent, components))}
        schemas |= {name: _encoded(schema) for name, schema in components.handed_over().items()}
    whose = f"{tenant}: {plugin}" if plugin else tenant
    document: dict[str, object] = {
        "openapi": "3.1.0",
        "info": {
            "title": f"Agents and flows of {whose}",
            "version": "1",
            "description": "One operation an agent or flow, `run_<name>`, and what jobs and approvals have in common.",
        },
        "jsonSchemaDialect": DIALECT,
        "security": [{"bearer": []}],
        "paths": {**runs, **paths()},
        "components": {
            "securitySchemes": SECURITY,
            "parameters": parameters(tenant),
            "responses": RESPONSES,
            "schemas": {**SCHEMAS, **schemas},
        },
    }
    return msgspec.json.encode(document)


def _encoded(value: Json) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _name(agent: AgentView, kind: str) -> str:
    return pascal(agent.name) + kind


def _reserved(agent: AgentView) -> tuple[str, str, str]:
    return _name(agent, "Input"), _name(agent, "Job"), _name(agent, "Output")


def _run(agent: AgentView, components: Components) -> JsonObject:
    job = answered(ref(_job(agent, components)), "The job; `retried` when this very start was made before.")
    shared = (*_PARAMETERS, *(_TURN if agent.conversations else ()), "idempotencyKey")
    made: JsonObject = {
        "operationId": f"run_{agent.name.replace('-', '_')}",
        "tags": ["flows" if agent.flow else "agents"],
        "summary": agent.title or agent.name,
    }
    if agent.description:
        made["description"] = agent.description
    return {
        **made,
        "parameters": [ref(name, "parameters") for name in shared],
        "requestBody": _body(agent, components),
        "responses": {"201": job, "200": job, "default": ref("Refused", "responses")},
    }


def _body(agent: AgentView, components: Components) -> JsonObject:
    """The input: JSON, and as a text where it may be one."""
    if agent.input_schema is None:
        return {"required": False, "content": {JSON: {"schema": ANY}, "text/plain": {"schema": TEXT}}}
    name = _name(agent, "Input")
    components.add(name, agent.input_schema)
    content: JsonObject = {JSON: {"schema": ref(name)}}
    if _takes_text(components.schemas[name]):
        content["text/plain"] = {"schema": ref(name)}
    return {"required": True, "content": content}


def _takes_text(schema: Json) -> bool:
    """Whether a schema says of itself that a text may fit it."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    return kind == "string" or (isinstance(kind, list) and "string" in kind)


def _job(agent: AgentView, components: Components) -> str:
    """The job as its start answers it."""
    output: Json = ANY
    if agent.output_schema is not None:
        name = _name(agent, "Output")
        components.add(name, agent.output_schema)
        output = ref(name)
    typed: JsonObject = {"type": "object", "properties": {"output": output, "retried": FLAG}, "required": ["retried"]}
    components.schemas[_name(agent, "Job")] = {
        "description": f"A job of {agent.name}.",
        "allOf": [ref(FACTS), typed],
    }
    return _name(agent, "Job")

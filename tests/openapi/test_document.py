"""The document: valid, the same for the same agents, and true of what the REST door takes and answers."""

import json
import re
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from openapi_kit import found, references
from openapi_spec_validator import validate

from transom_hookspecs import AgentView, ErrorInfo
from transom_openapi.document import document_of
from transom_openapi.library import OpenApiDocument, _made
from transom_rest import wire
from transom_rest.routes import ROUTES

DEFINED = {"type": "object", "properties": {"i": {"$ref": "#/$defs/Item"}}, "$defs": {"Item": {"type": "integer"}}}
AGENTS = (
    AgentView(
        name="acme-reviewer", input_schema=DEFINED, output_schema={"$ref": "#/$defs/S", "$defs": {"S": {"type": "string"}}}
    ),
    AgentView(name="echo", title="Echo", description="Says it again."),
    AgentView(name="9_lives", flow=True, conversations=False, input_schema={"type": ["string", "null"]}),
    AgentView(name="started", plugin="p", output_schema={"type": "object", "xml": "no word of OpenAPI's", "example": 1}),
)


def made(*agents, tenant="default", plugin=""):
    return json.loads(document_of(tenant, plugin, agents))


def etag(*agents, plugin="") -> str:
    found: OpenApiDocument = _made("default", plugin, agents)
    return found.etag


@pytest.mark.req("REST-3")
def test_it_passes_a_validator_and_every_reference_leads_somewhere():
    document = made(*AGENTS)
    validate(document)
    assert all(found(document, reference) for reference in references(document))


@pytest.mark.req("REST-3")
def test_each_agent_has_one_operation_with_its_schemas():
    document = made(*AGENTS)
    run = document["paths"]["/v1/agents/acme-reviewer/jobs"]["post"]
    assert run["operationId"] == "run_acme_reviewer"
    assert run["requestBody"] == {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/AcmeReviewerInput"}}},
    }
    job = found(document, run["responses"]["200"]["content"]["application/json"]["schema"]["$ref"])
    assert run["responses"]["201"] == run["responses"]["200"]
    assert job["allOf"][1]["properties"]["output"] == {"$ref": "#/components/schemas/AcmeReviewerOutput"}
    assert document["components"]["schemas"]["AcmeReviewerOutput"] == {"type": "string"}
    flow = document["paths"]["/v1/agents/9_lives/jobs"]["post"]
    assert (flow["operationId"], flow["tags"]) == ("run_9_lives", ["flows"])


def test_operations_and_components_have_names_of_their_own():
    document = made(*AGENTS)
    ids = [each["operationId"] for item in document["paths"].values() for each in item.values()]
    assert len({each.lower() for each in ids}) == len(ids)
    assert all(each.isidentifier() for each in ids)
    names = list(document["components"]["schemas"])
    assert len({name.lower() for name in names}) == len(names)


def test_what_is_always_there_has_no_name_that_an_agent_could_take():
    always = made()["components"]["schemas"]
    assert [name for name in always if re.search(r".(Input|Job|Output)$", name)] == []


def test_a_text_may_come_as_a_text():
    document = made(*AGENTS)
    for name, required in (("echo", False), ("9_lives", True)):
        body = document["paths"][f"/v1/agents/{name}/jobs"]["post"]["requestBody"]
        assert (set(body["content"]), body["required"]) == ({"application/json", "text/plain"}, required)


def test_an_agent_without_conversations_has_no_parameters_for_them():
    def parameters(name):
        return {found(document, each["$ref"])["name"] for each in run(name)["parameters"]}

    def run(name):
        return document["paths"][f"/v1/agents/{name}/jobs"]["post"]

    document = made(*AGENTS)
    assert parameters("echo") - parameters("9_lives") == {"conversation", "continue_from"}


def test_a_client_of_another_tenant_names_it_by_default():
    assert made(tenant="acme")["components"]["parameters"]["tenant"]["schema"]["default"] == "acme"


@pytest.mark.req("REST-3")
def test_the_etag_changes_with_an_agent_a_flow_or_a_schema_and_with_nothing_else():
    first = etag(*AGENTS)
    assert etag(*reversed(AGENTS)) == first, "in whichever order they were loaded"
    copy = msgspec.json.decode(msgspec.json.encode(AGENTS), type=tuple[AgentView, ...])
    assert etag(*copy) == first
    changes = (
        AGENTS[:-1],
        (*AGENTS, AgentView(name="new")),
        (*AGENTS[:-1], msgspec.structs.replace(AGENTS[-1], description="other")),
        (*AGENTS[:-1], msgspec.structs.replace(AGENTS[-1], flow=True)),
        (*AGENTS[:-1], msgspec.structs.replace(AGENTS[-1], input_schema={"type": "null"})),
        (*AGENTS[:-1], msgspec.structs.replace(AGENTS[-1], output_schema={"type": "null"})),
    )
    assert len({first, *(etag(*agents) for agents in changes)}) == len(changes) + 1
    assert re.fullmatch('"[0-9a-f]{64}"', first)


@pytest.mark.req("REST-3")
def test_a_plugins_etag_names_it_whatever_it_is_called():
    assert re.fullmatch(r'"demo\.[0-9a-f]{64}"', etag(plugin="demo"))
    assert re.fullmatch(r'"%22a%20%C3%A9\.[0-9a-f]{64}"', etag(plugin='"a é'))


# -- held to the REST door --------------------------------------------------------------------------------------------

SHAPES = {
    "Agent": wire.AgentBody,
    "Agents": wire.AgentsBody,
    "Approval": wire.ApprovalBody,
    "Approvals": wire.ApprovalsBody,
    "Board": wire.BoardBody,
    "Branch": wire.BranchBody,
    "Cost": wire.CostBody,
    "Decided": wire.DecidedBody,
    "Failure": ErrorInfo,
    "Job": wire.JobBody,
    "Jobs": wire.JobsBody,
    "Note": wire.NoteBody,
    "Pending": wire.PendingBody,
    "Published": wire.PublishedBody,
    "Rule": wire.RuleBody,
    "Step": wire.StepBody,
    "Trace": wire.TraceBody,
    "Vote": wire.VoteBody,
    "Waiting": wire.WaitBody,
}
NAMES = {kind.__name__: name for name, kind in SHAPES.items()}
NO_SHAPE = {"Error", "JobFacts"}
"""The door's error, which is no type there, and the job's part that `Job` is made with."""


SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean"}


def said(kind):
    """What the door's own type says of a field."""
    arguments = [each for each in get_args(kind) if each not in (type(None), Ellipsis)]
    if kind is wire.Time:
        return {"type": "string", "format": "date-time"}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {"$ref": f"#/components/schemas/{NAMES[kind.__name__]}"}
    if kind is Any:
        return {}
    if get_origin(kind) is Literal:
        return {"type": "string"}
    if get_origin(kind) is tuple:
        return {"type": "array", "items": said(arguments[0])}
    if get_origin(kind) is dict:
        return {"type": "object"}
    if arguments:  # nothing is left out, not sent as null
        return said(arguments[0])
    return {"type": SIMPLE[kind]}


@pytest.mark.parametrize("name", SHAPES)
def test_a_component_is_what_the_door_sends(name):
    document = made()
    schema = document["components"]["schemas"][name]
    parts = [found(document, p["$ref"]) if "$ref" in p else p for p in schema.get("allOf", [schema])]
    properties = {key: value for part in parts for key, value in part["properties"].items()}
    fields = msgspec.structs.fields(SHAPES[name])
    without_enums = {key: {k: v for k, v in value.items() if k != "enum"} for key, value in properties.items()}
    assert without_enums == {field.encode_name: said(field.type) for field in fields}
    assert [key for part in parts for key in part.get("required", [])] == [f.encode_name for f in fields if f.required]


def test_every_component_is_one_of_the_doors():
    assert set(made()["components"]["schemas"]) == set(SHAPES) | NO_SHAPE


ALONE = {"/v1/openapi.json", "/v1/operations/{name}"}
"""Routes that are not of the door's table."""


def test_every_route_of_the_door_is_in_the_document_with_its_parameters():
    document = made(AgentView(name="echo"))
    there = {
        (method.upper(), path): {
            p["name"]
            for p in (found(document, p["$ref"]) if "$ref" in p else p for p in each["parameters"])
            if p["in"] == "query"
        }
        for path, item in document["paths"].items()
        for method, each in item.items()
        if path not in ALONE
    }
    routes = {
        (route.method, re.sub(r":\w+", "", route.path).replace("agents/{name}", "agents/echo")): {"tenant", *route.query}
        for route in ROUTES
        if "{rest:path}" not in route.path
    }
    assert there == routes


def test_a_body_of_a_fixed_shape_has_the_fields_that_the_door_reads():
    from transom_rest.routes import CancelBody, EditBody, TagsBody, WordBody

    document = made()
    for path, kind in (
        ("/v1/jobs/{id}/cancel", CancelBody),
        ("/v1/jobs/{id}/tags", TagsBody),
        ("/v1/approvals/{wait}/approve", WordBody),
        ("/v1/approvals/{wait}/deny", WordBody),
        ("/v1/approvals/{wait}/answer", WordBody),
        ("/v1/approvals/{wait}/edit", EditBody),
    ):
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert set(schema["properties"]) == set(kind.__struct_encode_fields__)
        assert schema["additionalProperties"] is False

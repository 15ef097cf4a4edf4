"""Agents with schemas, a plugin that has them and says who may see what, and what documents are checked with."""

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from transom_hookspecs import Access, Agent, Caller, Json, JsonObject, RequestHead, Verdict, hookimpl


async def answer(ctx: Any, input: Json) -> Json:
    return input


def agent(name: str, **facts: Any) -> Agent:
    """An agent that answers its input."""
    return Agent(name=name, run=answer, **facts)


class Rights:
    """Who may see what: every token is a caller; `hidden` has agents' names by caller, `refused` callers that may nothing."""

    def __init__(self) -> None:
        self.hidden: dict[str, set[str]] = {}
        self.refused: set[str] = set()
        self.asked = 0

    def authenticate(self, head: RequestHead) -> Caller | None:
        words = head.headers.get("authorization", ("",))[0].split()
        return Caller(kind="key", id=words[1], tenant="" if words[1] == "root" else "default") if len(words) == 2 else None

    def authorize(self, access: Access) -> Verdict:
        self.asked += 1
        who = access.caller.id
        denied = who in self.refused or access.object in self.hidden.get(who, ())
        return Verdict(ruling="deny" if denied else "allow", by="test")


def house_plugin(rights: Rights, *agents: Agent, named: str = "house") -> type:
    """A plugin class with these agents and rights."""

    class HousePlugin:
        name = named
        spec = "1.0"

        def __init__(self, config: object) -> None: ...

        @hookimpl
        def register_agents(self) -> list[Agent]:
            return list(agents)

        @hookimpl
        def authenticate(self, head: RequestHead) -> Caller | None:
            return rights.authenticate(head)

        @hookimpl
        def authorize(self, access: Access) -> Verdict | None:
            return rights.authorize(access)

    return HousePlugin


def agents_of(name_of_plugin: str, *agents: Agent) -> type:
    """A plugin class with these agents alone."""

    class MoreAgentsPlugin:
        name = name_of_plugin
        spec = "1.0"

        def __init__(self, config: object) -> None: ...

        @hookimpl
        def register_agents(self) -> list[Agent]:
            return list(agents)

    return MoreAgentsPlugin


def references(part: Json) -> Iterator[str]:
    """Every reference of a document, wherever it stands."""
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for each in part.values():
            yield from references(each)
    elif isinstance(part, list):
        for each in part:
            yield from references(each)


def found(document: JsonObject, reference: str) -> Json:
    """What a reference leads to.

    Raises:
        KeyError: nothing.
    """
    part: Json = document
    for key in reference.removeprefix("#/").split("/"):
        part = part[key.replace("~1", "/").replace("~0", "~")]
    return part


def checker(document: JsonObject, schema: JsonObject) -> Draft202012Validator:
    """A validator of a schema that stands in a document."""
    resource = DRAFT202012.create_resource(document)
    registry = Registry().with_resource("urn:document", resource)
    return Draft202012Validator(_absolute(schema), registry=registry, format_checker=FormatChecker(formats=()))


def _absolute(schema: JsonObject) -> JsonObject:
    assert set(schema) == {"$ref"}
    return {"$ref": f"urn:document{schema['$ref']}"}


def responses_of(document: JsonObject, path: str, method: str) -> JsonObject:
    """An operation's responses, with what they refer to in their place."""
    given = document["paths"][path][method]["responses"]
    return {status: found(document, r["$ref"]) if "$ref" in r else r for status, r in given.items()}

"""An agent's schema in the document means what it meant, and each of its references is one to a component."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from openapi_kit import checker, found, references
from referencing import Registry

from transom_openapi.schemas import Components, pascal

ITEM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}, "additionalProperties": False}
DRAFT_7, DRAFT_4 = "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-04/schema#"

CASES = {
    "a definition": (
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/Item"}}, "$defs": {"Item": ITEM}},
        [{"a": {"n": 1}}, {"a": {"n": "x"}}, {"a": {}}, {}],
    ),
    "itself": (TREE, [{"kids": [{"kids": []}]}, {"kids": [{"kids": 1}]}, {"kids": [{"x": 1}]}]),
    "a recursive definition that is no object": (
        {
            "type": "object",
            "properties": {"v": {"$ref": "#/$defs/J"}},
            "$defs": {
                "J": {"anyOf": [{"type": "string"}, {"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/J"}}]}
            },
        },
        [{"v": [["a", None]]}, {"v": [[1]]}, {"v": None}],
    ),
    "nothing but a reference": (
        {"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}},
        [{"next": {"next": {}}}, {"next": 1}, 1],
    ),
    "a definition that is nothing but a reference": (
        {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"type": "integer"}}},
        [{"a": 1}, {"a": "x"}],
    ),
    "definitions that are each other": (
        {"properties": {"a": True}, "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
        [{"a": 1}, {}],
    ),
    "a part that is no definition": (
        {"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}},
        [{"b": 1}, {"b": "x"}, {"a": "x"}],
    ),
    "an escaped name": (
        {"properties": {"b": {"$ref": "#/$defs/a~1b~0c%20d"}}, "$defs": {"a/b~c d": {"type": "integer"}}},
        [{"b": 1}, {"b": "x"}],
    ),
    "an anchor": (
        {"properties": {"a": {"$ref": "#item"}}, "$defs": {"x": {"$anchor": "item", "type": "integer"}}},
        [{"a": 1}, {"a": "x"}],
    ),
    "a dynamic anchor": (
        {"$dynamicAnchor": "node", "type": "object", "properties": {"kid": {"$dynamicRef": "#node"}}},
        [{"kid": {}}, {"kid": 1}],
    ),
    "an $id, and one inside": (
        {
            "$id": "https://example.com/outer",
            "properties": {"a": {"$ref": "#/$defs/In"}, "b": {"$ref": "#/$defs/Out"}},
            "$defs": {
                "In": {
                    "$id": "https://example.com/inner",
                    "properties": {"x": {"$ref": "#/$defs/Out"}},
                    "$defs": {"Out": {"type": "string"}},
                },
                "Out": {"type": "integer"},
            },
        },
        [{"a": {"x": "s"}}, {"a": {"x": 1}}, {"b": 1}, {"b": "s"}],
    ),
    "what stands beside a reference": (
        {"properties": {"a": {"$ref": "#/$defs/A", "maximum": 5}}, "$defs": {"A": {"type": "integer"}}},
        [{"a": 1}, {"a": 9}, {"a": "x"}],
    ),
    "words that are no keywords": (
        {
            "type": "object",
            "properties": {"$ref": {"type": "string"}, "$defs": {"type": "integer"}, "properties": {"type": "null"}},
            "enum": [{"$ref": "#/nowhere"}, {"$defs": 1}, {"properties": None}],
        },
        [{"$ref": "#/nowhere"}, {"$ref": "other"}, {"$defs": 1}, {"properties": None}],
    ),
    "true and false": ({"properties": {"a": True, "b": False}}, [{"a": 1}, {"b": 1}, {}]),
    "type lists": (
        {"type": ["array", "null"], "items": {"type": ["string", "null"], "format": "date-time"}},
        [None, [None, "2026-01-01T00:00:00Z"], [1]],
    ),
    "a tuple": ({"prefixItems": [{"type": "integer"}], "items": False}, [[1], ["x"], [1, 2], []]),
    "a tuple of draft 7": (
        {"$schema": DRAFT_7, "items": [{"type": "integer"}, {"$ref": "#/items/0"}], "additionalItems": {"type": "null"}},
        [[1], ["x"], [1, 2], [1, "x"], [1, 2, None], [1, 2, 3]],
    ),
    "a list of draft 7, where additionalItems means nothing": (
        {"$schema": DRAFT_7, "items": {"type": "integer"}, "additionalItems": False},
        [[1, 2], ["x"]],
    ),
    "dependencies of draft 7": (
        {"$schema": DRAFT_7, "dependencies": {"a": ["b"], "c": {"properties": {"d": {"type": "integer"}}}}},
        [{"a": 1}, {"a": 1, "b": 2}, {"c": 1, "d": "x"}, {"c": 1, "d": 1}],
    ),
    "what stands beside a reference in draft 7": (
        {
            "$schema": DRAFT_7,
            "properties": {"a": {"$ref": "#/definitions/A", "maximum": 5}},
            "definitions": {"A": {"type": "integer"}},
        },
        [{"a": 1}, {"a": 9}, {"a": "x"}],
    ),
    "an anchor of draft 7": (
        {"$schema": DRAFT_7, "properties": {"a": {"$ref": "#item"}}, "definitions": {"x": {"$id": "#item", "type": "integer"}}},
        [{"a": 1}, {"a": "x"}],
    ),
    "bounds of draft 4": (
        {"$schema": DRAFT_4, "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False},
        [0, 1, 9, 10],
    ),
}


def moved(schema, name="XInput", taken=()):
    """A document with one schema."""
    components = Components(iter([name, *taken]))
    components.add(name, schema)
    return {"components": {"schemas": components.schemas}}


def original(schema):
    kind = validator_for(schema, default=Draft202012Validator)
    return kind(schema, registry=Registry())


@pytest.mark.req("REST-3")
@pytest.mark.parametrize("case", CASES)
def test_a_schema_takes_and_refuses_the_same_in_the_document(case):
    schema, values = CASES[case]
    before = json.dumps(schema)
    document = moved(schema)
    there = checker(document, {"$ref": "#/components/schemas/XInput"})
    was = original(schema)
    for value in values:
        assert there.is_valid(value) == was.is_valid(value), value
    assert len({was.is_valid(value) for value in values}) == 2 or case == "definitions that are each other"
    assert json.dumps(schema) == before, "the agent's own schema was changed"


@pytest.mark.req("REST-3")
@pytest.mark.parametrize("case", CASES)
def test_every_reference_leads_to_a_component(case):
    schemas = moved(CASES[case][0])["components"]["schemas"]
    for name, schema in schemas.items():
        Draft202012Validator.check_schema(schema)
        if case != "words that are no keywords":
            assert all(r.startswith("#/components/schemas/") and found({"components": {"schemas": schemas}}, r) is not None
                       for r in references(schema)), name  # fmt: skip
        assert not {"$id", "$anchor", "$dynamicAnchor", "$schema", "$defs", "definitions"} & set(schema)


def test_schemas_of_one_name_stay_two():
    components = Components(iter(["AInput", "BInput", "AInputItem"]))
    for name, kind in (("AInput", "integer"), ("BInput", "string")):
        schema = {"properties": {"i": {"$ref": "#/$defs/Item"}}, "$defs": {"Item": {"type": kind, "title": "Item"}}}
        components.add(name, schema)
    assert components.schemas["AInput"]["properties"]["i"] == {"$ref": "#/components/schemas/AInputItem2"}
    assert components.schemas["AInputItem2"] == {"type": "integer"}
    assert components.schemas["BInputItem"] == {"type": "string"}


def test_names_that_a_generator_takes_for_one_are_two():
    schema = {
        "properties": {"a": {"$ref": "#/$defs/an-item"}, "b": {"$ref": "#/$defs/AnItem"}, "c": {"$ref": "#/$defs/än item"}},
        "$defs": {"an-item": {"type": "string"}, "AnItem": {"type": "integer"}, "än item": {"type": "null"}},
    }
    schemas = moved(schema)["components"]["schemas"]
    assert len({name.lower() for name in schemas}) == 4
    assert all(name.isascii() and name.isalnum() for name in schemas)


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", fullmatch=True))
def test_a_name_keeps_its_letters_and_loses_what_joins_them(name):
    made = pascal(name)
    assert made.lower() == name.replace("-", "").replace("_", "").lower()


NAMES = st.sampled_from(["A", "B", "c-d", "e/f", "properties"])
LEAF = st.sampled_from([{"type": "integer"}, {"type": "string"}, {"type": "null"}, True, {}, {"const": 1}])
REFERENCE = NAMES.map(lambda name: {"$ref": f"#/$defs/{name.replace('/', '~1')}"})


def nested(inner):
    return st.one_of(
        st.dictionaries(NAMES, inner, max_size=3).map(lambda each: {"type": "object", "properties": each}),
        inner.map(lambda each: {"type": "array", "items": each}),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: {"anyOf": each}),
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"prefixItems": each}),
        inner.map(lambda each: {"not": each}),
    )


def guarded(inner):
    """What only refers under a keyword that goes on to a part of the value, so that checking ends."""
    return st.one_of(
        st.dictionaries(NAMES, inner, max_size=3).map(lambda each: {"properties": each}),
        inner.map(lambda each: {"items": each}),
    )


PART = st.recursive(LEAF | guarded(LEAF | REFERENCE), nested, max_leaves=8)
VALUES = st.recursive(
    st.none() | st.integers(0, 2) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.req("REST-3")
@given(PART, st.fixed_dictionaries(dict.fromkeys(["A", "B", "c-d", "e/f", "properties"], PART)), st.lists(VALUES, max_size=5))
def test_any_schema_means_the_same_in_the_document(root, definitions, values):
    schema = {"allOf": [root], "$defs": definitions}
    document = moved(schema)
    there, was = checker(document, {"$ref": "#/components/schemas/XInput"}), original(schema)
    for value in values:
        assert there.is_valid(value) == was.is_valid(value)
    for reference in references(document):
        found(document, reference)

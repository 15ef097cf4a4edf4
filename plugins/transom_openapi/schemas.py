"""Agents' schemas as components of one document: what a schema refers to in itself becomes a component too.

A reference of a schema's own (`#/$defs/Item`) would lead nowhere in the document, and generators of clients follow none
but those to components. So each place that is referred to gets a name there, made of the schema's own, and no two
schemas share one.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from transom_hookspecs import Json, JsonObject

from .drafts import draft_of, modern

ONE: Final = frozenset(
    (
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not"),
        *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    )
)
MANY: Final = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
NAMED: Final = frozenset(("dependencies", "dependentSchemas", "patternProperties", "properties"))
"""Keywords whose value is a schema, a list of them, or an object of them by name, in any draft."""

DEFINED: Final = frozenset(("$defs", "definitions"))
REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
LEFT_OUT: Final = frozenset((*DEFINED, *REFERENCES, "$anchor", "$dynamicAnchor", "$id", "$recursiveAnchor", "$schema"))
"""What names and addresses a part of a schema: in the document, components' names do."""

NO_RULE: Final = frozenset((*LEFT_OUT, "$comment", "description", "title"))
"""What says nothing about values."""

COMPONENTS: Final = "#/components/schemas/"

Place = tuple[str, ...]
"""Where a part of a schema stands: the keys that lead to it."""


def pascal(name: str) -> str:
    """A name as generators write it for a class; names that the catalog takes for one become one."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name))


class Components:
    """The components of a document, as they are filled.

    Parameters:
        taken: names that are used already, or will be.
    """

    def __init__(self, taken: Iterator[str]) -> None:
        self.schemas: dict[str, Json] = {}
        self._taken = {name.lower() for name in taken}

    def add(self, name: str, schema: JsonObject) -> None:
        """Put a whole schema in under a name that is reserved for it, and what it refers to beside it."""
        _Move(self, name, schema).run()

    def handed_over(self) -> dict[str, Json]:
        """What was put in since the last time."""
        made, self.schemas = self.schemas, {}
        return made

    def free(self, name: str) -> str:
        """The name, or one like it when another component has it."""
        found, n = name, 1
        while found.lower() in self._taken:
            n += 1
            found = f"{name}{n}"
        self._taken.add(found.lower())
        return found


class _Move:
    """Moves one schema into the components."""

    def __init__(self, components: Components, name: str, schema: JsonObject) -> None:
        self._components, self._name, self._schema = components, name, schema
        self._draft = draft_of(schema)
        self._anchors: dict[tuple[Place, str], Place] = {}
        self._bases: dict[Place, Place] = {}
        self._look(schema, (), ())
        self._names: dict[Place, str] = {}
        self._left: list[Place] = []

    def run(self) -> None:
        root = self._followed(())
        self._names[root] = self._name
        self._left = [root]
        while self._left:
            place = self._left.pop(0)
            made = self._moved(self._at(place), place)
            if isinstance(made, dict):
                made.pop("title", None)  # generators name classes by it, and two agents may use one
            self._components.schemas[self._names[place]] = made

    def _look(self, part: Json, place: Place, base: Place) -> None:
        """Find the anchors, and which parts have an `$id` of their own, from which their references count."""
        if not isinstance(part, dict):
            return
        identity = part.get("$id")
        if isinstance(identity, str) and identity.startswith("#"):
            self._anchors[base, identity[1:]] = place
        elif isinstance(identity, str):
            base = place
        self._bases[place] = base
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := part.get(keyword), str):
                self._anchors[base, anchor] = place
        for keys, inner in _parts(part):
            self._look(inner, (*place, *keys), base)

    def _at(self, place: Place) -> Json:
        found: Json = self._schema
        for key in place:
            found = found[int(key)] if isinstance(found, list) else found[key] if isinstance(found, dict) else None
        return found

    def _target(self, part: JsonObject, place: Place) -> Place | None:
        """The place that a part refers to, or None when it does not."""
        reference = next((each for keyword in REFERENCES if isinstance(each := part.get(keyword), str)), None)
        if reference is None:
            return None
        base, fragment = self._bases.get(place, ()), unquote(reference.removeprefix("#"))
        if fragment and not fragment.startswith("/"):
            return self._anchors.get((base, fragment), base)
        keys = tuple(key.replace("~1", "/").replace("~0", "~") for key in fragment.split("/")[1:])
        return (*base, *keys)

    def _followed(self, place: Place) -> Place:
        """Past parts that are nothing but a reference: generators do not take them as components."""
        passed = {place}
        while isinstance(part := self._at(place), dict) and not set(part) - NO_RULE:
            target = self._target(part, place)
            if target is None or target in passed:
                break
            passed.add(place := target)
        return place

    def _moved(self, part: Json, place: Place) -> Json:
        """A part with its references led to components."""
        if not isinstance(part, dict):
            return part
        made: JsonObject = {}
        if (target := self._target(part, place)) is not None:
            made["$ref"] = COMPONENTS + self._component(self._followed(target))
            if self._draft <= 7:  # what stands beside a reference counts only from 2019 on
                return made
        for key, value in part.items():
            if key not in LEFT_OUT:
                made[key] = self._inside(key, value, (*place, key))
        return modern(made, self._draft)

    def _inside(self, key: str, value: Json, place: Place) -> Json:
        """A keyword's value, moved where it is schemas; a value that only looks like one is none."""
        if isinstance(value, dict) and key in ONE:
            return self._moved(value, place)
        if isinstance(value, dict) and key in NAMED:
            return {name: self._moved(each, (*place, name)) for name, each in value.items()}
        if isinstance(value, list) and key in MANY:
            return [self._moved(each, (*place, str(n))) for n, each in enumerate(value)]
        return value

    def _component(self, place: Place) -> str:
        """The name of the component of a place, which is made when it is not there yet."""
        if place not in self._names:
            words = [key for key in place if key not in DEFINED]
            self._names[place] = self._components.free(self._name + ("".join(map(pascal, words)) or "Part"))
            self._left.append(place)
        return self._names[place]


def _parts(schema: JsonObject) -> Iterator[tuple[Place, Json]]:
    """The schemas inside a schema, and the keys that lead to them."""
    for key, value in schema.items():
        if isinstance(value, dict) and key in ONE:
            yield (key,), value
        elif isinstance(value, dict) and (key in NAMED or key in DEFINED):
            yield from (((key, name), each) for name, each in value.items())
        elif isinstance(value, list) and key in MANY:
            yield from (((key, str(n)), each) for n, each in enumerate(value))

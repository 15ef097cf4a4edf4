"""Schemas of older drafts, said in JSON Schema 2020-12, which is the only dialect of the document.

One schema at a time, without those inside it. What is 2020-12 already stays as it is.
"""

import re
from typing import Final

from transom_hookspecs import JsonObject

_DRAFT: Final = re.compile(r"json-schema\.org/draft-0([3-7])/schema")
_2019: Final = "draft/2019-09/"


def draft_of(schema: JsonObject) -> int:
    """The draft that a whole schema names: 3 to 7, 2019, or 2020 when it names none of them."""
    named = schema.get("$schema")
    if not isinstance(named, str):
        return 2020
    if found := _DRAFT.search(named):
        return int(found[1])
    return 2019 if _2019 in named else 2020


def modern(schema: JsonObject, draft: int) -> JsonObject:
    """A schema with the keywords of 2020-12."""
    if draft == 2020:
        return schema
    made = dict(schema)
    if isinstance(made.get("items"), list):
        made["prefixItems"] = made.pop("items")
        if "additionalItems" in made:
            made["items"] = made["additionalItems"]
    made.pop("additionalItems", None)
    if isinstance(dependencies := made.pop("dependencies", None), dict):
        _split(made, dependencies)
    if draft <= 4:
        _bound(made, "minimum", "exclusiveMinimum")
        _bound(made, "maximum", "exclusiveMaximum")
    return made


def _split(made: JsonObject, dependencies: JsonObject) -> None:
    """`dependencies` had two meanings under one name."""
    for name, each in dependencies.items():
        kept = made.setdefault("dependentRequired" if isinstance(each, list) else "dependentSchemas", {})
        if isinstance(kept, dict):
            kept[name] = each


def _bound(made: JsonObject, bound: str, exclusive: str) -> None:
    """A flag beside a bound became a bound of its own."""
    if made.get(exclusive) is True and bound in made:
        made[exclusive] = made.pop(bound)
    elif isinstance(made.get(exclusive), bool):
        del made[exclusive]

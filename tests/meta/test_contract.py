"""The contract is whole: hooks have kinds and words, names are exported, values cannot change."""

import inspect
from importlib import import_module
from pkgutil import iter_modules
from typing import get_type_hints

import msgspec
import pytest

import transom_hookspecs as hookspecs
from transom.dispatch import kind_of
from transom_doors.answers import STATUS
from transom_hookspecs import CODES, FAMILIES

HOOKS = {name: method for family in FAMILIES for name, method in vars(family).items() if hasattr(method, "transom_spec")}
MODULES = {each.name: import_module(f"transom_hookspecs.{each.name}") for each in iter_modules(hookspecs.__path__)}
OWN_IMPORT = {"_functions", "declared"}
"""Modules that are no part of what `import transom_hookspecs` gives; `declared` is imported by who needs it."""

POSITIONAL = {
    "Change": "made once a commit and topic, of two fields",
    "Entry": "made once an event, of three fields",
    "Index": "written in tables, a name and its fields",
    "ReasoningDelta": "made once a delta, of one field",
    "TextDelta": "made once a delta, of one field",
}
"""Structs whose fields may be given by position. This list may only get shorter."""


def structs() -> dict[str, type[msgspec.Struct]]:
    """Every Struct of the contract."""
    return {
        name: value
        for module in MODULES.values()
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
    }


@pytest.mark.req("KERN-3")
@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_has_a_documented_kind_words_and_types(name):
    hook = HOOKS[name]
    kind = kind_of(name)
    word = "deciding verbs" if kind == "deciding" else f"``{kind}_*``"
    assert word in hookspecs.__doc__
    assert (inspect.getdoc(hook) or "").endswith((".", "!", ")", "`"))
    assert set(get_type_hints(hook)) == {*inspect.signature(hook).parameters, "return"} - {"self"}
    assert inspect.iscoroutinefunction(hook) is (kind in ("deciding", "on"))


def test_no_hook_is_specified_twice():
    names = [name for family in FAMILIES for name in vars(family) if hasattr(vars(family)[name], "transom_spec")]
    assert sorted(names) == sorted(HOOKS)


def test_all_names_are_exported_in_order():
    def rank(name: str) -> tuple[int, str]:
        return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

    exported = list(hookspecs.__all__)
    assert exported == sorted(set(exported), key=rank)
    public = {name for name, value in vars(hookspecs).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert set(exported) == public


@pytest.mark.parametrize("module", sorted(set(MODULES) - OWN_IMPORT))
def test_every_class_and_function_of_a_module_is_exported(module):
    own = {
        name
        for name, value in vars(MODULES[module]).items()
        if getattr(value, "__module__", "") == MODULES[module].__name__ and callable(value) and not name.startswith("_")
    }
    aliases = {"T", "S", "R"}  # type variables
    assert own - set(hookspecs.__all__) - aliases == set()


def test_every_family_is_one_of_families():
    assert {name for name in hookspecs.__all__ if name.endswith("Hooks")} == {family.__name__ for family in FAMILIES}


def test_every_value_is_frozen():
    assert [name for name, struct in structs().items() if not struct.__struct_config__.frozen] == []


def test_fields_are_given_by_name_but_in_a_few():
    by_position = {
        name
        for name, struct in structs().items()
        if any(each.kind is not each.KEYWORD_ONLY for each in inspect.signature(struct).parameters.values())
    }
    assert by_position == set(POSITIONAL)


@pytest.mark.parametrize("name", [name for name in hookspecs.__all__ if inspect.isclass(getattr(hookspecs, name))])
def test_every_class_says_what_it_is(name):
    documented = vars(getattr(hookspecs, name)).get("__doc__") or ""
    assert documented.strip()


@pytest.mark.req("REST-6")
def test_every_error_code_has_a_status_in_the_rest_door():
    assert set(STATUS) == set(CODES)

"""Who may import, name and use what."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = {path.parent.name for path in (ROOT / "plugins").glob("*/__init__.py")}
OTHER_NAMES = {"argon2-cffi": "argon2", "pyyaml": "yaml"}
"""Distributions whose module has another name."""

OF_ANOTHER_PLUGIN = {
    ("transom_local_model", "transom_openai"): "its server speaks OpenAI's protocol; transom brings the client"
}
"""Imports of another plugin that a contrib distribution declares by depending on the distribution that has it."""

SYSTEM_USERS = {
    "transom_identity": "keys are found by their hash before the tenant is known",
    "transom_local_engine": "leases and workers are kept under it",
    "transom_secrets": "one transaction changes the key of every tenant's secrets",
    "transom_sqlite": "it is the store that keeps it",
}
"""Plugins that may name the tenant of tenants."""

WORDS_OF_THEIR_OWN = {"agents", "audit", "board", "cli", "demo", "feeds", "files", "filters", "flows", "identity", "outputs",
                      "policy", "rest", "routines", "schedule", "secrets", "spend"}  # fmt: skip
"""Plugins called by a word that the kernel uses for the thing itself."""

NAMED_BY_THE_KERNEL = {
    ("config.py", "sqlite"): "the example in the settings' docstring",
    ("core.py", "sqlite"): "the remedy of the message that there is no store",
}
"""Mentions of a plugin in the kernel's texts. This list may only get shorter."""


def dependencies(pyproject: Path) -> set[str]:
    """The modules that a distribution declares to depend on, those of its extras too."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = [each for extra, some in project.get("optional-dependencies", {}).items() if extra != "test" for each in some]
    names = {re.split(r"[^A-Za-z0-9_.-]", each)[0].lower() for each in [*project["dependencies"], *extras]}
    return {OTHER_NAMES.get(name, name.replace("-", "_")) for name in names}


def imports(tree: ast.Module) -> Iterator[str]:
    """The top-level names of the modules that it imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def strangers(repository, package: Path, allowed: set[str]) -> dict[str, set[str]]:
    """What a package's modules import beside the standard library, themselves and what is allowed."""
    allowed = {*allowed, package.name, *sys.stdlib_module_names, "__future__"}
    found = {repository.name(path): set(imports(repository.tree(path))) - allowed for path in package.rglob("*.py")}
    return {path: names for path, names in found.items() if names}


@pytest.mark.req("KERN-3")
def test_the_specifications_load_pluggy_and_msgspec_alone(in_a_clean_process):
    look = "import sys; before = set(sys.modules); import transom_hookspecs; print(*(set(sys.modules) - before))"
    loaded = {name.partition(".")[0] for name in in_a_clean_process(look).split()} - set(sys.stdlib_module_names)
    # msgspec looks for typing_extensions by itself and takes it when it is there
    assert loaded - {"typing_extensions"} == {"transom_hookspecs", "pluggy", "msgspec"}


def test_the_specifications_import_pluggy_and_msgspec_alone(repository):
    assert strangers(repository, ROOT / "hookspecs" / "transom_hookspecs", {"pluggy", "msgspec"}) == {}


def test_what_doors_share_imports_the_specifications_and_what_speaks_http(repository):
    allowed = {"transom_hookspecs", "litestar", "anyio", "msgspec"}
    assert strangers(repository, ROOT / "hookspecs" / "transom_doors", allowed) == {}


def test_what_doors_share_loads_nothing_until_one_of_its_modules_is_asked_for(in_a_clean_process):
    look = "import sys; before = set(sys.modules); import transom_doors; print(*(set(sys.modules) - before))"
    assert in_a_clean_process(look).split() == ["transom_doors"]


@pytest.mark.req("KERN-1")
@pytest.mark.parametrize("plugin", sorted(PLUGINS))
def test_a_plugin_imports_the_specifications_itself_and_what_is_declared(repository, plugin):
    allowed = dependencies(ROOT / "pyproject.toml") | {"transom_hookspecs", "transom_doors"}
    assert strangers(repository, ROOT / "plugins" / plugin, allowed) == {}


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in (ROOT / "contrib").glob("*/pyproject.toml")))
def test_a_distribution_of_contrib_imports_the_specifications_itself_and_what_it_declares(repository, folder):
    place = ROOT / "contrib" / folder
    for package in place.glob("transom_*"):
        others = {other for name, other in OF_ANOTHER_PLUGIN if name == package.name}
        allowed = (dependencies(place / "pyproject.toml") - {"transom"}) | {"transom_hookspecs", "transom_doors"} | others
        assert strangers(repository, package, allowed) == {}


@pytest.mark.req("KERN-1")
def test_the_kernel_imports_no_plugin(repository):
    allowed = dependencies(ROOT / "pyproject.toml") | {"transom_hookspecs"}
    assert strangers(repository, ROOT / "kernel" / "transom", allowed) == {}


def test_what_is_for_tests_imports_the_kernel_and_tools_for_tests(repository):
    allowed = {"transom", "transom_hookspecs", "anyio", "httpx", "msgspec", "pytest", "hypothesis"}
    assert strangers(repository, ROOT / "kernel" / "transom_testing", allowed) == {}


@pytest.mark.req("KERN-1")
def test_the_kernel_names_no_plugin(repository):
    """Not by package anywhere, comments too; not by name in a text, unless the name is a word for the thing itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = set(project["entry-points"]["transom"]) - WORDS_OF_THEIR_OWN
    word = re.compile(rf"\b({'|'.join(sorted(names))})\b")
    found = set()
    for path in (ROOT / "kernel" / "transom").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not [name for name in PLUGINS if re.search(rf"\b{name}\b", text)], repository.name(path)
        texts = [n.value for n in ast.walk(repository.tree(path)) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        found |= {(path.name, name) for each in texts for name in word.findall(each)}
    assert found == set(NAMED_BY_THE_KERNEL)


def test_the_tenant_of_tenants_is_named_by_the_kernel_and_few_plugins(repository):
    users = set()
    for path in repository.files("plugins", "contrib", suffix=".py"):
        for node in ast.walk(repository.tree(path)):
            named = isinstance(node, ast.Name) and node.id == "SYSTEM"
            if named or (isinstance(node, ast.Attribute) and node.attr in ("SYSTEM", "system")):
                users.add(next(part for part in path.parts if part.startswith("transom_")))
    assert users <= set(SYSTEM_USERS)

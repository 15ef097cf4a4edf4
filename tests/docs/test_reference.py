"""The reference says what the code does: tables that a script writes are up to date, the others are complete."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from blocks import ROOT, section_of

import transom_flows.format as flows
from transom import dispatch, schemas, yaml
from transom.config import CLIENT_VARIABLES, Config, Limits
from transom.core import DRAIN
from transom.decisions import MOST_LOOKED_AT
from transom.filters import LONGEST_ERROR
from transom.jobs import MAX_TAG, MAX_TAGS
from transom.launcher import hook_families
from transom.start import MAX_ID
from transom.words import MAX_NAME, MAX_WORDS
from transom_agents.format import Declaration
from transom_board import BoardPlugin
from transom_board.notes import MOST_TAGS
from transom_cli.scaffold import KINDS
from transom_doors.bodies import MAX_DEPTH, MAX_FIELDS, MAX_VALUES
from transom_doors.streams import PATIENCE
from transom_flows.plan import MAX_STEPS
from transom_flows.runner import MAX_ITEMS
from transom_hookspecs import Context, Function, Rule, Step, TenantSettings, WaitKind, function
from transom_local_engine import LocalEnginePlugin
from transom_openai import ModelSettings
from transom_openapi.library import MAX_BYTES as MOST_DOCUMENTS
from transom_openapi.route import PATH as DOCUMENT
from transom_rest import RestPlugin
from transom_rest.routes import OPERATION, ROUTES, EditBody, TagsBody, WordBody
from transom_secrets.operations import MOST_BYTES, MOST_HOSTS, MOST_SECRETS

REFERENCE = ROOT / "docs" / "reference"
CODE = [*(ROOT / "kernel" / "transom").glob("*.py"), *(ROOT / "plugins").rglob("*.py"), *(ROOT / "hookspecs").rglob("*.py")]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_what_a_script_writes_is_up_to_date():
    command = [sys.executable, str(REFERENCE / "make.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert checked.returncode == 0, f"{checked.stdout}{checked.stderr}\nrun: python docs/reference/make.py"


# -- hooks ----------------------------------------------------------------------------------------------------------


def arguments_of(name: str, family: type) -> str:
    return ", ".join(list(inspect.signature(vars(family)[name]).parameters)[1:])


@pytest.mark.parametrize(("name", "family"), hook_families(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_hook_stands_there_with_its_exact_arguments_and_kind(name, family):
    said = section_of(REFERENCE / "hooks.md", f"`{name}({arguments_of(name, family)})`")
    assert said.strip().startswith(f"Kind: {dispatch.kind_of(name)}.")
    assert "Called " in said or "Around " in said or "call it yet" in said, "when it is called"


def test_no_hook_stands_there_that_is_not():
    headings = re.findall(r"^### `(\w+)\(", page("reference/hooks.md"), re.MULTILINE)
    assert sorted(headings) == sorted(name for name, _ in hook_families())


def test_a_hook_that_nobody_calls_is_said_to_be_uncalled():
    kernel = "".join(path.read_text() for path in CODE if "kernel" in path.parts)
    for name, _ in hook_families():
        uncalled = "does not call it yet" in section_of(REFERENCE / "hooks.md", heading_of(name))
        assert uncalled == (f'"{name}"' not in kernel), name


def heading_of(name: str) -> str:
    return next(f"`{n}({arguments_of(n, family)})`" for n, family in hook_families() if n == name)


# -- the REST API ---------------------------------------------------------------------------------------------------


def plain(path: str) -> str:
    """A route's path as pages write it: without the types of its parameters."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def test_every_route_stands_there_with_its_query():
    text = page("reference/rest.md")
    for route in ROUTES:
        path = plain(route.path)
        if "{rest}" not in path:
            assert f"`{route.method} {path}`" in text, f"{route.method} {path}"
        for name in route.query:
            assert f"`{name}`" in text or f"`{name}=" in text, f"{path}: {name}"
    assert "`GET /healthz`" in text
    assert f"`POST {plain(OPERATION)}`" in text


def test_every_route_that_stands_there_is_one():
    known = {f"{route.method} {plain(route.path)}" for route in ROUTES} | {
        "GET /healthz",
        f"POST {plain(OPERATION)}",
        f"GET {DOCUMENT}",
    }
    assert set(re.findall(r"`((?:GET|POST) /[^`]*)`", page("reference/rest.md"))) <= known


def test_every_field_of_a_body_stands_there():
    text = page("reference/rest.md")
    for body in (WordBody, EditBody, TagsBody):
        for name in body.__struct_fields__:
            assert re.search(rf'`{name}`|"{name}"', text), f"{body.__name__}.{name}"


# -- errors, steps, rules -------------------------------------------------------------------------------------------


def test_every_reason_stands_there():
    text = page("reference/errors.md")
    found = {reason for path in CODE for reason in re.findall(r'"reason": "(\w+)"', path.read_text())}
    assert found, "errors have reasons"
    assert not {reason for reason in found if f"`{reason}`" not in text}


def test_every_kind_of_step_stands_there():
    text = page("reference/steps.md")
    found = re.search(r"kind: (.*?)\.", inspect.getdoc(Step) or "")[1].split(", ")
    begun = {kind for path in CODE for kind in re.findall(r'journal\.step\([^,()]+, "(\w+)"', path.read_text())}
    assert {"model", "call", "ask"} <= begun <= set(found)
    assert not {kind for kind in (*found, "first", "together") if f"`{kind}`" not in text}


def test_every_call_of_the_context_stands_there():
    calls = {name for name, value in vars(Context).items() if inspect.isfunction(value) and not name.startswith("_")}
    text = page("reference/steps.md")
    assert not {name for name in calls if f"`ctx.{name}(" not in text}


def test_every_field_of_a_rule_and_every_kind_of_wait_stands_there():
    text = page("explanation/approvals.md")
    assert not {name for name in (*Rule.__struct_fields__, *get_args(WaitKind)) if f"`{name}`" not in text}


# -- documents and settings -----------------------------------------------------------------------------------------


def test_every_field_of_a_flows_step_stands_there():
    text = page("reference/flows.md")
    assert not {name for name in flows.Step.__struct_fields__ if f"`{name}`" not in text}


def test_every_mark_of_a_function_stands_there():
    text = page("how-to/write-a-plugin.md")
    marks = set(inspect.signature(function).parameters) - {"call", "name", "description"}
    assert not {mark for mark in marks if f"`{mark}=" not in text}


def test_every_kind_of_scaffold_stands_there():
    text = page("how-to/write-a-plugin.md")
    assert not {kind for kind in KINDS if f"`{kind}`" not in text}


def test_every_variable_of_the_command_line_stands_there():
    text = page("reference/configuration.md")
    assert not {name for name in CLIENT_VARIABLES if f"`{name}`" not in text}


def limit_rows() -> dict[str, str]:
    rows = re.findall(r"^\| (.*?) \| (.*?) \|", page("reference/limits.md"), re.MULTILINE)
    return {what: limit for what, limit in rows if what not in ("what", "---")}


def test_the_limits_are_those_of_the_code():
    limits, rest, model, agent = (
        Limits(),
        RestPlugin.Config(),
        ModelSettings(url="http://h/v1", model="m"),
        Declaration(model="m"),
    )
    board = BoardPlugin.Config()
    known = {
        "a wait for a person, where its agent does not say": f"{TenantSettings().wait_seconds / 3600:g} h",
        "a wait for money": f"{limits.budget_wait / 86_400:g} d",
        "a job, waits included": f"{limits.job / 86_400:g} d",
        "steps of one job": f"{limits.steps:,}",
        "calls of one model answer at once": f"{limits.parallel_calls}",
        "depth of delegation": f"{limits.depth}",
        "children of one job": f"{limits.children}",
        "jobs of one tree": f"{limits.tree_jobs}",
        "an input": f"{limits.input >> 20} MiB",
        "a call's arguments": f"{limits.arguments >> 10} KiB",
        "a call's result": f"{limits.result >> 20} MiB; cut, and says so",
        "a model's answer, a job's output": f"{limits.answer >> 20} MiB; more fails",
        "attempts of a model call whose answer broke off": f"{limits.attempts}",
        "workers in a row that die with a job before it waits for a person": f"{limits.deaths}",
        "requests to a model's server while nothing came": f"{model.tries}",
        "a model's server without a byte": f"{model.timeout:g} s",
        "one try of a function": f"{Function(name='f', call=str).timeout:g} s",
        "model calls of a declared agent": f"{agent.max_calls}",
        "tokens of one answer of a declared agent": f"{agent.max_tokens:,}",
        "a note": f"{board.note_bytes >> 10} KiB",
        "notes of one tree": f"{board.notes_per_tree:,}",
        "tags of a note": f"{MOST_TAGS}, of 64 characters",
        "tags of a job": f"{MAX_TAGS}, of {MAX_TAG} characters",
        "an ID of a job or conversation": f"{MAX_ID} characters",
        "a comment, a reason": f"{MAX_WORDS:,} characters",
        "a team's name, an event's source": f"{MAX_NAME} characters",
        "a secret": f"{MOST_BYTES >> 10} KiB, {MOST_HOSTS} hosts",
        "secrets of a tenant": f"{MOST_SECRETS:,}",
        "an error's message": f"{LONGEST_ERROR:,} characters; cut",
        "an Idempotency-Key": "128 visible ASCII characters",
        "levels of a request's body": f"{MAX_DEPTH}",
        "values of a request's body": f"{MAX_VALUES:,}",
        "a silent event stream gets a comment after": f"{rest.ping:g} s",
        "an event stream ends after": f"{rest.stream / 60:g} min",
        "OpenAPI documents that are kept ready": f"{MOST_DOCUMENTS >> 20} MiB",
        "a client that does not take the end of its stream is dropped after": f"{PATIENCE:g} s",
        "open waits looked at for one page of a list": f"{MOST_LOOKED_AT:,}",
        "a form": f"{MAX_FIELDS} fields",
        "jobs that one process advances at once": f"{LocalEnginePlugin.Config().jobs:,}",
        "a YAML document": f"{yaml.MAX_BYTES >> 20} MiB, {yaml.MAX_DEPTH} levels",
        "steps of a flow": f"{MAX_STEPS:,}",
        "items of a flow's `for_each`": f"{MAX_ITEMS}",
        "a JSON Schema": f"{schemas.MAX_SCHEMA >> 20} MiB, {schemas.MAX_DEPTH} levels, "
        f"patterns of {schemas.MAX_PATTERN:,} characters",
        "calls in flight at SIGTERM that may not be repeated get": f"{DRAIN:g} s",
    }
    assert limit_rows() == known


def test_every_limit_that_can_be_set_is_in_the_list():
    text = page("reference/limits.md")
    streaming = {"text_flush", "text_flush_bytes"}  # how often, not how much
    assert not {name for name in set(Limits.__struct_fields__) - streaming if f"`limits.{name}`" not in text}


def test_settings_of_the_pages_are_ones_that_there_are():
    named = {name for path in (ROOT / "docs").rglob("*.md") for name in re.findall(r"`plugins\.(\w+)`", path.read_text())}
    plugins = next(field.type for field in msgspec.structs.fields(Config) if field.name == "plugins")
    assert named <= set(plugins.__struct_fields__)


def test_where_the_reference_is_made_no_meaning_is_left_over():
    """A meaning of a key that is gone would be forgotten in the script."""
    sys.path.insert(0, str(REFERENCE))
    try:
        import make
    finally:
        sys.path.remove(str(REFERENCE))
    source = Path(make.__file__).read_text()
    tables = "".join(make.PARTS[name]() for name in ("kernel-settings", "plugin-settings", "agent-fields", "flow-fields"))
    for key, meaning in make.MEANINGS.items():
        assert meaning in tables, f"{key} of {len(source)} characters of make.py"

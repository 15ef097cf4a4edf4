"""A client that a generator from elsewhere makes of the demo tenant's document, at work on a real server."""

import importlib
import subprocess
import sys
import time
from pathlib import Path

import anyio
import httpx
import pytest
from servers import Server

from transom_hookspecs import AgentView
from transom_openapi.document import document_of

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("server") / "data")
    anyio.run(server.start)
    yield server
    server.stop()


def generate(document: bytes, folder: Path, name: str) -> list[str]:
    """Make a client's package in a folder; returns what the generator could not do."""
    (folder / "transom.json").write_bytes(document)
    (folder / "generator.yaml").write_text("post_hooks: []\n")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", "transom.json", "--meta", "none"]
    command += ["--config", "generator.yaml", "--output-path", name]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith((" ", "{", "}", "Generating"))]
    return [line for line in lines if not line.startswith(("WARNING parsing", "Warning(s)", "If you believe"))]


@pytest.fixture
def generated(server, tmp_path, monkeypatch):
    """The package of a client, made of the document that one of the demo's people gets."""
    answer = httpx.get(f"{server.url}/v1/openapi.json", headers={"Authorization": f"Bearer {server.tokens['anna']}"})
    problems = generate(answer.content, tmp_path, "demo_client")
    assert set(problems) == {"Unsupported content type text/plain"}, "a text is sent as JSON"
    monkeypatch.syspath_prepend(tmp_path)
    yield "demo_client"
    for name in [name for name in sys.modules if name.partition(".")[0] == "demo_client"]:
        del sys.modules[name]


def completed(run, **options):
    """The job once it is done: the same start again answers with it."""
    until = time.monotonic() + 30
    while (job := run(**options)).status != "completed":
        assert time.monotonic() < until, job
        time.sleep(0.05)
    return job


@pytest.mark.req("REST-3")
def test_it_starts_agents_and_gets_what_they_answer_typed(generated, server):
    def module(name):
        return importlib.import_module(f"{generated}.{name}")

    models = module("models")
    with module("client").AuthenticatedClient(base_url=server.url, token=server.tokens["anna"]) as client:
        started = module("api.agents.run_echo").sync_detailed(client=client, id="e1", body="hello")
        assert (started.status_code, type(started.parsed), started.parsed.retried) == (201, models.EchoJob, False)
        echoed = completed(module("api.agents.run_echo").sync, client=client, id="e1", body="hello")
        assert (echoed.output, echoed.retried) == ("hello", True)

        carded = completed(module("api.agents.run_carder").sync, client=client, idempotency_key="k1", body="hello")
        assert isinstance(carded.output, models.CarderOutput)
        assert (carded.output.title, carded.output.body) == ("A card", "You wrote: hello")

        asked = models.AcmeReviewerInput(repo="acme/api", pr=42)
        reviewed = completed(module("api.agents.run_acme_reviewer").sync, client=client, id="r1", body=asked)
        assert reviewed.output == "Reviewed acme/api#42."

        job = module("api.jobs.get_job").sync("e1", client=client)
        assert (type(job), job.id, job.output, job.closed_at.tzinfo is not None) == (models.Job, "e1", "hello", True)
        refused = module("api.jobs.get_job").sync("nothing", client=client)
        assert (type(refused), refused.code) == (models.Error, "not_found")


@pytest.mark.req("REST-3")
def test_it_has_every_operation(generated, server, tmp_path):
    answer = httpx.get(f"{server.url}/v1/openapi.json", headers={"Authorization": f"Bearer {server.tokens['anna']}"})
    expected = {each["operationId"] for item in answer.json()["paths"].values() for each in item.values()}
    made = {path.stem for path in (tmp_path / generated / "api").glob("*/*.py")} - {"__init__"}
    assert made == expected


def item(kind: str) -> dict:
    """A schema with a definition that another agent has too, under the same name and title."""
    inner = {"title": "Item", "type": "object", "properties": {"n": {"type": kind}}, "required": ["n"]}
    items = {"type": "array", "items": {"$ref": "#/$defs/Item"}}
    return {"title": "Input", "type": "object", "properties": {"items": items}, "required": ["items"], "$defs": {"Item": inner}}


@pytest.mark.req("REST-3")
def test_schemas_that_refer_to_themselves_and_share_names_become_models_of_their_own(tmp_path):
    node = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}
    agents = [
        AgentView(name="a", input_schema=item("integer"), output_schema={"$ref": "#/$defs/Node", "$defs": {"Node": node}}),
        AgentView(name="b-1", input_schema=item("string"), output_schema=item("boolean")),
    ]
    problems = generate(document_of("default", "", agents), tmp_path, "made_client")
    assert problems == []
    models = {path.stem for path in (tmp_path / "made_client" / "models").glob("*.py")}
    assert {"a_input", "a_input_item", "a_output", "a_job", "b1_input", "b1_input_item", "b1_output_item"} <= models
    texts = {name: (tmp_path / "made_client" / "models" / f"{name}.py").read_text() for name in models}
    assert "n: int" in texts["a_input_item"]
    assert "n: str" in texts["b1_input_item"]
    assert "kids: list[AOutput]" in texts["a_output"]

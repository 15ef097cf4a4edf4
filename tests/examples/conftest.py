"""The examples are copied to a folder of the test's own, installed as a user would, and run by the real script."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TRANSOM_")}
SCRIPT = Path(sys.executable).with_name("transom")


@pytest.fixture
def example(tmp_path: Path) -> Callable[[str], Path]:
    """A copy of an example's folder, where it may be run."""

    def copy(name: str) -> Path:
        return Path(shutil.copytree(REPOSITORY / "examples" / name, tmp_path / name))

    return copy


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, str]]:
    """Install folders with pip; returns the environment in which they are there."""

    def install(*folders: Path) -> dict[str, str]:
        site = tmp_path_factory.mktemp("site")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--target", str(site), *map(str, folders)], check=True)
        return {**ENVIRONMENT, "PYTHONPATH": str(site)}

    return install


@pytest.fixture
def transom() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the `transom` script to its end in a folder."""

    def run(*args: str, cwd: Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(SCRIPT), *args],
            cwd=cwd,
            env=environment or ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run

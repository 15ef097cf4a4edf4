"""One shell for a page, servers in its background, and commands at a terminal."""

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

from expected import Names

PATIENCE = 40.0
_MARK = "@@done@@"
_PROMPT = re.compile(
    r"(?P<prompt>Approve\? .*?: |Type the value of .*?: |Number or answer .*?: |Answer \(.*?: |\[d\]one.*?: )(?P<typed>.*)"
)
"""What the command line asks at a terminal, and what a page shows as typed."""


def environment_of(folder: Path) -> dict[str, str]:
    """This process's environment without settings of Transom's, and the page's folder for everything."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRANSOM_", "OZ0_", "PYTEST_"))}
    binaries = folder.parent / "bin"
    _provide(binaries)
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return {
        **kept,
        "PYTHONPYCACHEPREFIX": str(folder.parent.parent / "pycache"),  # of all pages, so that each start need not compile
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
            start_new_session=True,
        )

    def close(self) -> None:
        """End what still runs: the server first, then all that the shell started."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self.stop_server()
        finally:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
            self._process.stdin.close()
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

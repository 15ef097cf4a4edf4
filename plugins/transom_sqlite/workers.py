"""Workers: each process that has the store open holds the lock of a file; a free lock means that its process is gone."""

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path


class Workers:
    """The lock files of a data folder, one a process.

    Parameters:
        folder: where they stand.
        worker: this process's own ID.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.worker = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._held = -1

    def hold(self) -> None:
        """Take this process's own lock, until `release` or the process's end."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(self.worker)
        while self._held < 0:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(file, path):  # else somebody took it for a stale file between the two calls, and removed it
                self._held = file
            else:
                os.close(file)

    def release(self) -> None:
        """Remove this process's own lock file."""
        if self._held >= 0:
            self._path(self.worker).unlink(missing_ok=True)
            os.close(self._held)
            self._held = -1

    def alive(self, worker: str) -> bool:
        """Whether a worker's lock is held; a stale file is removed."""
        if worker == self.worker:
            return self._held >= 0
        if "/" in worker:
            return False
        path = self._path(worker)
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            # Shared, so that two who test at once do not take each other for the owner.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if _is_at(file, path):
                path.unlink(missing_ok=True)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(file)

    def others(self) -> bool:
        """Whether another process has the store open."""
        with suppress(FileNotFoundError):
            names = [entry.name.removesuffix(".lock") for entry in os.scandir(self.folder) if entry.name.endswith(".lock")]
            return any(self.alive(name) for name in names if name != self.worker)
        return False

    def _path(self, worker: str) -> Path:
        return self.folder / f"{worker}.lock"


def _is_at(file: int, path: Path) -> bool:
    """Whether the open file is still the one at the path."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False

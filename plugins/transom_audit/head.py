"""`audit.head` in the data folder: each tenant's last entry, written beside the store about once a second.

Who cuts off the end of a trail in the store has to change this file as well, and copies of it elsewhere tell on both.
The file never goes back: an older head of a chain does not replace a newer one, whichever process writes, and one that
is not in the chain any more stays, for `audit verify` to find.
"""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import anyio
import msgspec
from anyio import to_thread

from transom_hookspecs import AuditChain, Kernel, TransomError

from .walk import Head

EVERY = 1.0
"""Seconds between two looks at the chains."""

PATIENCE = 1.0
"""Seconds that another process may take to write the file."""

REMIND = 240.0
"""Seconds after which health is told once more of what is still wrong."""

Heads = dict[str, Head]


class HeadFile:
    """The file itself. Every method blocks: call it on a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "audit.head"

    def read(self) -> Heads:
        """Each tenant's head; none when there is no file.

        Raises:
            TransomError: data_loss when it is not what was written.
        """
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Heads)
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TransomError(
                "data_loss",
                f"{str(self._path)!r} is damaged: {error}; compare the trail with a copy of it, then remove the file",
                {"path": str(self._path)},
            ) from error

    def write(self, news: Mapping[str, Head], known: Mapping[str, Head]) -> None:
        """Put newer heads into the file, at once or not at all.

        Parameters:
            news: by tenant, each of which follows on the one that is known.
            known: what the file had when that was found out; what others wrote since stays when it is newer.
        """
        with self._alone() as folder:
            heads = self.read()
            for tenant, head in news.items():
                there = heads.get(tenant)
                if there is None or there == known.get(tenant) or there.number < head.number:
                    heads[tenant] = head
            self._replace(msgspec.json.format(msgspec.json.encode(heads, order="sorted"), indent=1) + b"\n")
            os.fsync(folder)

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """Keep other processes from writing, by the folder's own lock, so that none is left behind; gives the folder."""
        folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            end = time.monotonic() + PATIENCE
            while not _locked(folder):
                if time.monotonic() > end:
                    raise TransomError("unavailable", f"another process holds {str(self._folder)!r}; audit.head is older")
                time.sleep(0.01)
            yield folder
        finally:
            os.close(folder)

    def _replace(self, data: bytes) -> None:
        beside = self._path.with_suffix(".new")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)


def _locked(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class HeadKeeper:
    """Keeps the file up to date while the process runs.

    Parameters:
        kernel: whose store and data folder it is.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.file = HeadFile(Path(kernel.data))
        self._kernel = kernel
        self._kept: Mapping[str, AuditChain] = {}
        self._trouble, self._told = "", 0.0

    @property
    def has_store(self) -> bool:
        """Whether there is a store; without one there is no trail."""
        try:
            return bool(self._kernel.store)
        except TransomError:
            return False

    async def often(self) -> None:
        """Keep the file about once a second, until cancelled."""
        while True:
            await anyio.sleep(EVERY)
            await self.keep()

    async def keep(self) -> None:
        """Bring the file up to date; what is wrong with that is told in health."""
        try:
            await self._keep()
            self._trouble = ""
        except (TransomError, OSError) as error:
            now = time.monotonic()
            if str(error) != self._trouble or now - self._told > REMIND:
                self._trouble, self._told = str(error), now
                self._kernel.report("keeping audit.head", error)

    async def _keep(self) -> None:
        if await self._kernel.store.audit_chains() == self._kept:
            return
        known = await to_thread.run_sync(self.file.read)
        chains = await self._kernel.store.audit_chains()  # read after the file, so that none is older than what it says
        lost = [tenant for tenant, head in known.items() if not await self._stands(tenant, head, chains.get(tenant))]
        news = {
            tenant: Head(number=chain.number, hash=chain.hash, at=chain.at)
            for tenant, chain in chains.items()
            if tenant not in lost
        }
        if any(known.get(tenant) != head for tenant, head in news.items()):
            await to_thread.run_sync(self.file.write, news, known)
        if lost:
            raise TransomError(
                "data_loss",
                f"the audit trail of {', '.join(map(repr, lost))} no longer has the entry that audit.head names; "
                "run `transom audit verify`",
            )
        self._kept = chains

    async def _stands(self, tenant: str, head: Head, chain: AuditChain | None) -> bool:
        """Whether a head of the file is still in its chain, or was cut off at its beginning."""
        if chain is None or head.number < chain.cut:
            return chain is not None
        if head.number == chain.cut:
            return head.hash == chain.cut_hash
        rows = await self._kernel.store.audit(tenant, head.number - 1, 1)
        return bool(rows) and (rows[0].number, rows[0].hash) == (head.number, head.hash)

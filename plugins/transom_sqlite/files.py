"""The database's file: where it may stand, how it is opened, and what SQLite's errors are called here."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transom_hookspecs import StoreUnavailable, TransomError

NETWORK = frozenset(
    (
        *("9p", "afs", "ceph", "cifs", "davfs", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"),
        *("fuse.davfs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs"),
    )
)
"""File systems whose locks or shared memory do not hold what SQLite's WAL needs."""

PATIENCE = 10.0
"""How long another program may hold the file, in seconds."""

_RETRY = 0.001


def prepare(folder: Path, database: Path) -> int:
    """Make the data folder (0700) and the database's file (0600), and refuse a place where SQLite is not safe.

    Returns the file's descriptor, to be closed after all connections: POSIX takes a process's locks away with any of them.

    Raises:
        TransomError: failed_precondition, naming the path, what is wrong and what to do.
    """
    try:
        for path in (folder, database.parent):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            refuse_network(path)
        return os.open(database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unusable(
            database, f"cannot be written ({error.strerror}); choose a folder that this user may write to"
        ) from error


def refuse_network(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Refuse a folder on a network file system, as far as this platform tells."""
    if (kind := file_system(folder, mounts)) in NETWORK:
        raise unusable(
            folder,
            f"is on a network file system ({kind}), where SQLite's locks are not safe; "
            "use a folder on a local disk, or the PostgreSQL store",
        )


def file_system(folder: Path, mounts: Path) -> str:
    """The kind of file system that a folder is on, or empty when the platform does not tell."""
    if not mounts.exists():
        return ""
    real, found, kind = str(folder.resolve()), "", ""
    for line in mounts.read_text(errors="replace").splitlines():
        _, point, candidate, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(found):
            found, kind = point, candidate
    return kind


def connect(database: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection without transactions of its own; the busy timeout stands before anything else is asked of it."""
    mode = "ro" if read_only else "rw"
    connection = sqlite3.connect(
        f"{database.resolve().as_uri()}?mode={mode}",
        uri=True,
        timeout=PATIENCE,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
    )
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def connect_writer(database: Path) -> sqlite3.Connection:
    """The connection that writes: in WAL mode, with deleted content overwritten."""
    connection = connect(database)
    try:
        connection.execute("PRAGMA auto_vacuum = NONE")  # of a fresh file; scrubbing knows no pages of that
        _use_wal(connection, database)
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA journal_size_limit = 4194304")
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("PRAGMA busy_timeout = 0")  # `begin` waits in shorter steps than SQLite does
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection, database: Path) -> None:
    """Switch to WAL; SQLite does not wait by itself when several processes switch a fresh file at once."""
    for _ in retries():
        with ignoring_busy():
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode == "wal":
                return
            raise unusable(database, "is on a file system without shared memory, which SQLite's WAL needs; use a local disk")
    raise locked(database)


def begin(connection: sqlite3.Connection, database: Path) -> None:
    """Begin a transaction that writes, waiting in short steps while another process has one."""
    for _ in retries():
        with ignoring_busy():
            connection.execute("BEGIN IMMEDIATE")
            return
    raise locked(database)


def check_place(database: Path, number: int) -> None:
    """Refuse to go on in a file that is no longer where it was: what is written there is lost when the process ends.

    Parameters:
        number: the file's inode when it was opened.

    Raises:
        StoreUnavailable: it was removed, or another one was put in its place.
    """
    try:
        if database.stat().st_ino == number:
            return
    except FileNotFoundError:
        pass
    raise StoreUnavailable(
        f"the store at {str(database)!r} was removed or replaced while in use; nothing is kept; restore the file and restart"
    )


def undo(connection: sqlite3.Connection) -> None:
    """Undo the transaction, if SQLite has not undone it already."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def retries() -> Iterator[None]:
    """Go on for as long as another program may hold the file, in short steps."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        yield
        time.sleep(_RETRY)


@contextmanager
def ignoring_busy() -> Iterator[None]:
    """Leave out that the file is held by another."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another holds the file at the moment."""
    return _primary(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _primary(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


@contextmanager
def opening(database: Path) -> Iterator[None]:
    """What goes wrong while the store opens: one sentence each, and what to do."""
    try:
        yield
    except OSError as error:
        raise unusable(
            database, f"cannot be written ({error.strerror}); choose a folder that this user may write to"
        ) from error
    except sqlite3.Error as error:
        code = _primary(error)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise locked(database) from error
        if code == sqlite3.SQLITE_FULL:
            raise _full(database) from error
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise unusable(database, f"is damaged or no database ({error}); restore a backup or name another path") from error
        raise unusable(database, f"cannot be used by SQLite ({error}); check its folder's rights and disk") from error


def translated(error: sqlite3.Error, database: Path) -> TransomError:
    """What an error of SQLite's is called here."""
    code = _primary(error)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return locked(database)
    if code == sqlite3.SQLITE_FULL:
        return _full(database)
    if code == sqlite3.SQLITE_CONSTRAINT:
        return TransomError("invalid_argument", f"the record cannot be stored: {error}")
    if code in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE):
        return TransomError("internal", f"the store's statement failed: {error}")
    return StoreUnavailable(f"the store at {str(database)!r} cannot be used now ({error}); check its disk")


def locked(database: Path) -> StoreUnavailable:
    """Another program holds the file for too long."""
    return StoreUnavailable(
        f"another program has held the store at {str(database)!r} for {PATIENCE:.0f} s; end its transaction or close it"
    )


def _full(database: Path) -> StoreUnavailable:
    return StoreUnavailable(f"the disk of the store at {str(database)!r} is full; nothing was kept; free some space")


def unusable(path: Path, why: str) -> TransomError:
    """The place cannot be used as it is."""
    return TransomError("failed_precondition", f"the store at {str(path)!r} {why}", {"path": str(path)})

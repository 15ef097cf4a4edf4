"""Where the keys are kept that secrets are encrypted with: a file of the data folder, a variable, or the OS keyring.

It is a text, one key a line in base64. There is one key, and while it is changed there are two: which of them is in use
says the store. Everything here reads and writes: call it in a thread.
"""

import binascii
import fcntl
import os
import secrets
import stat
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from transom_hookspecs import TransomError

from .cipher import KEY_BYTES, Key, new_key

FILE: Final = "secrets.key"
_LOCK: Final = "secrets.key.lock"
_SERVICE: Final = "transom"


class Keeper(Protocol):
    """A place for the keys' text."""

    where: str
    """What a message calls it."""
    writable: bool
    """Whether this process may change it."""

    def read(self) -> str | None:
        """The text; None when there is none yet."""

    def write(self, text: str) -> None:
        """Put another in its place, at once or not at all."""


class Keys:
    """The keys, in one place."""

    def __init__(self, keeper: Keeper, folder: Path) -> None:
        self._keeper, self._folder = keeper, folder

    @property
    def where(self) -> str:
        """What a message calls the place."""
        return self._keeper.where

    @property
    def writable(self) -> bool:
        """Whether this process may change them; else an operator does, and restarts it."""
        return self._keeper.writable

    def read(self) -> tuple[Key, ...]:
        """The keys, none when there are none.

        Raises:
            TransomError: failed_precondition when they are damaged, others may read them, or the place cannot be read.
        """
        text = self._keeper.read()
        return () if text is None else parsed(text, self.where)

    def made(self) -> tuple[Key, ...]:
        """The keys, with a first one made when there is none; processes that start at once get the same one."""
        if found := self.read():
            return found
        if not self.writable:
            raise TransomError("failed_precondition", f"{self.where} is not set; put 32 random bytes in base64 there")
        with self.locked():
            if not (found := self.read()):
                self.write([new_key()])
        return found or self.read()

    def write(self, keys: Sequence[Key]) -> None:
        """Put these in the place of those that are there."""
        self._keeper.write("".join(f"{b64encode(key.bytes).decode()}\n" for key in keys))

    @contextmanager
    def locked(self, *, wait: bool = True) -> Iterator[None]:
        """Keep every other process from changing the keys; the lock ends with the process.

        Raises:
            TransomError: aborted when another one does, and this one shall not wait.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(file, wait=wait)
            yield
        finally:
            os.close(file)


def _lock(file: int, *, wait: bool) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        raise TransomError("aborted", "another process changes the secrets' key right now; try again") from error


def parsed(text: str, where: str) -> tuple[Key, ...]:
    """The keys of a text, in their order.

    Raises:
        TransomError: failed_precondition; nothing of the text is in the message.
    """
    try:
        found = [Key(b64decode(word, validate=True)) for word in text.replace(",", " ").split()]
    except (binascii.Error, ValueError):
        found = []
    if not found or any(len(key.bytes) != KEY_BYTES for key in found):
        raise TransomError(
            "failed_precondition", f"{where} holds no keys of {KEY_BYTES} bytes in base64; restore it from a backup"
        )
    return tuple(dict.fromkeys(found))


class FileKeeper:
    """The file `secrets.key` of the data folder, which only its owner may read."""

    writable = True

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self.where = str(self._path)

    def read(self) -> str | None:
        """Its text, when nobody else may read it."""
        try:
            with self._path.open(encoding="ascii", errors="replace") as opened:
                shared = os.fstat(opened.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO)
                text = opened.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from error
        if shared:
            raise TransomError("failed_precondition", f"{self.where}: others may read it; run `chmod 600` on it")
        return text

    def write(self, text: str) -> None:
        """Write it beside and put it in place, so that it is never seen half written and survives a loss of power."""
        draft = self._path.with_name(f".{FILE}.{secrets.token_hex(8)}")
        try:
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(file, "w", encoding="ascii") as opened:
                opened.write(text)
                opened.flush()
                os.fsync(file)
            draft.replace(self._path)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> TransomError:
        return TransomError("failed_precondition", f"{self.where}: {error.strerror}; use a data folder that can be written")


class VariableKeeper:
    """A variable of the environment, whose first key is the one to use."""

    writable = False

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self.where = f"the environment variable {name}"
        self._text = environment.get(name)

    def read(self) -> str | None:
        """Its text."""
        return self._text or None

    def write(self, text: str) -> None:
        """Nobody can write it from inside."""
        raise TransomError("failed_precondition", f"{self.where} is changed by whoever sets it")


class KeyringKeeper:
    """The OS keyring, under the service `transom` and the data folder's path."""

    writable = True

    def __init__(self, folder: Path) -> None:
        self._account = str(folder.resolve())
        self.where = f"the OS keyring (service {_SERVICE}, account {self._account})"

    def read(self) -> str | None:
        """Its entry."""
        try:
            import keyring
            from keyring.errors import KeyringError
        except ImportError as error:
            raise TransomError(
                "failed_precondition", "[secrets] keyring: the package is not installed; run `pip install transom[keyring]`"
            ) from error
        try:
            return keyring.get_password(_SERVICE, self._account)
        except KeyringError as error:
            raise TransomError("failed_precondition", f"{self.where} cannot be read: {type(error).__name__}") from error

    def write(self, text: str) -> None:
        """Set its entry."""
        import keyring
        from keyring.errors import KeyringError

        try:
            keyring.set_password(_SERVICE, self._account, text)
        except KeyringError as error:
            raise TransomError("failed_precondition", f"{self.where} cannot be written: {type(error).__name__}") from error

"""The data folder's key."""

import os
import secrets
from pathlib import Path

from transom_hookspecs import TransomError

SECRET_FILE = "kernel.key"  # noqa: S105 - a file's name
SIZE = 32


def load_secret(data: Path) -> bytes:
    """The data folder's key, made when it is missing; two processes that start at once get the same one."""
    path = data / SECRET_FILE
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}.{secrets.token_hex(4)}")
    if not path.exists():
        fresh.touch(mode=0o600, exist_ok=False)
        fresh.write_bytes(secrets.token_bytes(SIZE))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    key = path.read_bytes()
    if len(key) != SIZE:
        raise TransomError(
            "failed_precondition",
            f"{path} has {len(key)} bytes, not {SIZE}: restore it from a backup, or remove it for a new one",
        )
    return key

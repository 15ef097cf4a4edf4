"""The data folder's key."""

import os
import secrets
from pathlib import Path

SECRET_FILE = "kernel.key"  # noqa: S105 - a file's name


def load_secret(data: Path) -> bytes:
    """The data folder's key, made when it is missing; two processes that start at once get the same one."""
    path = data / SECRET_FILE
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}.{secrets.token_hex(4)}")
    if not path.exists():
        fresh.touch(mode=0o600, exist_ok=False)
        fresh.write_bytes(secrets.token_bytes(32))
        try:
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_bytes()

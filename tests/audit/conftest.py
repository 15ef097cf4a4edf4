"""Audit trails as the store of a real file has them."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def edit(tmp_path: Path) -> Callable[..., None]:
    """Change a data folder's database by hand: `edit("DELETE FROM audit WHERE number = ?", 3)`."""

    def run(statement: str, *values: object, data: Path = tmp_path / "data") -> None:
        with closing(sqlite3.connect(data / "transom.db", timeout=10)) as tool, tool:
            assert tool.execute(statement, values).rowcount != 0, "nothing was changed"

    return run

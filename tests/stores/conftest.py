from pathlib import Path

import pytest

from transom_sqlite import SqliteStore

pytest.register_assert_rewrite(*(f"transom_testing.store_{part}" for part in ("contract", "kit", "records")))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def make(data: Path):
    """A store on the test's data folder; two of them are two workers."""

    def make(folder: Path = data, **settings) -> SqliteStore:
        store = SqliteStore(**settings)
        store.data = str(folder)
        return store

    return make

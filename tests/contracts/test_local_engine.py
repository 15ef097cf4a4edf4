"""The built-in engine does what every engine must."""

import pytest

from transom_testing.contracts import EngineContract


class TestLocalEngine(EngineContract):
    @pytest.fixture
    def plugin(self) -> str:
        return "local_engine"

    @pytest.fixture
    def config(self) -> dict[str, dict[str, float]]:
        return {"local_engine": {"sweep": 0.1}}

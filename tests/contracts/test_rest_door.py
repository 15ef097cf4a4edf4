"""The REST door does what every door must, on each of its routes."""

import re

import pytest

from transom_rest.routes import OPERATION, ROUTES
from transom_testing.contracts import DoorContract


class TestRestDoor(DoorContract):
    routes = tuple(
        (method, re.sub(r"\{\w+:\w+\}", "x", path))
        for method, path in [*((route.method, route.path) for route in ROUTES), ("POST", OPERATION)]
    )

    @pytest.fixture
    def plugin(self) -> str:
        return "rest"

"""The REST door does what every door must, on each of its routes."""

import re

import pytest

from transom_rest.routes import ROUTES
from transom_testing.contracts import DoorContract


class TestRestDoor(DoorContract):
    routes = tuple((route.method, re.sub(r"\{\w+:\w+\}", "x", route.path)) for route in ROUTES)

    @pytest.fixture
    def plugin(self) -> str:
        return "rest"

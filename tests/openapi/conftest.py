"""What the tests of the document share."""

from collections.abc import Callable
from typing import Any

import pytest
from openapi_kit import Rights


@pytest.fixture
def rights() -> Rights:
    return Rights()


@pytest.fixture
def as_caller(door_client) -> Callable[..., Any]:
    """A client in process, as somebody: `async with as_caller(k, "anna") as client`."""
    return lambda k, who: door_client(k, token=who)

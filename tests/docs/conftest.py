"""What the tests of the documentation share."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from page import Page


@pytest.fixture
def page(tmp_path) -> Iterator[Page]:
    """Something to run the blocks of one page with."""
    made = Page(tmp_path)
    yield made
    made.close()

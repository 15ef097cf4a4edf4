"""What all tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster, blockbuster_ctx

AT_START = (
    ("transom/app.py", {"__init__"}),  # a kernel is made of files: settings, entry points, bundles
    ("transom/catalog.py", {"fill"}),
    ("transom/plugins.py", {"load", "installed"}),
    ("transom_testing/fixtures.py", {"resolve"}),
)
ON_THE_LOOP = (("transom_sqlite/reader.py", {"short", "until"}),)
"""The store's short reads: the one blocking call that is allowed on the event loop."""

PLUGINS = Path(__file__).parent.parent / "plugins"
OURS = ["transom", "transom_doors", *(path.name for path in PLUGINS.iterdir() if (path / "__init__.py").is_file())]


@pytest.fixture(autouse=True)
def no_blocking_call() -> Iterator[BlockBuster]:
    """A blocking call of ours on the event loop fails the test."""
    with blockbuster_ctx(OURS) as blocking:
        for each in blocking.functions.values():
            for file, functions in (*AT_START, *ON_THE_LOOP):
                each.can_block_in(file, functions)
        yield blocking

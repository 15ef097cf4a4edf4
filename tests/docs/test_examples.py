"""Every example of the README and the docs runs, and prints what the page says."""

import pytest
from blocks import KINDS, PAGES, ROOT, blocks_of

WITH_BLOCKS = [page for page in PAGES if any(block.language != "text" for block in blocks_of(page))]


@pytest.mark.parametrize("path", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_of_a_kind_that_is_tested(path):
    unknown = [f"{block.where}: {block.language!r} {block.kind!r}" for block in blocks_of(path) if not block.known]
    assert not unknown, f"say what they are: {KINDS}"


def test_every_kind_of_block_is_used():
    used = {(block.language, block.kind) for page in PAGES for block in blocks_of(page)}
    assert used == {(language, kind) for language, kinds in KINDS.items() for kind in kinds}


@pytest.mark.parametrize("path", WITH_BLOCKS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(path, page):
    if path.parent == ROOT:
        page.add_examples()
    for block in blocks_of(path):
        page.do(block)

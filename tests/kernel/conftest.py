"""What the kernel's tests share."""

import pytest
from job_kit import EagerStore


@pytest.fixture
def eager_store(no_blocking_call) -> EagerStore:
    """A store whose commits are told of before whoever wrote runs again; the test says from when on (`eager`)."""
    no_blocking_call.functions["time.sleep"].can_block_in("job_kit.py", {"transact"})
    return EagerStore()

"""The contracts' assertions say what they compared, as a test module's own do."""

import pytest

pytest.register_assert_rewrite(*(f"transom_testing.{each}_contract" for each in ("door", "engine", "filter")))

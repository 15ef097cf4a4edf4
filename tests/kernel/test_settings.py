"""Settings that make no sense stop the start, and say which one and why."""

from pathlib import Path

import pytest

from transom.config import load
from transom.secret import SECRET_FILE, load_secret
from transom_hookspecs import TransomError


@pytest.mark.req("KERN-5")
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[limits]\njob = nan\n", "job"),
        ("[limits]\njob = -1\n", "job"),
        ("[limits]\nsteps = 0\n", "steps"),
        ('tenants = ["a b"]\n', "tenants"),
        ('tenants = ["$system"]\n', "tenants"),
    ],
)
def test_a_setting_out_of_its_range_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "transom.toml"
    path.write_text(text)
    with pytest.raises(TransomError, match=named) as refused:
        load(str(path), {})
    assert refused.value.code == "invalid_argument"
    assert str(path) in refused.value.message


def test_a_variable_that_is_set_but_empty_is_not_set() -> None:
    assert load("", {"TRANSOM_HOST": "", "TRANSOM_PORT": "8000"}).host == "127.0.0.1"


def test_a_key_of_another_length_is_refused_and_not_used(tmp_path: Path) -> None:
    assert len(load_secret(tmp_path)) == 32
    (tmp_path / SECRET_FILE).write_bytes(b"abc")
    with pytest.raises(TransomError, match="has 3 bytes, not 32"):
        load_secret(tmp_path)

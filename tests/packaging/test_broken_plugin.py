"""The commands that list and block plugins work when one is broken, whatever is wrong with it."""

import json

import pytest

pytestmark = pytest.mark.req("KERN-4")

GOOD = """
from transom_hookspecs import hookimpl

class Plugin:
    spec = "1.0"
    def __init__(self, config): pass
"""

BROKEN = {
    "an import that fails": "raise RuntimeError('no luck')",
    "an import that ends the program": "raise SystemExit('no luck')",
    "an unknown hook": f"{GOOD}    @hookimpl\n    def register_bells(self): ...\n",
    "an instance that cannot be made": f"{GOOD}    def __init__(self, config): raise RuntimeError('no luck')\n",
    "a command that fails": f"{GOOD}    @hookimpl\n    def register_commands(self): raise RuntimeError('no luck')\n",
}


@pytest.fixture(params=list(BROKEN))
def site(request, distribute):
    """A folder with a broken plugin."""
    return distribute("my-bells", {"bells": "bells:Plugin"}, "3.1", bells=BROKEN[request.param])


def bells(listed) -> dict[str, object]:
    """What a list of plugins says of the broken one."""
    (found,) = [each for each in json.loads(listed.stdout)["plugins"] if each["name"] == "bells"]
    return found


def test_it_is_listed_and_blocked(python, site):
    before = bells(python("-m", "transom", "plugins", "list", "--json", sites=(site,)))
    assert (before["distribution"], before["version"]) == ("my-bells", "3.1")
    assert python("-m", "transom", "plugins", "block", "bells", sites=(site,)).returncode == 0
    after = python("-m", "transom", "plugins", "list", "--json", sites=(site,))
    assert (after.returncode, after.stderr) == (0, "")
    assert bells(after)["state"] == "blocked"


def test_commands_that_cannot_be_had_are_told_of_in_one_line_and_all_others_are_there(python, distribute):
    site = distribute("my-bells", {"bells": "bells:Plugin"}, "3.1", bells=BROKEN["a command that fails"])
    shown = python("-m", "transom", "--help", sites=(site,))
    assert (shown.returncode, "plugins" in shown.stdout) == (0, True)
    (line,) = shown.stderr.splitlines()
    assert "plugin 'bells' (distribution my-bells 3.1)" in line
    assert "register_commands failed: RuntimeError: no luck" in line


def test_all_else_that_needs_no_plugin_works_and_what_does_tells_why_not(python, distribute, tmp_path):
    site = distribute("my-bells", {"bells": "bells:Plugin"}, "3.1", bells=BROKEN["an import that fails"])

    def transom(*args: str):
        return python("-m", "transom", *args, sites=(site,))

    assert transom("--version").returncode == 0
    assert "plugins" in transom("--help").stdout
    refused = transom("catalog")
    assert refused.returncode != 0
    assert "plugin 'bells' (distribution my-bells 3.1) cannot be imported: RuntimeError: no luck" in refused.stderr
    assert "Traceback" not in refused.stderr

    transom("plugins", "block", "bells")
    assert (tmp_path / "transom.toml").read_text() == '[plugins]\nblock = ["bells"]\n'
    assert transom("catalog").returncode == 0
    transom("plugins", "unblock", "bells")
    assert transom("catalog").returncode != 0


def test_two_owners_of_a_name_are_listed_and_blocked(python, distribute):
    distribute("first", {"bells": "first:Plugin"}, first=GOOD)
    site = distribute("second", {"bells": "second:Plugin"}, second=GOOD)
    listed = python("-m", "transom", "plugins", "list", "--json", sites=(site,))
    owners = [each["distribution"] for each in json.loads(listed.stdout)["plugins"] if each["name"] == "bells"]
    assert owners == ["first", "second"]
    assert python("-m", "transom", "plugins", "block", "bells", sites=(site,)).returncode == 0
    assert python("-m", "transom", "plugins", "list", sites=(site,)).returncode == 0


def test_settings_of_a_plugin_that_is_not_installed_do_not_stop_them(python, tmp_path):
    settings = "[bells]\nloud = true\n"
    (tmp_path / "transom.toml").write_text(settings)
    assert python("-m", "transom", "--help").returncode == 0
    assert python("-m", "transom", "plugins", "list").returncode == 0
    assert python("-m", "transom", "plugins", "block", "scripted").returncode == 0
    assert settings in (tmp_path / "transom.toml").read_text()
    refused = python("-m", "transom", "catalog")
    assert refused.returncode != 0
    assert "[bells] belongs to no plugin here" in refused.stderr

"""Which plugins are loaded, in which order, and how each that cannot be is told of."""

import sys

import pytest

from transom.config import Config, PluginsConfig
from transom.config import load as load_config
from transom.dispatch import Hooks
from transom.plugins import installed, load
from transom_hookspecs import SPEC_VERSION, PluginInfo, TransomError

pytestmark = pytest.mark.usefixtures("importable")

BUILT_IN = tuple(found.name for found in installed() if found.distribution == "transom")
HERE = tuple(found.name for found in installed())
"""Every plugin that is installed where the tests run."""

PLAIN = """
import msgspec
from transom_hookspecs import hookimpl

class Plugin:
    spec = "1.0"
    def __init__(self, config): self.config = config
    {body}
"""


def source(body: str = "", spec: str = '"1.0"') -> str:
    """A module with a plugin class."""
    return PLAIN.replace('spec = "1.0"', f"spec = {spec}").replace("{body}", body.replace("\n", "\n    "))


def hook(function: str, options: str = "") -> str:
    """A method that implements a hook."""
    return f"@hookimpl({options})\n{function}\n"


def config(**plugins) -> Config:
    """Settings under which no plugin is loaded that was installed before the test."""
    tables = plugins.pop("tables", {})
    return Config(plugins=PluginsConfig(**{**plugins, "block": (*HERE, *plugins.get("block", ()))}), tables=tables)


def found(loaded, name: str) -> PluginInfo:
    (info,) = [info for info in loaded.infos if info.name == name]
    return info


def refused(settings: Config) -> TransomError:
    with pytest.raises(TransomError) as caught:
        load(settings)
    assert caught.value.code in ("failed_precondition", "invalid_argument")
    return caught.value


# -- who is loaded -----------------------------------------------------------------------------------------


def test_an_installed_plugin_is_loaded_with_its_distribution_and_hooks(distribute):
    distribute("My-Bells", {"bells": "bells:Plugin"}, "3.1", bells=source(hook("def register_agents(self): return []")))
    loaded = load(config())
    assert list(loaded.plugins) == ["bells"]
    assert found(loaded, "bells") == PluginInfo(
        name="bells", distribution="My-Bells", version="3.1", state="loaded", hooks=("register_agents",)
    )


@pytest.mark.req("KERN-2")
def test_a_blocked_plugin_is_never_imported(distribute):
    distribute("bells", {"bells": "bells:Plugin"}, bells="raise AssertionError('imported')")
    loaded = load(config(block=["bells"]))
    assert loaded.plugins == {}
    assert (found(loaded, "bells").state, found(loaded, "bells").why) == ("blocked", "plugins.block names it")
    assert "bells" not in sys.modules


@pytest.mark.req("KERN-2")
@pytest.mark.parametrize("name", BUILT_IN)
def test_each_built_in_plugin_can_be_blocked_by_name(name):
    loaded = load(Config(dev=True, plugins=PluginsConfig(block=(name,))))
    assert set(loaded.plugins) == set(HERE) - {name}


@pytest.mark.req("KERN-2")
@pytest.mark.parametrize("name", BUILT_IN)
def test_each_built_in_plugin_can_be_replaced_by_name(distribute, name):
    distribute("other", {name: "other:Plugin"}, other=source())
    others = PluginsConfig(block=tuple(each for each in HERE if each != name), replace={name: "other"})
    loaded = load(Config(dev=True, plugins=others))
    assert type(loaded.plugins[name]).__module__ == "other"
    states = {info.distribution: info.state for info in loaded.infos if info.name == name}
    assert states == {"transom": "replaced", "other": "loaded"}


@pytest.mark.req("KERN-2")
def test_two_owners_of_one_name_are_an_error_that_names_both_and_the_remedy(distribute):
    distribute("first", {"bells": "first:Plugin"}, "1.0", first=source())
    distribute("second", {"bells": "second:Plugin"}, "2.0", second=source())
    error = refused(config())
    assert "first 1.0 and second 2.0" in error.message
    assert 'plugins.replace = { bells = "second" }' in error.message


@pytest.mark.req("KERN-2")
@pytest.mark.parametrize("written", ["my-second", "My_Second"])
def test_plugins_replace_chooses_the_owner_however_its_name_is_written(distribute, written):
    distribute("first", {"bells": "first:Plugin"}, first="raise AssertionError('imported')")
    distribute("my-second", {"bells": "second:Plugin"}, second=source())
    loaded = load(config(replace={"bells": written}))
    assert type(loaded.plugins["bells"]).__module__ == "second"


def test_plugins_replace_with_a_distribution_that_has_no_such_plugin_is_an_error(distribute):
    distribute("first", {"bells": "first:Plugin"}, first=source())
    assert "no distribution 'third' has a plugin 'bells'" in refused(config(replace={"bells": "third"})).message


def test_a_development_plugin_is_loaded_in_development_or_when_it_is_enabled(distribute):
    distribute("bells", {"bells": "bells:Plugin"}, bells=source("dev_only = True"))
    assert found(load(config()), "bells").state == "blocked"
    assert found(load(config(enable=["bells"])), "bells").state == "loaded"


def test_the_same_distribution_seen_twice_is_one(distribute, tmp_path, monkeypatch):
    site = distribute("bells", {"bells": "bells:Plugin"}, bells=source())
    (tmp_path / "lib64").symlink_to(site)
    monkeypatch.syspath_prepend(str(tmp_path / "lib64"))
    assert found(load(config()), "bells").state == "loaded"


def test_two_kernels_in_one_process_have_instances_of_their_own(distribute):
    distribute("bells", {"bells": "bells:Plugin"}, bells=source())
    first, second = load(config()).plugins["bells"], load(config()).plugins["bells"]
    assert type(first) is type(second)
    assert first is not second


# -- order -------------------------------------------------------------------------------------------------


@pytest.fixture
def three(distribute):
    """Plugins a, b and c: c wants to be the first to be asked for agents, and a the last."""
    for name, wish in {"a": "trylast=True", "b": "", "c": "tryfirst=True"}.items():
        agents = hook("def register_agents(self): return [0]", wish)
        distribute(name, {name: f"{name}:Plugin"}, **{name: source(agents + hook("def register_tools(self): return [0]"))})


def asked(hook: str, **plugins) -> list[str]:
    settings = config(**plugins)
    return [plugin for plugin, _ in Hooks(load(settings).manager, settings.plugins.order).collect(hook)]


def test_hooks_are_called_by_name_then_as_plugins_wish_then_as_the_settings_say(three):
    assert asked("register_tools") == ["a", "b", "c"]
    assert asked("register_agents") == ["c", "b", "a"]
    assert asked("register_agents", order=["a", "b"]) == ["a", "b", "c"]


# -- what a plugin may be ----------------------------------------------------------------------------------

MAJOR, MINOR = SPEC_VERSION

LATER = f"{MAJOR}.{MINOR + 1}"
OTHER = f"{MAJOR + 1}.0"

WRONG = {
    "an import that fails": ("1 / 0", "cannot be imported: ZeroDivisionError"),
    "an import that ends the program": ("raise SystemExit(3)", "cannot be imported: SystemExit: 3"),
    "an import that panics": ("class Panic(BaseException): pass\nraise Panic('no luck')", "cannot be imported: Panic: no luck"),
    "a class that is not there": ("", "cannot be imported: AttributeError"),
    "no class": ("def Plugin(config): pass", "which is no class"),
    "an instance that cannot be made": (source("def __init__(self, config): 1 / 0"), "cannot start: ZeroDivisionError"),
    "an instance that ends the program": (
        source("def __init__(self, config): raise SystemExit(3)"),
        "cannot start: SystemExit",
    ),
    "no version": (source(spec="None"), 'it must be "major.minor"'),
    "a version that is none": (source(spec='"1.x"'), 'it must be "major.minor"'),
    "another major version": (source(spec=f'"{OTHER}"'), f"specifications {OTHER}, this is {MAJOR}.{MINOR}"),
    "a later minor version": (source(spec=f'"{LATER}"'), f"specifications {LATER}, this is {MAJOR}.{MINOR}"),
    "an unknown hook": (source(hook("def register_bells(self): ...")), "unknown hook 'register_bells'; known are"),
    "a wrong argument": (source(hook("def authorize(self, acess): ...")), "acess"),
    "async for a plain hook": (source(hook("async def register_tools(self): ...")), "must be a plain function"),
    "async for an around hook": (source(hook("async def around_job(self, job): ...")), "must be a plain function"),
    "a generator": (source(hook("def register_tools(self): yield")), "must return its answer"),
    "an async generator": (source(hook("async def authorize(self, access): yield")), "must return its answer"),
    "a wrapper": (source(hook("def register_tools(self): return (yield)", "wrapper=True")), "use an around_* hook"),
}
"""Modules that hold no plugin as it must be, and what is said of each."""


@pytest.mark.req("KERN-3")
@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_plugin_stops_the_start_and_is_named(distribute, case):
    text, why = WRONG[case]
    distribute("my-bells", {"bells": "bells:Plugin"}, "3.1", bells=text)
    message = refused(config()).message
    assert "plugin 'bells' (distribution my-bells 3.1)" in message
    assert why in message


@pytest.mark.req("KERN-3")
def test_a_module_that_is_not_there_is_named(distribute):
    distribute("my-bells", {"bells": "nowhere:Plugin"})
    assert "cannot be imported: ModuleNotFoundError: No module named 'nowhere'" in refused(config()).message


@pytest.mark.req("KERN-4")
@pytest.mark.parametrize("case", WRONG)
def test_an_optional_one_is_left_out_and_the_others_are_there(distribute, case):
    text, why = WRONG[case]
    distribute("my-bells", {"bells": "bells:Plugin"}, "3.1", bells=text)
    distribute("other", {"other": "other:Plugin"}, other=source(hook("def register_tools(self): return []")))
    loaded = load(config(optional=["bells"]))
    assert list(loaded.plugins) == ["other"]
    assert found(loaded, "bells").state == "failed"
    assert why in found(loaded, "bells").why
    hooked = {impl.plugin for impls in Hooks(loaded.manager).impls.values() for impl in impls}
    assert hooked == {"other"}


RAISED = {
    "a bug": ("1 / 0", "internal", "failed in register_tools (distribution my-bells 3.1)"),
    "the program's end": ("raise SystemExit", "internal", "failed in register_tools (distribution my-bells 3.1)"),
    "a refusal": (
        "raise TransomError('invalid_argument', 'no such bell')",
        "invalid_argument",
        "plugin 'bells' (distribution my-bells 3.1): register_tools: no such bell",
    ),
}


@pytest.mark.req("KERN-3")
@pytest.mark.parametrize("case", RAISED)
def test_what_a_register_hook_raises_names_plugin_distribution_version_and_hook(distribute, case):
    body, code, said = RAISED[case]
    text = source(hook(f"def register_tools(self): {body}")) + "from transom_hookspecs import TransomError\n"
    distribute("my-bells", {"bells": "bells:Plugin"}, "3.1", bells=text)
    loaded = load(config())
    with pytest.raises(TransomError) as caught:
        Hooks(loaded.manager, infos=loaded.infos).collect("register_tools")
    assert caught.value.code == code
    assert "plugin 'bells'" in caught.value.message
    assert said in caught.value.message
    if code == "internal":
        assert caught.value.details == {
            "plugin": "bells", "hook": "register_tools", "distribution": "my-bells", "version": "3.1"
        }  # fmt: skip


@pytest.mark.parametrize("body", [
    "@hookimpl\nasync def authorize(self, access): ...",
    "@hookimpl\ndef authorize(self, access): ...",
    "@hookimpl\ndef authorize(self): ...",
    "@property\ndef later(self): raise RuntimeError('looked at')",
], ids=["async", "plain", "fewer arguments", "a property that fails before the start"])  # fmt: skip
def test_what_a_plugin_may_be(distribute, body):
    distribute("bells", {"bells": "bells:Plugin"}, bells=source(body))
    assert found(load(config()), "bells").state == "loaded"


# -- settings ----------------------------------------------------------------------------------------------

SETTINGS = """
class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    loud: bool = False
    names: dict[str, int] = {}
"""


@pytest.mark.req("KERN-5")
def test_a_plugin_gets_its_own_settings_typed(distribute, tmp_path):
    distribute("bells", {"bells": "bells:Plugin"}, bells=source(SETTINGS))
    (tmp_path / "transom.toml").write_text(f"[plugins]\nblock = {list(HERE)}\n[bells]\nloud = true\nnames = {{ a = 1 }}\n")
    made = load(load_config(str(tmp_path / "transom.toml"), {})).plugins["bells"].config
    assert (made.loud, made.names) == (True, {"a": 1})
    made = load(load_config(str(tmp_path / "transom.toml"), {"TRANSOM_BELLS__LOUD": "false"})).plugins["bells"].config
    assert made.loud is False


@pytest.mark.req("KERN-5")
@pytest.mark.parametrize(
    ("table", "key", "reason"),
    [
        ('loud = "very"', ".loud", "Expected `bool`, got `str`"),
        ("names = { a = [] }", ".names", "Expected `int`, got `array`"),
        ("lout = true", "", "unknown field `lout`"),
    ],
    ids=["a wrong type", "a wrong type inside", "an unknown key"],
)
def test_a_wrong_setting_stops_the_start_with_file_key_and_reason(distribute, tmp_path, table, key, reason):
    distribute("my-bells", {"bells": "bells:Plugin"}, bells=source(SETTINGS))
    path = tmp_path / "transom.toml"
    path.write_text(f"[plugins]\nblock = {list(HERE)}\n[bells]\n{table}\n")
    message = refused(load_config(str(path), {})).message
    assert message.startswith(f"{path}: [bells]{key}")
    assert reason in message
    assert "distribution my-bells" in message


@pytest.mark.req("KERN-5")
def test_a_table_of_no_plugin_is_most_likely_misspelt(distribute):
    distribute("bells", {"bells": "bells:Plugin"}, bells=source())
    message = refused(config(tables={"bels": {}})).message
    assert "[bels] belongs to no plugin here" in message
    assert "bells" in message


@pytest.mark.req("KERN-5")
def test_the_table_of_a_blocked_plugin_is_kept(distribute):
    distribute("bells", {"bells": "bells:Plugin"}, bells=source())
    assert found(load(config(block=["bells"], tables={"bells": {"lout": 1}})), "bells").state == "blocked"


# -- broken metadata ---------------------------------------------------------------------------------------


def test_a_distribution_with_broken_metadata_is_skipped_and_the_others_are_found(distribute, tmp_path):
    site = distribute("bells", {"bells": "bells:Plugin"}, bells=source())
    no_metadata = distribute("gone", {"gone": "gone:Plugin"}) / "gone-1.0.dist-info" / "METADATA"
    no_metadata.unlink()
    broken = distribute("broken", {}) / "broken-1.0.dist-info" / "entry_points.txt"
    broken.write_text("[transom\nbroken = = x\n\xff")
    (site / "leftover-1.0.dist-info").mkdir()
    assert list(load(config()).plugins) == ["bells"]
    broken.write_text("[transom]\nbroken = broken:Plugin\n")
    (site / "broken.py").write_text(source())
    assert set(load(config()).plugins) == {"broken", "bells"}

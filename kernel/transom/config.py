"""Settings: `transom.toml`, and the environment over it.

The kernel's own settings stand at the top of the file, each plugin's in the table of its name:

    data = "transom-data"
    store = "sqlite"

    [sqlite]
    synchronous = "full"

`TRANSOM_PORT=8000` sets a setting of the kernel's, `TRANSOM_SQLITE__SYNCHRONOUS=full` one of a plugin's.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, cast

import msgspec

from transom_hookspecs import NAME, Json, JsonObject, TransomError

FILE = "transom.toml"
CLIENT_VARIABLES = frozenset({"TRANSOM_URL", "TRANSOM_TOKEN", "TRANSOM_CONFIG", "TRANSOM_TENANT"})
"""Variables of the command line's, which set nothing here."""


Positive = Annotated[float, msgspec.Meta(gt=0, le=3_650 * 86_400)]
NotNegative = Annotated[float, msgspec.Meta(ge=0, le=3_600)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class PluginsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which plugins are loaded.

    Parameters:
        block: names that are never imported.
        enable: names of development plugins to load outside development mode.
        optional: names whose failure does not stop the start.
        replace: name to distribution: who may own a name that two distributions have.
        order: names in the order in which their hooks are called; all others come after, by name.
    """

    block: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    replace: dict[str, str] = {}
    order: tuple[str, ...] = ()


class BundleConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In which tenants a bundle is; empty means every one."""

    tenants: tuple[str, ...] = ()


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds. Times in seconds, sizes in bytes.

    Parameters:
        budget_wait: until an unanswered wait for money is declined; of others a tenant's settings say.
        job: of a whole job, waits included.
        steps, parallel_calls: of one job.
        depth, children, tree_jobs: of a job tree.
        input, arguments, result, answer: of a job's input, a call's arguments, a call's result (a longer one is cut)
            and a model's or job's answer (a longer one fails).
        text_flush: text that waits to be recorded is, after this long; 0 records each delta by itself.
        text_flush_bytes: or when there is this much of it.
        attempts: of a model call that was cut.
        deaths: workers in a row that may die with a job before it waits for a person.
    """

    budget_wait: Positive = 7 * 86_400.0
    job: Positive = 30 * 86_400.0
    steps: AtLeastOne = 1_000
    parallel_calls: AtLeastOne = 16
    depth: AtLeastOne = 5
    children: AtLeastOne = 32
    tree_jobs: AtLeastOne = 200
    input: AtLeastOne = 4 * 1024 * 1024
    arguments: AtLeastOne = 256 * 1024
    result: AtLeastOne = 1024 * 1024
    answer: AtLeastOne = 8 * 1024 * 1024
    text_flush: NotNegative = 0.02
    text_flush_bytes: AtLeastOne = 1024
    attempts: AtLeastOne = 3
    deaths: AtLeastOne = 10


class Outbound(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How addresses outside are reached.

    Parameters:
        proxy: for the addresses that the operator wrote down.
        ca_file: certificates to trust beside the usual ones.
        allow_networks: networks (CIDR) that guarded requests may reach although they are private.
    """

    proxy: str = ""
    ca_file: str = ""
    allow_networks: tuple[str, ...] = ()


class Management(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A second port for operators, who show a certificate; without this table there is none.

    Parameters:
        cert_file, key_file: its certificate and key, as those of the main port.
        client_ca_file: the authority that signs the certificates of those who may come in (PEM).
        host, port: where it listens; a port 0 takes a free one.
    """

    cert_file: str
    client_ca_file: str
    key_file: str = ""
    host: str = "127.0.0.1"
    port: Port = 7444


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The kernel's settings, and the plugins' tables as they were written.

    Parameters:
        data: the data folder; in the file, relative to the file's folder.
        store, engine: which of the registered ones; empty means the only one.
        cert_file, key_file: serve with TLS: the certificate with its chain, and its key where that is not in the same
            file (PEM, relative to the settings file); without them the port is not encrypted.
        bundle: folders with `agents/` and `flows/` of one's own, relative to the file's folder.
        tables: plugin name to its table.
    """

    data: str = "transom-data"
    store: str = ""
    engine: str = ""
    host: str = "127.0.0.1"
    port: int = 7443
    cert_file: str = ""
    key_file: str = ""
    tenants: tuple[str, ...] = ("default",)
    bundle: tuple[str, ...] = ()
    bundles: dict[str, BundleConfig] = {}
    plugins: PluginsConfig = PluginsConfig()
    limits: Limits = Limits()
    outbound: Outbound = Outbound()
    management: Management | None = None
    dev: bool = False
    path: str = ""
    tables: dict[str, JsonObject] = {}


OWN = frozenset(Config.__struct_fields__) - {"tables", "path"}


def find(start: Path | None = None) -> str:
    """The settings file: TRANSOM_CONFIG, else `transom.toml` in the current folder; empty when there is none."""
    named = os.environ.get("TRANSOM_CONFIG", "")
    if named:
        if not Path(named).is_file():
            raise TransomError("invalid_argument", f"TRANSOM_CONFIG names {named!r}, and there is no such file")
        return named
    path = (start or Path.cwd()) / FILE
    return str(path) if path.is_file() else ""


def load(path: str = "", environment: Mapping[str, str] | None = None, **changes: object) -> Config:
    """Read the settings.

    Parameters:
        path: the file; empty means none.
        environment: instead of the process's.
        changes: fields to set over both (`data=…`, `dev=True`).

    Raises:
        TransomError: invalid_argument, naming file, key and problem.
    """
    values = read_file(path)
    for name, key, text in from_environment(environment if environment is not None else os.environ):
        place = cast(JsonObject, values.setdefault(name, {})) if key else values
        if not isinstance(place, dict):
            raise TransomError("invalid_argument", f"{path}: {name!r} must be a table, as {name.upper()}__{key.upper()} is set")
        place[key or name] = literal(text)
    if path and "TRANSOM_DATA" not in (environment if environment is not None else os.environ):
        values["data"] = str(Path(path).parent / str(values.get("data", "transom-data")))
    tables = {k: values.pop(k) for k in list(values) if k not in OWN}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise TransomError(
                "invalid_argument", f"{path or 'environment'}: unknown setting {name!r}; known are {', '.join(sorted(OWN))}"
            )
    try:
        config = msgspec.convert({**values, "tables": tables, "path": path}, Config, strict=False)
    except msgspec.ValidationError as error:
        raise TransomError("invalid_argument", f"{path or 'environment'}: {error}") from error
    for tenant in config.tenants:
        if not NAME.match(tenant):
            raise TransomError(
                "invalid_argument", f"{path or 'environment'}: tenants: {tenant!r} is no name; use letters, digits, - and _"
            )
    return msgspec.structs.replace(config, **changes)


def read_file(path: str) -> JsonObject:
    """The file's values, as TOML reads them."""
    if not path:
        return {}
    try:
        return cast(JsonObject, tomllib.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TransomError("invalid_argument", f"{path}: {error}") from error


def from_environment(environment: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(setting, "", value) or (plugin, setting, value) for each TRANSOM_ variable that is a setting."""
    found = []
    for variable, text in sorted(environment.items()):
        if not text or not variable.startswith("TRANSOM_") or variable in CLIENT_VARIABLES:
            continue  # set but empty is not set
        name, _, key = variable.removeprefix("TRANSOM_").lower().partition("__")
        if key or name in OWN:
            found.append((name, key, text))
    return found


def literal(text: str) -> Json:
    """A variable's value: JSON where it is an array or object, else text that is converted where it is used."""
    if text[:1] in ("[", "{"):
        try:
            return cast(Json, msgspec.json.decode(text))
        except msgspec.DecodeError:
            return text
    return text

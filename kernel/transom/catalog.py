"""What can be started and called: agents, flows, models and functions, by name.

Declared agents and flows come from bundles (folders of YAML); each is kept by the digest of its document, so that a
running job goes on under the definition it started with.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from transom_hookspecs import (
    NAME,
    SYSTEM,
    Agent,
    AgentView,
    Bundle,
    Definition,
    Document,
    Function,
    FunctionSpec,
    JsonObject,
    Kind,
    Model,
    Store,
    Tool,
    TransomError,
)

from . import schemas, yaml
from .config import Config
from .dispatch import Hooks

RESERVED = frozenset({"agent", "model", "oz", "oz0"})
FOLDERS = ("agents", "flows", "routines")
ASK = FunctionSpec(
    name="oz.ask",
    description="Ask the person you work for a question and wait for the answer.",
    parameters={
        "type": "object",
        "properties": {"question": {"type": "string"}, "choices": {"type": "array", "items": {"type": "string"}}},
        "required": ["question"],
        "additionalProperties": False,
    },
)
BOARD_WRITE = FunctionSpec(
    name="oz.board_write",
    description="Pin a note or finding to the board that all agents of this job share.",
    parameters={
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "kind": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "supersedes": {"type": "integer", "minimum": 0},
        },
        "required": ["text"],
        "additionalProperties": False,
    },
)
WAIT_FOR_EVENT = FunctionSpec(
    name="oz.wait_for_event",
    description="Wait for an outside event of a source whose fields equal `match`.",
    parameters={
        "type": "object",
        "properties": {
            "source": {"type": "string"},
            "match": {"type": "object"},
            "timeout": {"type": "number", "exclusiveMinimum": 0},
        },
        "required": ["source"],
        "additionalProperties": False,
    },
)
OWN_FUNCTIONS: Mapping[str, FunctionSpec] = {spec.name: spec for spec in (ASK, BOARD_WRITE, WAIT_FOR_EVENT)}
"""Functions that are steps of the Context, offered to models under these names."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """An agent as the catalog holds it. `definition`: a digest, or `version:<v>` for one written in Python."""

    agent: Agent
    definition: str
    plugin: str
    document: Document | None = None
    kind: str = ""
    tenants: tuple[str, ...] = ()

    def view(self) -> AgentView:
        """As callers see it."""
        agent = self.agent
        return AgentView(
            name=agent.name,
            title=agent.title,
            description=agent.description,
            flow=agent.flow,
            conversations=agent.conversations,
            input_schema=agent.input_schema,
            output_schema=agent.output_schema,
            card_schema=agent.card_schema,
            plugin=self.plugin,
            definition=self.definition,
        )


def folded(name: str) -> str:
    """Names that differ only in case, `-` or `_` are one."""
    return re.sub("[-_]", "", name).lower()


class Catalog:
    """Everything that has a name, checked when it is put in."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._offers: dict[str, list[Offer]] = {}
        self._views: dict[str, tuple[AgentView, ...]] = {}
        self._named: set[str] = set()
        self._kinds: dict[str, Kind] = {}
        self._loaded: dict[str, Agent] = {}
        self.models: dict[str, Model] = {}
        self.model_plugins: dict[str, str] = {}
        self.tools: dict[str, tuple[str, Tool]] = {}
        self.functions: dict[str, Function] = {}
        self.documents: list[Document] = []

    def fill(self, hooks: Hooks, extra: Sequence[str] = ()) -> None:
        """Take all that plugins register, the bundles, and single YAML files.

        Raises:
            TransomError: naming the plugin or file, the name or field, and the remedy.
        """
        for plugin, kind in hooks.collect("register_kinds"):
            self._kinds[_unique(self._kinds, kind.folder, f"kind of plugin {plugin!r}")] = kind
        for plugin, model in hooks.collect("register_models"):
            self.models[_unique(self.models, model.name, f"model of plugin {plugin!r}")] = model
            self.model_plugins[model.name] = plugin
        for plugin, tool in hooks.collect("register_tools"):
            self._add_tool(plugin, tool)
        for plugin, agent in hooks.collect("register_agents"):
            _check_agent(agent, f"agent {agent.name!r} of plugin {plugin!r}")
            self._add(Offer(agent=agent, definition=f"version:{agent.version}", plugin=plugin))
        for plugin, bundle in hooks.collect("register_bundles"):
            self._add_bundle(plugin, bundle)
        for folder in self._config.bundle:
            path = Path(self._config.path).parent / folder if self._config.path else Path(folder)
            self._add_bundle("", Bundle(name=path.resolve().name, path=str(path)))
        for file in extra:
            self._add_document(read(Path(file), "agents", "", ()), "")

    def _add_tool(self, plugin: str, tool: Tool) -> None:
        _check_name("tool", tool.name, f"plugin {plugin!r}")
        if tool.name in RESERVED:
            raise TransomError("failed_precondition", f"plugin {plugin!r}: the tool name {tool.name!r} is the runtime's own")
        self.tools[_unique(self.tools, tool.name, f"tool of plugin {plugin!r}")] = (plugin, tool)
        for function in tool.functions:
            full = f"{tool.name}.{function.name}"
            _check_name("function", function.name, f"tool {tool.name!r} of plugin {plugin!r}")
            schemas.check_schema(function.input_schema, f"input_schema of {full}")
            if function.output_schema is not None:
                schemas.check_schema(function.output_schema, f"output_schema of {full}")
            self.functions[full] = function

    def _add_bundle(self, plugin: str, bundle: Bundle) -> None:
        rule = self._config.bundles.get(bundle.name)
        tenants = rule.tenants if rule and rule.tenants else bundle.tenants
        if not Path(bundle.path).is_dir():
            raise TransomError("failed_precondition", f"bundle {bundle.name!r}: there is no folder {bundle.path}")
        for folder in FOLDERS:
            for path in sorted((Path(bundle.path) / folder).glob("*.y*ml")):
                self._add_document(read(path, folder, bundle.name, tenants), plugin)

    def _add_document(self, document: Document, plugin: str) -> None:
        self.documents.append(document)
        kind = self._kinds.get(document.folder)
        if document.folder == "agents" and "steps" in document.body:
            kind = self._kinds.get("flows", kind)
        if kind is None:
            return
        agent = load(kind, document.name, document.body, document.path)
        self._add(
            Offer(
                agent=agent,
                definition=schemas.digest([kind.name, document.name, document.body]),
                plugin=plugin or document.bundle,
                document=document,
                kind=kind.folder,
                tenants=document.tenants,
            )
        )

    def _add(self, offer: Offer) -> None:
        rivals = self._offers.setdefault(folded(offer.agent.name), [])
        for rival in rivals:
            if not rival.tenants or not offer.tenants or set(rival.tenants) & set(offer.tenants):
                raise TransomError(
                    "failed_precondition",
                    f"two agents are called {rival.agent.name!r} and {offer.agent.name!r} "
                    f"({_origin(rival)}, {_origin(offer)}): names that differ only in case, - or _ are one; rename either",
                )
        rivals.append(offer)
        self._named.update(offer.tenants)
        self._views.clear()

    def offer(self, tenant: str, name: str) -> Offer | None:
        """The agent or flow of this exact name in a tenant."""
        for offer in self._offers.get(folded(name), ()):
            if offer.agent.name == name and (not offer.tenants or tenant in offer.tenants):
                return offer
        return None

    def offers(self, tenant: str) -> list[Offer]:
        """The tenant's agents and flows, by name."""
        found = [o for rivals in self._offers.values() for o in rivals if not o.tenants or tenant in o.tenants]
        return sorted(found, key=lambda o: o.agent.name)

    def views(self, tenant: str) -> tuple[AgentView, ...]:
        """The tenant's agents and flows as callers see them, by name; the same object until the catalog changes."""
        place = tenant if tenant in self._named else ""  # all tenants that no bundle names have the same
        if place not in self._views:
            self._views[place] = tuple(offer.view() for offer in self.offers(place))
        return self._views[place]

    async def keep(self, store: Store) -> None:
        """Store every declared definition by its digest."""
        wanted = [o for rivals in self._offers.values() for o in rivals if o.document is not None]

        def write(tx: Any) -> None:
            for offer in wanted:
                assert offer.document is not None
                tx.insert(
                    Definition(digest=offer.definition, kind=offer.kind, name=offer.agent.name, document=offer.document.body)
                )

        if wanted:
            await store.transact(SYSTEM, write)

    async def under(self, store: Store, tenant: str, name: str, definition: str) -> Agent | None:
        """The agent that a job started under, or None when this process does not have it."""
        offer = self.offer(tenant, name)
        if offer is not None and offer.definition == definition:
            return offer.agent
        if definition.startswith("version:"):
            return None
        if definition not in self._loaded:
            kept = await store.get(SYSTEM, Definition, definition)
            kind = self._kinds.get(kept.kind) if kept else None
            if kept is None or kind is None:
                return None
            self._loaded[definition] = load(kind, kept.name, kept.document, f"definition {definition[:12]}")
        return self._loaded[definition]

    def names(self, patterns: Iterable[str]) -> list[str]:
        """The full names of functions that names and `<tool>.*` patterns stand for, each once.

        Raises:
            TransomError: invalid_argument for a name of nothing.
        """
        found: dict[str, None] = {}
        for pattern in patterns:
            tool, _, rest = pattern.partition(".")
            if rest == "*" and tool in self.tools:
                found.update(dict.fromkeys(f"{tool}.{f.name}" for f in self.tools[tool][1].functions))
            elif pattern in self.functions or pattern in OWN_FUNCTIONS or tool == "agent":
                found[pattern] = None
            else:
                known = ", ".join(sorted(self.functions)) or "none"
                raise TransomError("invalid_argument", f"there is no function {pattern!r}; known are {known}")
        return list(found)

    def spec(self, tenant: str, name: str) -> FunctionSpec:
        """A function as a model is told of it; `agent.<name>` is an agent of the tenant's as one."""
        if name in OWN_FUNCTIONS:
            return OWN_FUNCTIONS[name]
        if name.startswith("agent."):
            offer = self.offer(tenant, name.removeprefix("agent."))
            if offer is None:
                raise TransomError("not_found", f"there is no agent {name.removeprefix('agent.')!r} to delegate to")
            return delegation(offer.agent)
        function = self.functions[name]
        return FunctionSpec(name=name, description=function.description, parameters=function.input_schema)


def delegation(agent: Agent) -> FunctionSpec:
    """An agent as a function; the definitions of its input schema move up, where their references look for them."""
    given = dict(agent.input_schema or {"type": "string"})
    shared: JsonObject = {key: given.pop(key) for key in ("$defs", "definitions") if key in given}
    return FunctionSpec(
        name=f"agent.{agent.name}",
        description=agent.description or f"Delegate to the agent {agent.name}.",
        parameters={
            "type": "object",
            "properties": {"input": given},
            "required": ["input"],
            "additionalProperties": False,
            **shared,
        },
    )


def load(kind: Kind, name: str, body: dict[str, Any], path: str) -> Agent:
    """Make a declared agent and check it, with the file's name in every message."""
    try:
        agent = kind.load(name, body)
        _check_agent(agent, f"{kind.name} {name!r}")
    except TransomError as error:
        raise TransomError(error.code, f"{path}: {error.message}", error.details) from error
    return agent


def read(path: Path, folder: str, bundle: str, tenants: tuple[str, ...]) -> Document:
    """One declared thing's file."""
    try:
        body = yaml.load(path.read_bytes(), str(path))
    except OSError as error:
        raise TransomError("invalid_argument", f"{path}: {error.strerror}") from error
    name = body.get("name", path.stem)
    if not isinstance(name, str) or not NAME.match(name):
        raise TransomError(
            "invalid_argument",
            f"{path}: name: {name!r} is no name; use letters, digits, - and _, at most 63, a letter or digit first",
        )
    return Document(folder=folder, name=name, path=str(path), body=body, bundle=bundle, tenants=tenants)


def _check_agent(agent: Agent, what: str) -> None:
    _check_name("agent", agent.name, what)
    for field in ("input_schema", "output_schema", "card_schema"):
        schema = getattr(agent, field)
        if schema is not None:
            schemas.check_schema(schema, f"{what}: {field}")


def _check_name(kind: str, name: str, where: str) -> None:
    if not NAME.match(name):
        raise TransomError(
            "failed_precondition",
            f"{where}: {kind} name {name!r} is not allowed; use letters, digits, - and _, at most 63, a letter or digit first",
        )


def _unique(known: Mapping[str, object], name: str, what: str) -> str:
    if name in known:
        raise TransomError("failed_precondition", f"{what} is called {name!r}, and another one already is; rename either")
    return name


def _origin(offer: Offer) -> str:
    return offer.document.path if offer.document else f"plugin {offer.plugin!r}"

"""The tenant's rules: how each is kept, and all of them in memory, in the order in which they are looked up."""

from collections.abc import AsyncIterator, Iterable, Mapping
from itertools import chain
from typing import Literal, TypeVar

import msgspec

from transom_hookspecs import Index, Job, Record, Rule, Store

EVERY = "*"
"""In a rule: every agent, function or caller."""

Ruling = Literal["allow", "ask", "refuse"]
R = TypeVar("R", bound=msgspec.Struct)


class AgentRule(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent may be used for; agent `*` stands for the whole tenant.

    Parameters:
        state: `disabled`: it is not started, and its running jobs take no further step; `retired`: it is not started.
        granted_only: whether only those may start it who were granted it.
        at: in milliseconds (Unix).
    """

    agent: str
    state: Literal["enabled", "disabled", "retired"] = "enabled"
    granted_only: bool = False
    reason: str = ""
    by: str = ""
    at: int = 0


class AgentGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Who may start an agent, whatever the role: `person:<id>`, `team:<name>` or `key:<id>`."""

    agent: str
    to: str
    by: str = ""
    at: int = 0


class ToolRule(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a call: for an agent, a function (or `<tool>.*`) and who started the job, each or `*` for every.

    Parameters:
        rule: under which a person must agree, where it asks.
    """

    agent: str
    function: str
    who: str
    ruling: Ruling
    rule: Rule | None = None
    reason: str = ""
    by: str = ""
    at: int = 0

    @property
    def named(self) -> str:
        """As people see it."""
        return f"policy:{self.function}, agent {self.agent}, for {self.who}"


class DataRule(msgspec.Struct, frozen=True, kw_only=True):
    """A wall: what carries one of the labels or data subjects is not shown to those whom it is hidden from."""

    name: str
    labels: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    hidden_from: tuple[str, ...] = ()
    by: str = ""
    at: int = 0


class TaintPass(msgspec.Struct, frozen=True, kw_only=True):
    """A function that an agent may send data out with although its job holds outside input."""

    function: str
    agent: str
    by: str = ""
    at: int = 0


RECORDS: tuple[Record, ...] = (
    Record(type=AgentRule, key=("agent",), indexes=(Index("all", ("agent",)),)),
    Record(type=AgentGrant, key=("agent", "to"), indexes=(Index("all", ("agent", "to")),)),
    Record(type=ToolRule, key=("agent", "function", "who"), indexes=(Index("all", ("agent", "function", "who")),)),
    Record(type=DataRule, key=("name",), indexes=(Index("all", ("name",)),)),
    Record(type=TaintPass, key=("function", "agent"), indexes=(Index("all", ("function", "agent")),)),
)
KEYS: Mapping[type[msgspec.Struct], tuple[str, ...]] = {record.type: record.key for record in RECORDS}

_ENABLED = AgentRule(agent="")


class Book:
    """One tenant's rules, each found by what it is about: the time it takes does not depend on how many there are."""

    def __init__(
        self,
        *,
        agents: Iterable[AgentRule] = (),
        grants: Iterable[AgentGrant] = (),
        tools: Iterable[ToolRule] = (),
        walls: Iterable[DataRule] = (),
        passes: Iterable[TaintPass] = (),
    ) -> None:
        self._agents = {rule.agent: rule for rule in agents}
        self._grants: dict[str, set[str]] = {}
        self._granted: dict[str, set[str]] = {}
        for grant in grants:
            self._grants.setdefault(grant.agent, set()).add(grant.to)
            self._granted.setdefault(grant.to, set()).add(grant.agent)
        self._tools: dict[str, list[ToolRule]] = {}
        for rule in tools:
            self._tools.setdefault(rule.function, []).append(rule)
        self._labels: dict[str, list[DataRule]] = {}
        self._subjects: dict[str, list[DataRule]] = {}
        for wall in walls:
            for label in wall.labels:
                self._labels.setdefault(label, []).append(wall)
            for subject in wall.subjects:
                self._subjects.setdefault(subject, []).append(wall)
        self._passes = {(each.function, each.agent) for each in passes}

    def stopped(self, agent: str) -> AgentRule | None:
        """What stops an agent's running jobs: the kill switch of the tenant, or its own."""
        for name in (EVERY, agent):
            if (rule := self._agents.get(name)) is not None and rule.state == "disabled":
                return rule
        return None

    def agent(self, agent: str) -> AgentRule:
        """What is set of an agent."""
        return self._agents.get(agent, _ENABLED)

    def granted(self, agent: str, who: frozenset[str]) -> bool:
        """Whether an agent was granted to somebody; without a name, whether any was."""
        if not agent:
            return any(name in self._granted for name in who)
        return not self._grants.get(agent, _NOBODY).isdisjoint(who)

    def wall(self, job: Job, who: frozenset[str]) -> tuple[DataRule, str] | None:
        """The wall between a job and somebody, and the label under which its content is withheld."""
        if not (self._labels or self._subjects):
            return None
        for label in job.labels:
            for wall in self._labels.get(label, ()):
                if not who.isdisjoint(wall.hidden_from):
                    return wall, label
        for subject in job.data_subjects:
            for wall in self._subjects.get(subject, ()):
                if not who.isdisjoint(wall.hidden_from):
                    return wall, wall.name
        return None

    def tools(self, agent: str, function: str, who: frozenset[str]) -> list[ToolRule]:
        """The rules that a call falls under."""
        tool = function.partition(".")[0]
        every = () if tool in ("oz", "agent") else self._tools.get(EVERY, ())
        rows = chain(self._tools.get(function, ()), self._tools.get(f"{tool}.*", ()), every)
        return [row for row in rows if row.agent in (EVERY, agent) and (row.who == EVERY or row.who in who)]

    def passes(self, function: str, agent: str) -> bool:
        """Whether a tainted job of the agent may call a function that can send data out."""
        return (function, agent) in self._passes


_NOBODY: frozenset[str] = frozenset()


async def rows(store: Store, tenant: str, type: type[R]) -> AsyncIterator[R]:
    """Every record of one kind of rule, in the order of its key."""
    after: tuple[str, ...] | None = None
    while True:
        page = await store.select(tenant, type, "all", after=after, limit=1_000)
        for row in page:
            yield row
        if len(page) < 1_000:
            return
        after = tuple(getattr(page[-1], field) for field in KEYS[type])


async def read(store: Store, tenant: str) -> Book:
    """A tenant's rules as they are kept now."""
    return Book(
        agents=[row async for row in rows(store, tenant, AgentRule)],
        grants=[row async for row in rows(store, tenant, AgentGrant)],
        tools=[row async for row in rows(store, tenant, ToolRule)],
        walls=[row async for row in rows(store, tenant, DataRule)],
        passes=[row async for row in rows(store, tenant, TaintPass)],
    )

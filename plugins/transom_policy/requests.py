"""What this plugin's operations take and give; the rules themselves (`book`) are what changes of them answer."""

import msgspec

from .book import AgentGrant, AgentRule, DataRule, Ruling, TaintPass, ToolRule
from .table import Permission


class DisableAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Pull an agent's kill switch: it is not started, and its running jobs take no further step. `*`: every agent's."""

    agent: str
    reason: str = ""


class EnableAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Let an agent be used again that was disabled or retired; `*` undoes the kill switch of the whole tenant."""

    agent: str


class RetireAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Start an agent no more; its running jobs go on."""

    agent: str
    reason: str = ""


class RestrictAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Let only those start an agent whom it was granted to; with `off`, again all whose role lets them."""

    agent: str
    off: bool = False


class ListAgentRules(msgspec.Struct, frozen=True, kw_only=True):
    """What is set of agents: disabled, retired, for those alone whom they were granted to."""


class AgentRules(msgspec.Struct, frozen=True, kw_only=True):
    """Agents of which something is set, by name."""

    agents: tuple[AgentRule, ...]


class GrantAgent(msgspec.Struct, frozen=True, kw_only=True):
    """Let a person, the people of a team, or an API key start an agent, whatever their role. Name one of the three."""

    agent: str
    person: str = ""
    team: str = ""
    key: str = ""


class RemoveGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Take a grant back."""

    agent: str
    person: str = ""
    team: str = ""
    key: str = ""


class ListGrants(msgspec.Struct, frozen=True, kw_only=True):
    """Who was granted which agents; `agent` narrows."""

    agent: str = ""


class Grants(msgspec.Struct, frozen=True, kw_only=True):
    """Grants by agent."""

    grants: tuple[AgentGrant, ...]


class SetToolPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Say what becomes of calls: allow, ask a person, or refuse; the strictest row that a call falls under holds.

    Parameters:
        function: `<tool>.<function>`, `<tool>.*`, or `*` for every one.
        ruling: allow, ask or refuse.
        agent: its name, or `*`.
        who: who started the job: `person:<id>`, `team:<name>`, `key:<id>`, or `*`.
        decider: for ask: `role:<name>`, `person:<id>`, `team:<name>`; none: operators and admins.
        count: for ask: how many people must say yes.
        four_eyes: for ask: nobody says yes in a job of their own.
        confirm: for ask: who started the job confirms, and nobody else need.
        typed: for ask: the argument whose value must be typed.
        edit: for ask: whether the arguments may be changed.
    """

    function: str
    ruling: Ruling
    agent: str = "*"
    who: str = "*"
    decider: tuple[str, ...] = ()
    count: int = 1
    four_eyes: bool = False
    confirm: bool = False
    typed: str = ""
    edit: bool = False
    reason: str = ""


class RemoveToolPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Take a row of the tool policy out."""

    function: str
    agent: str = "*"
    who: str = "*"


class ListToolPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The tool policy."""


class ToolPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of the tool policy."""

    rows: tuple[ToolRule, ...]


class SetWall(msgspec.Struct, frozen=True, kw_only=True):
    """Put a wall up: jobs that carry one of the labels or data subjects are not shown to these people and teams."""

    name: str
    label: tuple[str, ...] = ()
    subject: tuple[str, ...] = ()
    person: tuple[str, ...] = ()
    team: tuple[str, ...] = ()


class RemoveWall(msgspec.Struct, frozen=True, kw_only=True):
    """Take a wall down."""

    name: str


class ListWalls(msgspec.Struct, frozen=True, kw_only=True):
    """The walls."""


class Walls(msgspec.Struct, frozen=True, kw_only=True):
    """The walls, by name."""

    walls: tuple[DataRule, ...]


class AllowTainted(msgspec.Struct, frozen=True, kw_only=True):
    """Let an agent call a function that can send data out without asking, although its job holds outside input."""

    function: str
    agent: str


class RemoveTainted(msgspec.Struct, frozen=True, kw_only=True):
    """Have a person asked again before a tainted job of the agent calls the function."""

    function: str
    agent: str


class ListTainted(msgspec.Struct, frozen=True, kw_only=True):
    """Which functions tainted jobs of which agents may call without asking."""


class TaintPasses(msgspec.Struct, frozen=True, kw_only=True):
    """Functions and agents."""

    passes: tuple[TaintPass, ...]


class ListPermissions(msgspec.Struct, frozen=True, kw_only=True):
    """The table of permissions: what each is, and from which role on it is held."""


class Permissions(msgspec.Struct, frozen=True, kw_only=True):
    """The table."""

    permissions: tuple[Permission, ...]


class ExplainPermission(msgspec.Struct, frozen=True, kw_only=True):
    """May this caller do this to that, and which rule says so?

    Parameters:
        caller: `person:anna`, `person:anna@app:desk`, `key:ci`, `service:…`.
        action: a permission (`jobs.start`), or an operation (`StartJob`).
        object: an agent's name, or the ID of a job or a wait; empty asks whether the caller could at all.
    """

    caller: str
    action: str
    object: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What policy says, and why.

    Parameters:
        rule: which rule decided.
        label: under which content is withheld, by a wall.
        why: all of it in one sentence.
    """

    allowed: bool
    permission: str
    rule: str
    reason: str
    label: str
    why: str

"""The operations that set and show the tenant's rules. Each change names the topic `policy` and holds from then on."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import msgspec

from transom_hookspecs import NAME, Call, Directory, JsonObject, Kernel, Operation, Rule, TransomError, Tx

from . import requests as r
from .book import EVERY, AgentGrant, AgentRule, DataRule, TaintPass, ToolRule, rows
from .explain import explain, permissions

T = TypeVar("T", bound=msgspec.Struct)
Reload = Callable[[str], Awaitable[None]]


class Editor:
    """The handlers. `reload` takes a tenant's rules into memory anew."""

    def __init__(self, reload: Reload) -> None:
        self.kernel: Kernel
        self._reload = reload

    async def _change(self, call: Call, write: Callable[[Tx], T], object: str, details: JsonObject | None = None) -> T:
        def run(tx: Tx) -> T:
            tx.touch("policy")
            return write(tx)

        changed = await call.transact(run, object=object, details=details)
        await self._reload(call.origin.tenant)
        return changed

    # -- agents

    async def disable(self, call: Call, request: r.DisableAgent) -> AgentRule:
        """DisableAgent."""
        return await self._state(call, request.agent, state="disabled", reason=request.reason)

    async def enable(self, call: Call, request: r.EnableAgent) -> AgentRule:
        """EnableAgent."""
        return await self._state(call, request.agent, state="enabled", reason="")

    async def retire(self, call: Call, request: r.RetireAgent) -> AgentRule:
        """RetireAgent."""
        if request.agent == EVERY:
            raise TransomError("invalid_argument", "agent: '*' cannot be retired; disable it, or retire agents by name")
        return await self._state(call, request.agent, state="retired", reason=request.reason)

    async def restrict(self, call: Call, request: r.RestrictAgent) -> AgentRule:
        """RestrictAgent."""
        if request.agent == EVERY:
            raise TransomError("invalid_argument", "agent: name one agent; '*' cannot be kept for those it was granted to")
        return await self._state(call, request.agent, granted_only=not request.off)

    async def _state(self, call: Call, agent: str, **changes: object) -> AgentRule:
        undoes = changes.get("state") == "enabled" or changes.get("granted_only") is False
        if not undoes:  # what is set of an agent that is gone can still be undone
            self._known_agent(call, agent)

        def write(tx: Tx) -> AgentRule:
            before = tx.get(AgentRule, agent) or AgentRule(agent=agent)
            rule = msgspec.structs.replace(before, by=_by(call), at=tx.now, **changes)
            if rule.state == "enabled" and not rule.granted_only:
                tx.delete(AgentRule, agent)
            else:
                tx.put(rule)
            return rule

        return await self._change(call, write, agent, cast("JsonObject", changes))

    def _known_agent(self, call: Call, agent: str) -> None:
        if agent != EVERY and self.kernel.agent(call.origin.tenant, agent) is None:
            raise TransomError("not_found", f"agent: there is no agent or flow {agent!r} here")

    async def list_agents(self, call: Call, request: r.ListAgentRules) -> r.AgentRules:
        """ListAgentRules."""
        return r.AgentRules(agents=await self._all(call, AgentRule))

    async def _all(self, call: Call, type: type[T]) -> tuple[T, ...]:
        return tuple([row async for row in rows(self.kernel.store, call.origin.tenant, type)])

    # -- grants

    async def grant(self, call: Call, request: r.GrantAgent) -> AgentGrant:
        """GrantAgent."""
        self._known_agent(call, request.agent)
        if request.agent == EVERY:
            raise TransomError("invalid_argument", "agent: grant agents by name")
        to = _grantee(request.person, request.team, request.key)
        await self._known(call, to)

        def write(tx: Tx) -> AgentGrant:
            made = AgentGrant(agent=request.agent, to=to, by=_by(call), at=tx.now)
            tx.put(made)
            return made

        return await self._change(call, write, request.agent, {"to": to})

    async def remove_grant(self, call: Call, request: r.RemoveGrant) -> AgentGrant:
        """RemoveGrant."""
        to = _grantee(request.person, request.team, request.key)
        return await self._remove(call, AgentGrant, request.agent, to, object=request.agent)

    async def _remove(self, call: Call, type: type[T], *key: str, object: str) -> T:
        def write(tx: Tx) -> T:
            found = tx.get(type, *key)
            if found is None:
                raise TransomError("not_found", f"there is no such rule: {', '.join(key)}")
            tx.delete(type, *key)
            return found

        return await self._change(call, write, object, {"rule": list(key)})

    async def list_grants(self, call: Call, request: r.ListGrants) -> r.Grants:
        """ListGrants."""
        found = await self._all(call, AgentGrant)
        return r.Grants(grants=tuple(g for g in found if request.agent in ("", g.agent)))

    async def _known(self, call: Call, who: str) -> None:
        """A team that a rule names is one; people and keys may come later."""
        kind, _, name = who.partition(":")
        directory = self.kernel.service(Directory)
        if kind == "team" and directory is not None and not await directory.has_team(call.origin.tenant, name):
            raise TransomError("not_found", f"team: there is no team {name!r} here")

    # -- tool policy

    async def set_policy(self, call: Call, request: r.SetToolPolicy) -> ToolRule:
        """SetToolPolicy."""
        _check_function(request.function, request.ruling)
        self._known_agent(call, request.agent)
        for who in (request.who, *request.decider):
            if who != EVERY or who in request.decider:
                _check_who(who, "decider" if who in request.decider else "who", roles=who in request.decider)
                await self._known(call, who)
        rule = _rule(request)

        def write(tx: Tx) -> ToolRule:
            row = ToolRule(
                agent=request.agent,
                function=request.function,
                who=request.who,
                ruling=request.ruling,
                rule=rule,
                reason=request.reason,
                by=_by(call),
                at=tx.now,
            )
            tx.put(row)
            return row

        details: JsonObject = {"ruling": request.ruling, "agent": request.agent, "who": request.who}
        return await self._change(call, write, request.function, details)

    async def remove_policy(self, call: Call, request: r.RemoveToolPolicy) -> ToolRule:
        """RemoveToolPolicy."""
        return await self._remove(call, ToolRule, request.agent, request.function, request.who, object=request.function)

    async def list_policy(self, call: Call, request: r.ListToolPolicy) -> r.ToolPolicy:
        """ListToolPolicy."""
        return r.ToolPolicy(rows=await self._all(call, ToolRule))

    # -- walls

    async def set_wall(self, call: Call, request: r.SetWall) -> DataRule:
        """SetWall."""
        if not NAME.match(request.name):
            raise TransomError("invalid_argument", f"name: {request.name!r} is none; use letters, digits, - and _, at most 63")
        if not request.label and not request.subject:
            raise TransomError("invalid_argument", "label, subject: name at least one of what is behind the wall")
        hidden_from = (*(f"person:{p}" for p in request.person), *(f"team:{t}" for t in request.team))
        if not hidden_from:
            raise TransomError("invalid_argument", "person, team: name at least one that the wall is for")
        for who in hidden_from:
            _check_who(who, "person, team")
            await self._known(call, who)

        def write(tx: Tx) -> DataRule:
            wall = DataRule(
                name=request.name,
                labels=request.label,
                subjects=request.subject,
                hidden_from=hidden_from,
                by=_by(call),
                at=tx.now,
            )
            tx.put(wall)
            return wall

        return await self._change(call, write, request.name, {"labels": list(request.label), "from": list(hidden_from)})

    async def remove_wall(self, call: Call, request: r.RemoveWall) -> DataRule:
        """RemoveWall."""
        return await self._remove(call, DataRule, request.name, object=request.name)

    async def list_walls(self, call: Call, request: r.ListWalls) -> r.Walls:
        """ListWalls."""
        return r.Walls(walls=await self._all(call, DataRule))

    # -- taint

    async def allow_tainted(self, call: Call, request: r.AllowTainted) -> TaintPass:
        """AllowTainted."""
        _check_function(request.function, "allow")
        if request.function == EVERY or request.function.endswith(".*"):
            raise TransomError("invalid_argument", "function: name one function, as <tool>.<function>")
        self._known_agent(call, request.agent)
        if request.agent == EVERY:
            raise TransomError("invalid_argument", "agent: name one agent")

        def write(tx: Tx) -> TaintPass:
            made = TaintPass(function=request.function, agent=request.agent, by=_by(call), at=tx.now)
            tx.put(made)
            return made

        return await self._change(call, write, request.function, {"agent": request.agent})

    async def remove_tainted(self, call: Call, request: r.RemoveTainted) -> TaintPass:
        """RemoveTainted."""
        return await self._remove(call, TaintPass, request.function, request.agent, object=request.function)

    async def list_tainted(self, call: Call, request: r.ListTainted) -> r.TaintPasses:
        """ListTainted."""
        return r.TaintPasses(passes=await self._all(call, TaintPass))

    # -- what holds

    async def list_permissions(self, call: Call, request: r.ListPermissions) -> r.Permissions:
        """ListPermissions."""
        return permissions()

    async def explain(self, call: Call, request: r.ExplainPermission) -> r.Explanation:
        """ExplainPermission."""
        return await explain(self.kernel, call.origin.tenant, request)

    def operations(self) -> list[Operation]:
        """The rows of the table of operations."""
        return [
            Operation(
                name=request.__name__,
                request=request,
                response=response,
                permission=permission,
                audit=audit,
                handler=cast(Any, handler),
                command=command,
                description=(inspect.getdoc(request) or "").partition("\n")[0],
            )
            for request, response, permission, audit, command, handler in (
                (r.DisableAgent, AgentRule, "agents.manage", "agent.disable", "agent disable", self.disable),
                (r.EnableAgent, AgentRule, "agents.manage", "agent.enable", "agent enable", self.enable),
                (r.RetireAgent, AgentRule, "agents.manage", "agent.retire", "agent retire", self.retire),
                (r.ListAgentRules, r.AgentRules, "policy.read", "", "agent rules", self.list_agents),
                (r.RestrictAgent, AgentRule, "grants.manage", "grant.only", "grant only", self.restrict),
                (r.GrantAgent, AgentGrant, "grants.manage", "grant.add", "grant add", self.grant),
                (r.RemoveGrant, AgentGrant, "grants.manage", "grant.remove", "grant remove", self.remove_grant),
                (r.ListGrants, r.Grants, "policy.read", "", "grant list", self.list_grants),
                (r.SetToolPolicy, ToolRule, "policy.manage", "policy.set", "policy set", self.set_policy),
                (r.RemoveToolPolicy, ToolRule, "policy.manage", "policy.remove", "policy remove", self.remove_policy),
                (r.ListToolPolicy, r.ToolPolicy, "policy.read", "", "policy list", self.list_policy),
                (r.SetWall, DataRule, "policy.manage", "wall.set", "wall set", self.set_wall),
                (r.RemoveWall, DataRule, "policy.manage", "wall.remove", "wall remove", self.remove_wall),
                (r.ListWalls, r.Walls, "policy.read", "", "wall list", self.list_walls),
                (r.AllowTainted, TaintPass, "policy.manage", "taint.allow", "taint allow", self.allow_tainted),
                (r.RemoveTainted, TaintPass, "policy.manage", "taint.remove", "taint remove", self.remove_tainted),
                (r.ListTainted, r.TaintPasses, "policy.read", "", "taint list", self.list_tainted),
                (r.ListPermissions, r.Permissions, "policy.read", "", "permissions list", self.list_permissions),
                (r.ExplainPermission, r.Explanation, "policy.read", "", "permissions explain", self.explain),
            )
        ]


def _by(call: Call) -> str:
    return f"{call.origin.caller.kind}:{call.origin.caller.id}"


def _grantee(person: str, team: str, key: str) -> str:
    named = [f"{kind}:{name}" for kind, name in (("person", person), ("team", team), ("key", key)) if name]
    if len(named) != 1:
        raise TransomError("invalid_argument", "person, team, key: name exactly one of them")
    return named[0]


KINDS = ("person", "team", "key", "service", "subject")


def _check_who(who: str, field: str, *, roles: bool = False) -> None:
    kind, colon, name = who.partition(":")
    if not colon or not name or kind not in (*KINDS, *(("role",) if roles else ())):
        wanted = "role:<name>, person:<id> or team:<name>" if roles else "person:<id>, team:<name> or key:<id>"
        raise TransomError("invalid_argument", f"{field}: {who!r} names nobody; write {wanted}")


def _check_function(function: str, ruling: str) -> None:
    tool, dot, name = function.partition(".")
    if function != EVERY and not (dot and NAME.match(tool) and (name == EVERY or NAME.match(name))):
        raise TransomError("invalid_argument", f"function: {function!r} is none; write <tool>.<function>, <tool>.* or *")
    if ruling == "ask" and tool in ("oz", "agent"):
        raise TransomError("invalid_argument", f"ruling: nobody can be asked before {function}; write refuse")


def _rule(request: r.SetToolPolicy) -> Rule | None:
    rule = Rule(
        deciders=request.decider,
        count=request.count,
        four_eyes=request.four_eyes,
        confirm=request.confirm,
        typed=request.typed,
        edit=request.edit,
        reason="policy",
    )
    if request.ruling != "ask":
        if rule != Rule(reason="policy"):
            raise TransomError("invalid_argument", "decider, count, four_eyes, confirm, typed, edit: only with the ruling ask")
        return None
    if not 1 <= request.count <= 20:
        raise TransomError("invalid_argument", "count: must be 1 to 20")
    if request.confirm and (request.four_eyes or request.decider or request.count > 1):
        raise TransomError(
            "invalid_argument", "confirm: who started the job confirms alone; leave out four_eyes, decider, count"
        )
    return rule

"""No sequence of grants, revocations, changed roles and rules, edits, votes and time lets a wait be decided against its rule.

A kernel runs in a thread of its own; the machine does what people might, and keeps its own account of who said what.
"""

import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kernel_kit import agents_plugin
from policy_kit import PEOPLE, House, People, origin, people_plugin

from transom_hookspecs import DecideApproval, EditWait, Member, Rule, TenantSettings, TransomError, Wait, function, tool
from transom_policy.requests import (
    DisableAgent,
    EnableAgent,
    GrantAgent,
    RemoveGrant,
    RestrictAgent,
    SetToolPolicy,
)
from transom_testing.doubles import ManualClock
from transom_testing.fixtures import _open

NAMES = sorted(set(PEOPLE) - {"rita"})
MOSTLY = st.sampled_from([True, True, True, False])
HIGHER = {"member": ("member", "operator", "admin"), "operator": ("operator", "admin"), "admin": ("admin",)}
DECIDERS = ((), ("role:operator",), ("role:member",), ("team:desk",), ("person:ben", "person:ada"))
TEXTS = st.sampled_from(["one", "two", "three"])
WAIT, RECHECK = 3_600, 900

rules = st.builds(
    Rule,
    deciders=st.sampled_from(DECIDERS),
    count=st.sampled_from([1, 2, 2, 3]),
    four_eyes=st.booleans(),
    confirm=st.sampled_from([False, False, False, True]),
    veto=st.booleans(),
    edit=st.just(True),
)


def going(machine: "Decisions") -> bool:
    """Whether the wait is still open, as far as the machine knows."""
    return not machine.over


class Decisions(RuleBasedStateMachine):
    """People, a wait, and what became of it."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.portal = self.stack.enter_context(start_blocking_portal("asyncio"))
        self.people, self.clock = People(), ManualClock()
        self.people.settled = TenantSettings(wait_seconds=WAIT, recheck_seconds=RECHECK)
        self.votes: dict[str, bool] = {}
        self.text, self.outcome, self.ran = "start", "", []
        self.stopped = self.restricted = False
        self.granted: set[str] = set()

    @initialize(rule=rules, starter=st.sampled_from(["anna", "omar"]))
    def open(self, rule: Rule, starter: str) -> None:
        async def act(text: str) -> str:
            self.ran.append(text)
            return text

        async def actor(ctx, input):
            return await ctx.call("t.act", {"text": "start"})

        tools = (tool("t", function(act, open_world=False, approval=rule)),)
        chosen = [agents_plugin(actor, tools=tools), people_plugin(self.people), "policy"]
        folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        opened = self.portal.wrap_async_context_manager(_open(folder, plugins=chosen, clock=self.clock))
        self.home = House(self.stack.enter_context(opened), self.people)
        self.jobs = 0
        self.begin(starter)
        assert self.rule == rule

    def begin(self, starter: str) -> None:
        """Start a job, whose wait has the rule of that moment."""
        self.jobs += 1
        job = self.portal.call(lambda: self.home.start("actor", starter, job=f"job-{self.jobs}"))
        self.wait = self.portal.call(self.home.wait, job)
        self.rule, self.starter = self.wait.rule, starter
        self.votes, self.text, self.outcome = {}, "start", ""
        self.ran.clear()

    @precondition(lambda self: self.over)
    @rule(starter=st.sampled_from(["anna", "omar"]))
    def again(self, starter: str) -> None:
        self.portal.call(self.home.until, self.wait.job)
        with suppress(TransomError):  # she may not start it now: the old wait stays over
            self.begin(starter)

    @property
    def over(self) -> bool:
        return bool(self.outcome)

    def late(self, seconds: int) -> bool:
        return self.clock.now() - self.wait.opened_at >= seconds * 1000

    def entitled(self, who: str, *, yes: bool) -> bool:
        """Whether a word of hers counts now, by the rule as it was when the wait opened."""
        member = self.people.members.get(f"person:{who}")
        if member is None or member.role == "reader":
            return False
        if self.rule.four_eyes and yes and who == self.starter:
            return False
        if self.rule.confirm and who != self.starter:
            return False
        if self.rule.deciders:
            held = {f"person:{who}", *(f"team:{t}" for t in member.teams)}
            held |= {f"role:{low}" for low, higher in HIGHER.items() if member.role in higher}
            return bool(held & set(self.rule.deciders))
        return member.role in ("operator", "admin") or (self.rule.confirm and who == self.starter)

    def may_still_start(self) -> bool:
        member = self.people.members.get(f"person:{self.starter}")
        granted = self.starter in self.granted
        return not self.stopped and member is not None and (granted or (member.role != "reader" and not self.restricted))

    @precondition(going)
    @rule(who=st.sampled_from(NAMES), yes=MOSTLY, via=st.sampled_from(["", "app:a", "app:b"]), fresh=MOSTLY)
    def vote(self, who: str, yes: bool, via: str, fresh: bool) -> None:
        token = "" if fresh else self.wait.token
        request = DecideApproval(wait=self.wait.id, approved=yes, token=token)
        try:
            said = self.portal.call(self.home.do, origin(who, via=via), request)
        except TransomError:
            return
        assert not self.late(WAIT), "nothing is decided past its deadline"
        assert self.entitled(who, yes=yes)
        if said.by == "system:recheck":
            assert yes
            assert self.late(RECHECK)
            assert not self.may_still_start()
            self.outcome = "denied"
            return
        assert not (yes and self.late(RECHECK + 1)) or self.may_still_start()
        self.votes[who] = yes
        standing = {name: word for name, word in self.votes.items() if self.entitled(name, yes=word)}
        yeses, noes = sum(standing.values()), len(standing) - sum(standing.values())
        if yes:
            assert (said.outcome == "approved") == (yeses >= self.rule.count)
        else:
            assert (said.outcome == "denied") == (self.rule.veto or noes >= self.rule.count)
        self.votes = standing
        self.outcome = said.outcome

    @precondition(going)
    @rule(who=st.sampled_from(NAMES), text=TEXTS)
    def edit(self, who: str, text: str) -> None:
        try:
            changed = self.portal.call(self.home.do, origin(who), EditWait(wait=self.wait.id, arguments={"text": text}))
        except TransomError:
            return
        assert not self.late(WAIT)
        assert self.entitled(who, yes=True)
        assert changed.rule == self.rule
        self.text, self.votes = text, {}

    @precondition(going)
    @rule(who=st.sampled_from(NAMES), role=st.sampled_from(["reader", "member", "operator", "operator", "admin", None]))
    def change_role(self, who: str, role: str | None) -> None:
        key = f"person:{who}"
        if role is None:
            self.people.members.pop(key, None)
        else:
            teams = self.people.members[key].teams if key in self.people.members else ()
            self.people.members[key] = Member(role=role, teams=teams)

    @precondition(going)
    @rule(who=st.sampled_from(NAMES), member=MOSTLY)
    def change_team(self, who: str, member: bool) -> None:
        if f"person:{who}" in self.people.members:
            self.people.change(f"person:{who}", teams=("desk",) if member else ())

    @precondition(going)
    @rule(act=st.sampled_from(["grant", "restrict", "stop", "policy"]), on=st.booleans(), deciders=st.sampled_from(DECIDERS))
    def change_policy(self, act: str, on: bool, deciders: tuple[str, ...]) -> None:
        if act == "grant" and on == (self.starter in self.granted):
            return  # there is nothing to change
        requests = {
            "grant": (GrantAgent if on else RemoveGrant)(agent="actor", person=self.starter),
            "restrict": RestrictAgent(agent="actor", off=not on),
            "stop": (DisableAgent if on else EnableAgent)(agent="actor"),
            "policy": SetToolPolicy(function="t.act", ruling="ask", count=1 + on, decider=deciders),
        }
        self.portal.call(self.home.do, "operator", requests[act])
        if act == "grant":
            self.granted ^= {self.starter}
        self.restricted = on if act == "restrict" else self.restricted
        self.stopped = on if act == "stop" else self.stopped

    @precondition(going)
    @rule(seconds=st.sampled_from([1, 1, 300, 901, 3_000]))
    def time_passes(self, seconds: int) -> None:
        self.clock.forward(seconds)

    @invariant()
    def the_store_says_the_same(self) -> None:
        if not hasattr(self, "home"):
            return
        wait = self.portal.call(self.home.kernel.store.get, "default", Wait, self.wait.id)
        assert wait.rule == self.rule
        if not wait.open and not self.over:
            assert self.late(WAIT), f"decided by nobody: {wait.outcome}"
            self.outcome = wait.outcome
        assert self.over == (not wait.open)
        assert {vote.by for vote in wait.votes} == {f"person:{who}" for who in self.votes} or self.over
        assert not self.ran or (self.outcome == "approved" and self.ran == [self.text])

    def teardown(self) -> None:
        self.stack.close()


@pytest.mark.req("IDN-10")
class TestDecisions(Decisions.TestCase):
    settings = settings(
        max_examples=40,
        stateful_step_count=20,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )

"""What each role may do, row by row, and how decisions, scopes, rights, grants and tenants are judged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policy_kit import job_of

from transom_hookspecs import Access, Caller, Job, Member, Rule
from transom_policy.book import AgentGrant, AgentRule, Book
from transom_policy.judge import judge
from transom_policy.table import KNOWN, PERMISSIONS, ROLES

MEMBERS = {
    "rita": Member(role="reader"),
    "anna": Member(role="member", teams=("desk",)),
    "ben": Member(role="member"),
    "omar": Member(role="operator"),
    "ada": Member(role="admin"),
    "echo_key": Member(role="operator", scopes=("echo",)),
    "blind": Member(role="operator", content=False),
    "auditor": Member(role="reader", content=True),
    "nobody": Member(),
}
NO_RULES = Book()


def person(name: str, via: str = "", **more: object) -> Caller:
    return Caller(kind="person", id=name, tenant="default", via=via, **more)


PEOPLE = {"reader": person("rita"), "member": person("anna"), "operator": person("omar"), "admin": person("ada")}
BEN = person("ben")


def ruling(
    caller: Caller,
    permission: str,
    *,
    object: str = "",
    job: Job | None = None,
    rule: Rule | None = None,
    member: Member | None = None,
    book: Book = NO_RULES,
    tenant: str = "default",
    works_council: bool = False,
) -> str | None:
    access = Access(caller=caller, tenant=tenant, permission=permission, object=object, job=job, rule=rule)
    known = member or (MEMBERS.get(caller.id) if caller.tenant == tenant else None)
    verdict = judge(access, known, book, works_council=works_council)
    return verdict.ruling if verdict else None


MATRIX = {  # permission: who may, at another's job
    "jobs.read": "reader member operator admin",
    "catalog.read": "reader member operator admin",
    "feeds.read": "reader member operator admin",
    "content.read": "member operator admin",
    "jobs.start": "member operator admin",
    "jobs.continue": "member operator admin",
    "jobs.cancel": "operator admin",
    "jobs.decide": "operator admin",
    "jobs.answer": "operator admin",
    "jobs.tag": "operator admin",
    "jobs.edit": "operator admin",
    "events.publish": "operator admin",
    "agents.manage": "operator admin",
    "policy.read": "operator admin",
    "secrets.read": "operator admin",
    "secrets.allow": "operator admin",
    "spend.read": "operator admin",
    "tenants.read": "operator admin",
    "people.read": "operator admin",
    "policy.manage": "admin",
    "grants.manage": "admin",
    "audit.read": "admin",
    "retention.run": "admin",
    "secrets.manage": "admin",
    "spend.manage": "admin",
    "tenants.manage": "admin",
    "people.manage": "admin",
    "teams.manage": "admin",
    "keys.manage": "admin",
    "apps.manage": "admin",
    "sessions.manage": "admin",
    "conversations.continue": "admin",
    "capability.subjects": "",
    "whatever.plugins.add": "admin",
}


@pytest.mark.req("IDN-1")
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("permission", MATRIX)
def test_each_role_has_its_permissions_at_anothers_job_and_no_more(permission, role):
    expected = "allow" if role in MATRIX[permission].split() else "deny"
    assert ruling(PEOPLE[role], permission, job=job_of(BEN), object="j1") == expected


def test_the_matrix_above_names_every_permission_of_the_table():
    assert {row.name for row in PERMISSIONS} == set(MATRIX) - {"whatever.plugins.add"}


@pytest.mark.parametrize(
    ("role", "allowed"), [("reader", "deny"), ("member", "allow"), ("operator", "allow"), ("admin", "allow")]
)
@pytest.mark.parametrize("permission", ["jobs.cancel", "jobs.answer"])
def test_a_member_cancels_and_answers_in_jobs_that_she_started(permission, role, allowed):
    caller = PEOPLE[role]
    assert ruling(caller, permission, job=job_of(caller), object="j1", rule=Rule()) == allowed


def test_a_person_is_the_same_whichever_app_acts_for_her():
    through_app = person("anna", via="app:desk")
    assert ruling(through_app, "jobs.cancel", job=job_of(person("anna")), object="j1") == "allow"
    assert ruling(person("anna"), "jobs.cancel", job=job_of(through_app), object="j1") == "allow"


def test_a_namesake_of_another_kind_or_tenant_is_somebody_else():
    anna = person("anna")
    for starter in (Caller(kind="key", id="anna", tenant="default"), Caller(kind="person", id="anna", tenant="acme")):
        assert ruling(anna, "jobs.cancel", job=job_of(starter), object="j1") == "deny"


def test_whether_one_could_at_all_is_asked_without_a_job():
    asked = ("jobs.cancel", "jobs.decide", "jobs.answer", "jobs.tag")
    assert [ruling(person("anna"), p) for p in asked] == ["allow", "allow", "allow", "deny"]


@pytest.mark.parametrize("permission", ["jobs.cancel", "jobs.decide", "jobs.answer"])
def test_a_job_that_is_named_but_not_shown_is_nobodys_own(permission):
    assert ruling(person("anna"), permission, object="j1") == "deny"


# -- deciding


def decide(who: str, rule: Rule, *, starter: str = "ben", permission: str = "jobs.decide") -> str | None:
    return ruling(person(who), permission, job=job_of(person(starter)), object="j1", rule=rule)


@pytest.mark.req("RT-31")
def test_an_approval_without_deciders_is_for_operators_and_admins():
    assert [decide(who, Rule()) for who in ("rita", "anna", "omar", "ada")] == ["deny", "deny", "allow", "allow"]


def test_a_member_does_not_approve_even_in_her_own_job():
    assert decide("anna", Rule(), starter="anna") == "deny"


def test_a_confirmation_is_for_who_started_the_job():
    assert decide("anna", Rule(confirm=True), starter="anna") == "allow"
    assert decide("anna", Rule(confirm=True), starter="ben") == "deny"


@pytest.mark.req("RT-31", "IDN-10")
@pytest.mark.parametrize(
    ("deciders", "allowed"),
    [
        (("person:anna",), {"anna"}),
        (("person:anna", "person:omar"), {"anna", "omar"}),
        (("role:member",), {"anna", "omar", "ada"}),
        (("role:operator",), {"omar", "ada"}),
        (("role:admin",), {"ada"}),
        (("role:admin", "person:anna"), {"anna", "ada"}),
        (("role:emperor",), set()),
        (("role:",), set()),
        (("team:desk",), {"anna"}),
        (("team:ops",), set()),
        (("anna",), set()),
        (("person:rita",), set()),
    ],
)
@pytest.mark.parametrize("permission", ["jobs.decide", "jobs.answer"])
def test_named_deciders_are_the_only_ones_who_may(permission, deciders, allowed):
    everybody = ("rita", "anna", "omar", "ada")
    assert {who for who in everybody if decide(who, Rule(deciders=deciders), permission=permission) == "allow"} == allowed


def test_a_key_is_no_person_of_its_name():
    key = Caller(kind="key", id="omar", tenant="default")
    assert ruling(key, "jobs.decide", job=job_of(BEN), object="j1", rule=Rule(deciders=("person:omar",))) == "deny"


@pytest.mark.req("IDN-10")
def test_an_answer_needs_the_permission_to_read_content():
    assert decide("blind", Rule(), permission="jobs.answer") == "deny"
    assert decide("blind", Rule(), permission="jobs.edit") == "deny"
    assert decide("blind", Rule(), permission="jobs.decide") == "allow"


# -- content, scopes, rights


@pytest.mark.parametrize(("who", "expected"), [("blind", "deny"), ("auditor", "allow"), ("rita", "deny"), ("anna", "allow")])
def test_content_is_granted_apart_from_the_role(who, expected):
    assert ruling(person(who), "content.read", job=job_of(BEN), object="j1") == expected


def test_a_permission_is_given_and_taken_apart_from_the_role():
    assert ruling(person("rita"), "audit.read", member=Member(role="reader", rights=("audit.read",))) == "allow"
    assert ruling(person("anna"), "feeds.read", member=Member(role="member", rights=("-feeds.read",))) == "deny"
    assert ruling(person("anna"), "jobs.start", object="echo", member=Member(role="member", rights=("-jobs.start",))) == "deny"


def test_who_has_no_role_has_what_it_was_given_for_its_own_jobs_alone():
    subject, given = Caller(kind="subject", id="s", tenant="default"), Member(rights=("jobs.read", "jobs.start"))
    assert ruling(subject, "jobs.start", object="echo", member=given) == "allow"
    assert ruling(subject, "jobs.read", job=job_of(subject), object="j1", member=given) == "allow"
    assert ruling(subject, "jobs.read", job=job_of(BEN), object="j1", member=given) == "deny"
    for permission in MATRIX:
        assert ruling(subject, permission, job=job_of(subject), object="j1", member=Member()) == "deny"


SCOPED = Caller(kind="key", id="echo_key", tenant="default", scopes=("echo",))


@pytest.mark.req("IDN-2")
@pytest.mark.parametrize(
    ("permission", "object", "agent", "expected"),
    [
        ("jobs.start", "echo", None, "allow"),
        ("jobs.start", "helper", None, "deny"),
        ("jobs.start", "Echo", None, "deny"),
        ("catalog.read", "helper", None, "deny"),
        ("jobs.start", "helper", "echo", "deny"),
        ("jobs.read", "j1", "echo", "allow"),
        ("jobs.read", "j1", "helper", "deny"),
        ("jobs.cancel", "j1", "helper", "deny"),
        ("content.read", "j1", None, "deny"),
        ("jobs.read", "", None, "allow"),
        ("catalog.read", "", None, "allow"),
        ("conversations.continue", "c1", None, "deny"),
        ("events.publish", "", None, "deny"),
        ("agents.manage", "", None, "deny"),
        ("agents.manage", "echo", None, "deny"),
    ],
)
def test_a_scoped_key_reaches_only_its_agents(permission, object, agent, expected):
    about = job_of(BEN, agent=agent) if agent else None
    assert ruling(SCOPED, permission, object=object, job=about) == expected


@pytest.mark.req("IDN-2")
def test_a_scoped_key_changes_nothing_of_the_tenant_even_as_admin():
    """It could make itself a key without scopes."""
    admin = Member(role="admin", scopes=("echo",))
    for row in PERMISSIONS:
        if not row.about_agents:
            assert ruling(SCOPED, row.name, member=admin) == "deny", row.name


@pytest.mark.req("IDN-2")
def test_an_app_acts_for_an_admin_in_jobs_not_in_what_the_tenant_sets():
    """What it would make there would outlive its short token."""
    through_app = person("ada", via="app:desk")
    allowed = {row.name for row in PERMISSIONS if ruling(through_app, row.name) == "allow"}
    assert allowed == {row.name for row in PERMISSIONS if row.about_agents and row.role}


def test_scopes_that_were_narrowed_since_hold_for_older_callers_too():
    wide = Caller(kind="key", id="echo_key", tenant="default", scopes=("echo", "helper"))
    assert ruling(wide, "jobs.start", object="helper") == "deny"
    wider = Caller(kind="key", id="echo_key", tenant="default")
    assert ruling(wider, "jobs.start", object="helper") == "deny"


def test_scopes_of_an_app_narrow_what_its_person_may():
    assert ruling(person("ada", via="app:desk", scopes=("echo",)), "jobs.start", object="helper") == "deny"


# -- grants, kill switches, works council


GRANTED = Book(
    agents=[AgentRule(agent="payroll", granted_only=True)],
    grants=[
        AgentGrant(agent="payroll", to="person:anna"),
        AgentGrant(agent="payroll", to="team:ops"),
        AgentGrant(agent="helper", to="person:rita"),
        AgentGrant(agent="helper", to="key:ci"),
    ],
)


@pytest.mark.req("IDN-1", "AGUI-3")
@pytest.mark.parametrize("permission", ["jobs.start", "jobs.continue"])
@pytest.mark.parametrize(
    ("who", "agent", "teams", "expected"),
    [
        ("anna", "payroll", (), "allow"),
        ("ben", "payroll", (), "deny"),
        ("ben", "payroll", ("ops",), "allow"),
        ("omar", "payroll", (), "deny"),
        ("ada", "payroll", (), "deny"),
        ("rita", "payroll", (), "deny"),
        ("rita", "helper", (), "allow"),
        ("rita", "echo", (), "deny"),
        ("ben", "helper", (), "allow"),
        ("anna", "echo", (), "allow"),
    ],
)
def test_a_grant_lets_one_start_an_agent_and_some_agents_need_one(permission, who, agent, teams, expected):
    member = Member(role=MEMBERS[who].role, teams=teams)
    assert ruling(person(who), permission, object=agent, member=member, book=GRANTED) == expected


def test_who_was_granted_an_agent_could_start_something():
    assert ruling(person("rita"), "jobs.start", book=GRANTED) == "allow"
    assert ruling(person("rita"), "jobs.start") == "deny"


@pytest.mark.parametrize("agent", ["echo", "*"])
def test_a_kill_switch_holds_for_everybody(agent):
    stopped = Book(agents=[AgentRule(agent=agent, state="disabled", reason="leaks")])
    operator = Caller(kind="operator", id="local")
    system = Caller(kind="system", id="clock")
    for caller in (person("ada"), operator, system):
        for permission in ("jobs.start", "jobs.continue"):
            assert ruling(caller, permission, object="echo", book=stopped, member=Member(role="admin")) == "deny"
        other = "deny" if agent == "*" else "allow"
        assert ruling(caller, "jobs.start", object="helper", book=stopped, member=Member(role="admin")) == other


def test_a_retired_agent_is_not_started_and_its_jobs_go_on():
    retired = Book(agents=[AgentRule(agent="echo", state="retired")])
    assert ruling(person("ada"), "jobs.start", object="echo", book=retired) == "deny"
    assert ruling(person("ada"), "jobs.continue", object="echo", job=job_of(person("ada")), book=retired) == "allow"


@pytest.mark.req("IDN-9")
def test_in_works_council_mode_the_audit_trail_is_for_its_auditors():
    auditor = Member(role="reader", rights=("audit.read",))
    assert ruling(person("ada"), "audit.read", works_council=True) == "deny"
    assert ruling(person("rita"), "audit.read", works_council=True, member=auditor) == "allow"


# -- tenants


@pytest.mark.req("IDN-8")
def test_nobody_reaches_another_tenant_whatever_the_role():
    eve = Caller(kind="person", id="eve", tenant="acme")
    for permission in MATRIX:
        for about in (None, job_of(eve)):
            assert ruling(eve, permission, job=about, member=Member(role="admin")) == "deny", permission


def test_callers_that_nobody_knows_are_left_to_other_plugins():
    assert ruling(Caller(kind="subject", id="s1", tenant="default"), "jobs.read") is None
    assert ruling(Caller(kind="operator", id="root", tenant="default"), "jobs.read") is None


@pytest.mark.parametrize("kind", ["operator", "system"])
@pytest.mark.parametrize("permission", ["jobs.edit", "anything.at.all"])
def test_the_operator_and_the_system_may_do_everything_everywhere(kind, permission):
    assert ruling(Caller(kind=kind, id="local"), permission, tenant="acme") == "allow"


callers = st.builds(
    Caller,
    kind=st.sampled_from(["person", "key", "service", "subject"]),
    id=st.sampled_from([*MEMBERS, ""]),
    tenant=st.sampled_from(["default", "acme", ""]),
    scopes=st.sampled_from([None, (), ("echo",)]),
)


@given(caller=callers, tenant=st.sampled_from(["default", "acme"]), permission=st.sampled_from([*MATRIX, "*", ""]))
def test_only_callers_of_the_tenant_are_ever_allowed(caller, tenant, permission):
    if ruling(caller, permission, tenant=tenant) == "allow":
        assert caller.tenant == tenant


@given(
    permission=st.sampled_from([p for p in MATRIX if p != "content.read"]),
    own=st.booleans(),
    rule=st.none() | st.builds(Rule, confirm=st.booleans()),
)
def test_a_higher_role_may_all_that_a_lower_one_may(permission, own, rule):
    def allowed(name: str) -> bool:
        about = job_of(person(name) if own else BEN)
        return ruling(person(name), permission, object="j1", job=about, rule=rule) == "allow"

    held = [allowed(name) for name in ("rita", "anna", "omar", "ada")]
    assert held == sorted(held)


def test_every_permission_is_explained():
    assert len(KNOWN) == len(PERMISSIONS)
    assert all(row.what and not row.what.endswith(".") for row in PERMISSIONS)

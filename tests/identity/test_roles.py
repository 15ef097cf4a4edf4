"""What each role may do, row by row, and how decisions, scopes and tenants are judged."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import Access, Caller, Job, Rule
from transom_identity import IdentityPlugin
from transom_identity.callers import CallerConfig
from transom_identity.roles import ROLES, TABLE


def config(name: str, **settings: object) -> CallerConfig:
    return CallerConfig(token_sha256=hashlib.sha256(name.encode()).hexdigest(), **settings)


IDENTITY = IdentityPlugin(
    IdentityPlugin.Config(
        callers={
            "rita": config("rita", kind="person", role="reader"),
            "anna": config("anna", kind="person", role="member"),
            "ben": config("ben", kind="person", role="member"),
            "omar": config("omar", kind="person", role="operator"),
            "ada": config("ada", kind="person", role="admin"),
            "echo_key": config("echo_key", role="operator", scopes=("echo",)),
            "blind": config("blind", kind="person", role="operator", content=False),
            "auditor": config("auditor", kind="person", role="reader", content=True),
            "eve": config("eve", kind="person", role="admin", tenant="acme"),
            "root": config("root", kind="operator"),
        }
    )
)


def person(name: str, via: str = "") -> Caller:
    return Caller(kind="person", id=name, tenant="default", via=via)


PEOPLE = {"reader": person("rita"), "member": person("anna"), "operator": person("omar"), "admin": person("ada")}
BEN = person("ben")


def ruling(access: Access) -> str | None:
    verdict = IDENTITY.authorize(access)
    return verdict.ruling if verdict else None


MATRIX = {  # permission: who may, at another's job
    "jobs.read": "reader member operator admin",
    "catalog.read": "reader member operator admin",
    "feeds.read": "reader member operator admin",
    "content.read": "member operator admin",
    "jobs.start": "member operator admin",
    "jobs.cancel": "operator admin",
    "jobs.decide": "operator admin",
    "jobs.answer": "operator admin",
    "jobs.tag": "operator admin",
    "jobs.edit": "operator admin",
    "events.publish": "operator admin",
    "conversations.continue": "admin",
    "whatever.plugins.add": "admin",
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("permission", MATRIX)
def test_each_role_has_its_permissions_at_anothers_job_and_no_more(access, job, permission, role):
    asked = access(PEOPLE[role], permission, job=job(BEN), object="j1")
    assert ruling(asked) == ("allow" if role in MATRIX[permission].split() else "deny")


def test_the_matrix_above_names_every_permission_of_the_table():
    assert {permission for row in TABLE.values() for permission in row} - {"*"} <= set(MATRIX)


@pytest.mark.parametrize(
    ("role", "allowed"), [("reader", "deny"), ("member", "allow"), ("operator", "allow"), ("admin", "allow")]
)
@pytest.mark.parametrize("permission", ["jobs.cancel", "jobs.answer"])
def test_a_member_cancels_and_answers_in_jobs_that_she_started(access, job, permission, role, allowed):
    caller = PEOPLE[role]
    assert ruling(access(caller, permission, job=job(caller), object="j1", rule=Rule())) == allowed


def test_a_person_is_the_same_whichever_app_acts_for_her(access, job):
    through_app = person("anna", via="app:desk")
    assert ruling(access(through_app, "jobs.cancel", job=job(person("anna")), object="j1")) == "allow"
    assert ruling(access(person("anna"), "jobs.cancel", job=job(through_app), object="j1")) == "allow"


def test_a_namesake_of_another_kind_or_tenant_is_somebody_else(access, job):
    anna = person("anna")
    for starter in (Caller(kind="key", id="anna", tenant="default"), Caller(kind="person", id="anna", tenant="acme")):
        assert ruling(access(anna, "jobs.cancel", job=job(starter), object="j1")) == "deny"


def test_whether_one_could_at_all_is_asked_without_a_job(access):
    anna = person("anna")
    assert [ruling(access(anna, p)) for p in ("jobs.cancel", "jobs.decide", "jobs.answer", "jobs.tag")] == [
        "allow",
        "allow",
        "allow",
        "deny",
    ]


@pytest.mark.parametrize("permission", ["jobs.cancel", "jobs.decide", "jobs.answer"])
def test_a_job_that_is_named_but_not_shown_is_nobodys_own(access, permission):
    assert ruling(access(person("anna"), permission, object="j1")) == "deny"


# -- deciding


def decide(access, job, who: str, rule: Rule, *, starter: str = "ben", permission: str = "jobs.decide") -> str | None:
    return ruling(access(person(who), permission, job=job(person(starter)), object="j1", rule=rule))


def test_an_approval_without_deciders_is_for_operators_and_admins(access, job):
    assert [decide(access, job, who, Rule()) for who in ("rita", "anna", "omar", "ada")] == ["deny", "deny", "allow", "allow"]


def test_a_member_does_not_approve_even_in_her_own_job(access, job):
    assert decide(access, job, "anna", Rule(), starter="anna") == "deny"


def test_a_confirmation_is_for_who_started_the_job(access, job):
    assert decide(access, job, "anna", Rule(confirm=True), starter="anna") == "allow"
    assert decide(access, job, "anna", Rule(confirm=True), starter="ben") == "deny"


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
        (("team:desk",), set()),
        (("anna",), set()),
        (("person:rita",), set()),
    ],
)
@pytest.mark.parametrize("permission", ["jobs.decide", "jobs.answer"])
def test_named_deciders_are_the_only_ones_who_may(access, job, permission, deciders, allowed):
    everybody = ("rita", "anna", "omar", "ada")
    rule = Rule(deciders=deciders)
    assert {who for who in everybody if decide(access, job, who, rule, permission=permission) == "allow"} == allowed


def test_a_key_is_no_person_of_its_name(access, job):
    key = Caller(kind="key", id="echo_key", tenant="default")
    asked = access(key, "jobs.decide", job=job(BEN), object="j1", rule=Rule(deciders=("person:echo_key",)))
    assert ruling(asked) == "deny"


def test_an_answer_needs_the_permission_to_read_content(access, job):
    assert decide(access, job, "blind", Rule(), permission="jobs.answer") == "deny"
    assert decide(access, job, "blind", Rule(), permission="jobs.decide") == "allow"


# -- content, scopes, tenants


@pytest.mark.parametrize(("who", "expected"), [("blind", "deny"), ("auditor", "allow"), ("rita", "deny"), ("anna", "allow")])
def test_content_is_granted_apart_from_the_role(access, job, who, expected):
    assert ruling(access(person(who), "content.read", job=job(BEN), object="j1")) == expected


SCOPED = Caller(kind="key", id="echo_key", tenant="default", scopes=("echo",))


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
    ],
)
def test_a_scoped_key_reaches_only_its_agents(access, job, permission, object, agent, expected):
    about = job(BEN, agent=agent) if agent else None
    assert ruling(access(SCOPED, permission, object=object, job=about)) == expected


def test_scopes_that_were_narrowed_since_hold_for_older_callers_too(access):
    wide = Caller(kind="key", id="echo_key", tenant="default", scopes=("echo", "helper"))
    assert ruling(access(wide, "jobs.start", object="helper")) == "deny"
    wider = Caller(kind="key", id="echo_key", tenant="default")
    assert ruling(access(wider, "jobs.start", object="helper")) == "deny"


def test_scopes_of_an_app_narrow_what_its_person_may(access):
    app = Caller(kind="person", id="ada", tenant="default", via="app:desk", scopes=("echo",))
    assert ruling(access(app, "jobs.start", object="helper")) == "deny"


@pytest.mark.req("IDN-8")
def test_nobody_reaches_another_tenant_whatever_the_role(job):
    eve = Caller(kind="person", id="eve", tenant="acme")
    for permission in MATRIX:
        for about in (None, job(eve)):
            asked = Access(caller=eve, tenant="default", permission=permission, job=about)
            assert ruling(asked) == "deny", permission


def test_a_name_in_one_tenant_is_nobody_in_another(access):
    assert ruling(access(Caller(kind="person", id="ada", tenant="acme"), "jobs.read")) is None


def test_callers_of_other_plugins_are_left_to_them(access):
    assert ruling(access(Caller(kind="subject", id="s1", tenant="default"), "jobs.read")) is None


@pytest.mark.parametrize("kind", ["operator", "system"])
@pytest.mark.parametrize("permission", ["jobs.edit", "anything.at.all"])
def test_the_operator_and_the_system_may_do_everything_everywhere(kind, permission):
    assert ruling(Access(caller=Caller(kind=kind, id="local"), tenant="acme", permission=permission)) == "allow"


def test_an_operator_that_belongs_to_a_tenant_is_none_of_the_process(access):
    assert ruling(access(Caller(kind="operator", id="root", tenant="default"), "jobs.read")) is None


callers = st.builds(
    Caller,
    kind=st.sampled_from(["person", "key", "service", "subject"]),
    id=st.sampled_from(["rita", "anna", "omar", "ada", "eve", "echo_key", "root", ""]),
    tenant=st.sampled_from(["default", "acme", ""]),
    scopes=st.sampled_from([None, (), ("echo",)]),
)


@given(caller=callers, tenant=st.sampled_from(["default", "acme"]), permission=st.sampled_from([*MATRIX, "*", ""]))
def test_only_callers_of_the_tenant_are_ever_allowed(caller, tenant, permission):
    if ruling(Access(caller=caller, tenant=tenant, permission=permission)) == "allow":
        assert caller.tenant == tenant


@given(
    permission=st.sampled_from([p for p in MATRIX if p != "content.read"]),
    own=st.booleans(),
    rule=st.none() | st.builds(Rule, confirm=st.booleans()),
)
def test_a_higher_role_may_all_that_a_lower_one_may(permission, own, rule):
    def allowed(name: str) -> bool:
        starter = person(name) if own else BEN
        about = Job(
            id="j1",
            tree="j1",
            agent="echo",
            definition="",
            caller=starter,
            status="running",
            created_at=1,
            digest="",
            id_from="edge",
            token="",
        )
        asked = Access(caller=person(name), tenant="default", permission=permission, object="j1", job=about, rule=rule)
        return ruling(asked) == "allow"

    held = [allowed(name) for name in ("rita", "anna", "omar", "ada")]
    assert held == sorted(held)

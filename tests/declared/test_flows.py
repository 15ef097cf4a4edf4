"""Declared flows: what is found wrong when one is read, and what its steps do when it runs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_flows import FlowKind, FlowsPlugin
from transom_hookspecs import Nondeterminism, Stale, StoreUnavailable, TransomError

from .fake_context import FakeContext

pytestmark = pytest.mark.anyio


def refusal(flow, document):
    with pytest.raises(TransomError) as caught:
        flow(document)
    assert caught.value.code == "invalid_argument"
    assert caught.value.message.startswith("flow 'deploy': ")
    return caught.value.message


def test_the_plugin_offers_the_kind_flow():
    (kind,) = FlowsPlugin(FlowsPlugin.Config()).register_kinds()

    assert (kind.name, kind.folder) == ("flow", "flows")


def test_a_document_becomes_a_flow(flow):
    made = flow("""
        name: deploy
        title: Deploy
        description: Brings it out.
        input: {type: object}
        output: {type: string}
        steps:
          - {id: build, function: ci.build}
          - id: both
            together:
              - {id: notes, agent: writer}
              - {id: check, agent: tester}
          - {id: again, function: ci.build}
        result: ${{ steps.notes }}
    """)

    assert (made.name, made.title, made.description, made.flow) == ("deploy", "Deploy", "Brings it out.", True)
    assert (made.input_schema, made.output_schema) == ({"type": "object"}, {"type": "string"})
    assert made.uses == ("ci.build", "agent.writer", "agent.tester")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("title: x", "`steps` is missing; write a list of steps, at least one"),
        ("steps: []", "`steps`: expected `array` of length >= 1"),
        ("steps: [go]", "`steps[0]`: expected `object`, got `str`; write a list of steps"),
        ("steps: [{id: a, set: 1}]\nstep: 2", "`step` is no field of it; did you mean `steps`?"),
        ("steps: [{set: 1}]", "step 1: `id` is missing; write a name"),
        ("steps: [{id: a b, set: 1}]", "step 'a b': `id`: is not of its form; write a name"),
        ("steps: [{id: 7, set: 1}]", "step 1: `id`: expected `str`, got `int`; put it in quotes"),
        (
            "steps: [{id: a}]",
            "step 'a': it does nothing; write exactly one of agent, function, ask, wait, output, sleep, set, together",
        ),
        ("steps: [{id: a, agent: x, function: t.f}]", "step 'a': it has `agent` and `function`; write exactly one of"),
        (
            "steps: [{id: a, agent: x, arguments: {}}]",
            "step 'a': `arguments` does not go with `agent`; it takes input, timeout",
        ),
        ("steps: [{id: a, sleep: 5m, timeout: 5m}]", "step 'a': `timeout` does not go with `sleep`; it takes nothing more"),
        ("steps: [{id: a, together: [{id: b, set: 1}], input: 1}]", "`input` does not go with `together`"),
        ("steps: [{id: a, agnt: x}]", "step 'a': `agnt` is no field of it; did you mean `agent`?"),
        ("steps: [{id: a, function: deploy}]", "step 'a': `function`: is not of its form; write `<tool>.<function>`"),
        ("steps: [{id: a, function: t.*}]", "`function`: is not of its form"),
        ("steps: [{id: a, sleep: soon}]", "step 'a': `sleep`: is no duration between 0 and 3650d; write a duration"),
        (
            "steps: [{id: a, ask: Which?, choices: []}]",
            "step 'a': `choices`: expected `array` of length >= 1; write a list of texts",
        ),
        ("steps: [{id: a, set: 1, on_error: ignore}]", "step 'a': `on_error`: invalid enum value 'ignore'; write `continue`"),
        ("steps: [{id: a, set: 1}, {id: a, set: 2}]", "`id`: 2 steps have the id 'a'; rename all but one"),
        ("steps: [{id: a, together: [{id: a, set: 1}]}]", "`id`: 2 steps have the id 'a'"),
        (
            "steps: [{id: a, set: '${{ steps.b }}'}, {id: b, set: 1}]",
            "step 'a': `${{ steps.b }}` uses step 'b' before that is done; put",
        ),
        ("steps: [{id: a, set: '${{ steps.a }}'}]", "step 'a': `${{ steps.a }}` uses step 'a' before that is done"),
        ("steps: [{id: a, set: '${{ steps.c.x }}'}]", "step 'a': `${{ steps.c.x }}` names no step; there are a"),
        ("steps: [{id: a, set: '${{ steps }}'}]", "step 'a': `${{ steps }}` names no step; write `steps.<id>`"),
        ("steps: [{id: a, set: '${{ env.HOME }}'}]", "step 'a': `${{ env.HOME }}` begins with none of trigger, input, steps"),
        ("steps: [{id: a, set: '${{ item }}'}]", "begins with none of trigger, input, steps"),
        ("steps: [{id: a, agent: x, input: {deep: ['${{ steps.b }}']}}]", "step 'a': `${{ steps.b }}` names no step"),
        ("steps: [{id: a, ask: 'x ${{ nope }}'}]", "step 'a': `${{ nope }}` begins with none"),
        ("steps: [{id: a, ask: Which?, choices: ['${{ nope }}']}]", "step 'a': `${{ nope }}` begins with none"),
        ("steps: [{id: a, wait: ci, match: {x: '${{ nope }}'}}]", "step 'a': `${{ nope }}` begins with none"),
        ("steps: [{id: a, output: o, arguments: {x: '${{ nope }}'}}]", "step 'a': `${{ nope }}` begins with none"),
        ("steps: [{id: a, set: 1, when: '${{ nope }}'}]", "step 'a': `${{ nope }}` begins with none"),
        ("steps: [{id: a, set: 1, when: input.x}]", "step 'a': `when`: 'input.x' is no single template; write names with dots"),
        (
            "steps: [{id: a, set: 1, when: '${{ input.x > 1 }}'}]",
            "step 'a': `when`: ' input.x > 1 ' between `${{` and `}}` is no path",
        ),
        ("steps: [{id: a, set: 'x ${{ input.x'}]", "step 'a': `set`: 'x ${{ input.x' has a template that is not closed"),
        (
            "steps: [{id: a, set: {'${{ input.x }}': 1}}]",
            "step 'a': `set`: the key '${{ input.x }}' has a template; only values take them",
        ),
        (
            "steps: [{id: a, together: [{id: b, set: 1}, {id: c, set: '${{ steps.b }}'}]}]",
            "step 'c': `${{ steps.b }}` uses step 'b' before",
        ),
        (
            "steps: [{id: a, together: [{id: b, set: 1}], for_each: '${{ input }}'}]",
            "step 'a': `for_each` does not go with `together`",
        ),
        ("steps: [{id: a, set: 1}]\nresult: '${{ steps.b }}'", "`result`: `${{ steps.b }}` names no step; there are a"),
        (
            "steps: [" + ",".join(f"{{id: s{n}, set: 1}}" for n in range(1_001)) + "]",
            "1001 steps are more than 1000; move some to a flow",
        ),
    ],
    ids=lambda value: value[:60],
)
def test_what_is_wrong_is_found_when_the_flow_is_read(flow, document, words):
    assert words in refusal(flow, document)


STEP = st.dictionaries(
    st.sampled_from(["id", "agent", "function", "ask", "set", "input", "together", "when", "for_each", "timeout", "x"]),
    st.recursive(
        st.none() | st.integers() | st.text() | st.sampled_from(["a", "t.f", "${{ input }}", "${{ steps.a }}", "${{"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "set", "x"]), inner, max_size=3),
        max_leaves=5,
    ),
)


@given(st.lists(STEP, max_size=3))
def test_any_steps_are_a_flow_or_refused(steps):
    refused = attempt({"steps": steps})

    assert not refused or refused.startswith("flow 'deploy': ")


def attempt(body):
    try:
        FlowKind().load("deploy", body)
    except TransomError as error:
        return error.message
    return ""


async def test_steps_run_in_order_and_pass_on_what_they_got(flow):
    made = flow("""
        steps:
          - {id: draft, agent: writer, input: {about: "${{ input.topic }}", n: 2}, timeout: 5m}
          - {id: sure, ask: "Send to ${{ input.to }}?", choices: ["yes", "only ${{ input.to }}"], timeout: 1h}
          - {id: sent, function: team.post, arguments: {text: "${{ steps.draft.text }}", sure: "${{ steps.sure }}"}}
          - {id: ci, wait: github, match: {sha: "${{ steps.sent.sha }}"}, timeout: 2h}
          - {id: labels, output: add_labels, arguments: {labels: ["${{ steps.ci.state }}"]}}
          - {id: pause, sleep: 90s}
          - {id: all, set: {number: "${{ steps.labels.answer.number }}", pause: "${{ steps.pause }}"}}
    """)
    ctx = FakeContext(
        does={
            "agent.writer": {"text": "Hi"},
            "team.post": {"sha": "ab12"},
            "output.add_labels": {"applied": True, "state": "applied", "result": "Applied.", "answer": {"number": 13}},
        },
        said=["yes"],
        events=[{"state": "green"}],
    )

    assert await made.run(ctx, {"topic": "x", "to": "kim"}) == {"number": 13, "pause": None}
    assert ctx.seen == [
        ("delegate", "writer", {"about": "x", "n": 2}, 300.0),
        ("ask", "Send to kim?", ["yes", "only kim"], None, 3600.0),
        ("call", "team.post", {"text": "Hi", "sure": "yes"}),
        ("wait", "github", {"sha": "ab12"}, 7200.0),
        ("output", "add_labels", {"labels": ["green"]}),
        ("sleep", 90.0),
    ]
    assert type(ctx.seen[0][3]) is float


async def test_what_is_left_out_is_asked_for_without(flow):
    made = flow(
        "steps: [{id: a, agent: x}, {id: b, function: t.f}, {id: c, wait: ci}, {id: d, ask: Which?, schema: {type: integer}}]"
    )
    ctx = FakeContext(does={"agent.x": 1, "t.f": 2}, said=[5], events=[None])

    assert await made.run(ctx, None) == 5
    assert ctx.seen == [
        ("delegate", "x", None, None),
        ("call", "t.f", {}),
        ("wait", "ci", {}, None),
        ("ask", "Which?", [], {"type": "integer"}, None),
    ]


async def test_a_fires_trigger_is_a_root_of_its_own(flow):
    made = flow("steps: [{id: a, set: '${{ trigger.body.action }}'}]")

    assert await made.run(FakeContext(), {"trigger": {"body": {"action": "opened"}}}) == "opened"
    with pytest.raises(TransomError, match=r"step 'a': `.*trigger.body.action.*` leads nowhere: `trigger` is null"):
        await made.run(FakeContext(), "by hand")


async def test_a_result_is_made_of_steps_and_input(flow):
    made = flow("steps: [{id: a, set: [1, 2]}]\nresult: {all: '${{ steps.a }}', text: '${{ steps.a }} of ${{ input }}'}")

    assert await made.run(FakeContext(), "x") == {"all": [1, 2], "text": "[1,2] of x"}


async def test_a_path_that_leads_nowhere_fails_the_flow_and_names_the_step(flow):
    made = flow("steps: [{id: a, set: {x: 1}}, {id: b, function: t.f, arguments: {y: '${{ steps.a.y }}'}}]")
    ctx = FakeContext(does={"t.f": 1})

    with pytest.raises(
        TransomError, match=r"step 'b': `\${{ steps\.a\.y }}` leads nowhere: `steps\.a` is a mapping with 'x'"
    ) as caught:
        await made.run(ctx, None)

    assert caught.value.details["step"] == "b"
    assert ctx.seen == []


async def test_a_result_that_leads_nowhere_says_so(flow):
    with pytest.raises(TransomError, match=r"`result`: .* leads nowhere"):
        await flow("steps: [{id: a, set: 1}]\nresult: '${{ input.x }}'").run(FakeContext(), None)


@pytest.mark.parametrize("value", [False, None, 0, 0.0, "", [], {}], ids=repr)
async def test_a_step_is_left_out_when_its_condition_is_false_or_empty(flow, value):
    made = flow("steps: [{id: a, function: t.f, when: '${{ input.go }}'}, {id: b, set: ['${{ steps.a }}']}]")
    ctx = FakeContext(does={"t.f": 1})

    assert await made.run(ctx, {"go": value}) == [None]
    assert ctx.seen == []


@pytest.mark.parametrize("value", [True, 1, "false", [0], {"x": None}], ids=repr)
async def test_a_step_runs_when_its_condition_is_anything_else(flow, value):
    made = flow("steps: [{id: a, function: t.f, when: '${{ input.go }}'}]")

    assert await made.run(FakeContext(does={"t.f": "ran"}), {"go": value}) == "ran"


async def test_steps_together_run_at_once_and_are_known_afterwards(flow):
    made = flow("""
        steps:
          - id: both
            together:
              - {id: one, agent: x, input: "${{ input }}"}
              - {id: two, function: t.f}
              - id: inner
                together: [{id: three, set: 3}]
          - {id: all, set: ["${{ steps.both }}", "${{ steps.one }}", "${{ steps.three }}"]}
    """)
    ctx = FakeContext(does={"agent.x": "X", "t.f": "F"})

    both, one, three = await made.run(ctx, "in")

    assert both == {"one": "X", "two": "F", "inner": {"three": 3}}
    assert (one, three) == ("X", 3)
    assert ctx.seen[0] == ("together", 3)
    assert sorted(step[0] for step in ctx.seen[1:]) == ["call", "delegate", "together"]


async def test_steps_in_what_was_left_out_are_null(flow):
    made = flow(
        "steps: [{id: a, together: [{id: b, set: 1}], when: '${{ input }}'}, {id: c, set: '${{ steps.a }}/${{ steps.b }}'}]"
    )

    assert await made.run(FakeContext(), False) == "null/null"


async def test_a_failure_in_a_branch_names_the_way_to_it(flow):
    made = flow("steps: [{id: both, together: [{id: one, function: t.f}, {id: two, set: 1}]}]")

    with pytest.raises(TransomError, match=r"^step 'both': step 'one': it broke$") as caught:
        await made.run(FakeContext(does={"t.f": TransomError("unavailable", "it broke")}), None)

    assert (caught.value.code, caught.value.details["step"]) == ("unavailable", "both")


async def test_an_action_runs_for_each_item_in_order(flow):
    made = flow("steps: [{id: a, function: t.f, for_each: '${{ input.items }}', arguments: {n: '${{ item.n }}', of: x}}]")
    ctx = FakeContext(does={"t.f": lambda arguments: arguments["n"] * 2})

    assert await made.run(ctx, {"of": "x", "items": [{"n": 1}, {"n": 2}]}) == [2, 4]
    assert [step[2] for step in ctx.seen] == [{"n": 1, "of": "x"}, {"n": 2, "of": "x"}]
    assert await made.run(ctx, {"of": "x", "items": []}) == []


@pytest.mark.parametrize(
    ("items", "words"), [("text", "`input` is no list"), ([0] * 101, "101 items; at most 100")], ids=["text", "long"]
)
async def test_items_are_a_list_of_bounded_length(flow, items, words):
    ctx = FakeContext(does={"t.f": 1})

    with pytest.raises(TransomError, match=f"step 'a': `for_each`: .*{words}"):
        await flow("steps: [{id: a, function: t.f, for_each: '${{ input }}'}]").run(ctx, items)

    assert ctx.seen == []


async def test_a_failing_step_fails_the_flow_under_its_own_code(flow):
    ctx = FakeContext(does={"t.f": TransomError("permission_denied", "not you", {"reason": "policy"}), "t.g": 1})

    with pytest.raises(TransomError, match=r"^step 'a': not you$") as caught:
        await flow("steps: [{id: a, function: t.f}, {id: b, function: t.g}]").run(ctx, None)

    assert caught.value.code == "permission_denied"
    assert caught.value.details == {"reason": "policy", "step": "a"}
    assert len(ctx.seen) == 1


async def test_a_failing_step_that_may_fail_gives_its_error(flow):
    made = flow("""
        steps:
          - {id: a, function: t.f, on_error: continue}
          - {id: both, on_error: continue, together: [{id: one, function: t.f}]}
          - {id: all, set: ["${{ steps.a.error.code }}", "${{ steps.both.error.message }}", "${{ steps.one }}"]}
    """)
    ctx = FakeContext(does={"t.f": TransomError("unavailable", "it broke")})

    assert await made.run(ctx, None) == ["unavailable", "step 'one': it broke", None]


@pytest.mark.parametrize(
    "error",
    [Stale("j1"), Nondeterminism("1", "call a", "call b"), StoreUnavailable("disk full")],
    ids=lambda e: type(e).__name__,
)
async def test_what_ends_the_worker_is_no_steps_failure(flow, error):
    made = flow("steps: [{id: a, function: t.f, on_error: continue}]")

    with pytest.raises(type(error)) as caught:
        await made.run(FakeContext(does={"t.f": error}), None)

    assert caught.value is error


@given(st.text())
def test_no_data_is_ever_read_as_a_template(data):
    import anyio

    made = FlowKind().load("deploy", {"steps": [
        {"id": "a", "function": "t.f", "arguments": {"x": "${{ input }}"}},
        {"id": "b", "set": {"again": "${{ steps.a }}", "text": "<${{ steps.a }}>"}},
    ], "result": "${{ steps.b }}"})  # fmt: skip
    tricky = data + "${{ steps.a }}" + data

    result = anyio.run(made.run, FakeContext(does={"t.f": lambda arguments: arguments["x"]}), tricky)

    assert result == {"again": tricky, "text": f"<{tricky}>"}

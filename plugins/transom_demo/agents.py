"""The demo's agents in Python: those that ask, plan, delegate, and take many steps."""

from collections.abc import Awaitable

import msgspec

from transom_hookspecs import Agent, Branch, Context, Json, JsonObject

STEPS: JsonObject = {
    "type": "object",
    "properties": {
        "steps": {"type": "integer", "minimum": 0, "maximum": 900, "description": "how many steps"},
        "seconds": {"type": "number", "minimum": 0, "maximum": 3600, "description": "how long each takes"},
    },
    "required": ["steps", "seconds"],
    "additionalProperties": False,
}


class _Steps(msgspec.Struct, frozen=True, kw_only=True):
    steps: int
    seconds: float


async def _asker(ctx: Context, input: Json) -> str:
    colour = await ctx.ask("Which colour?", choices=("red", "green", "blue"))
    return await ctx.say("You chose nothing." if colour is None else f"You chose {colour}.")


async def _brief(ctx: Context, input: Json) -> str:
    answer = await ctx.ask("Still there?", timeout=2.0)
    return await ctx.say("Nobody answered in time." if answer is None else f"You said {answer}.")


async def _planner(ctx: Context, input: Json) -> str:
    plan = await ctx.note("Two workers look into it.", kind="plan", tags=("plan",))
    found = await ctx.together(_worker_on("the first half"), _worker_on("the second half"))
    await ctx.note("Both workers are done.", kind="plan", tags=("plan", "done"), supersedes=plan)
    return await ctx.say("The plan is done. " + " ".join(str(answer) for answer in found))


def _worker_on(part: str) -> Branch[Json]:
    def delegate(ctx: Context) -> Awaitable[Json]:
        return ctx.delegate("worker", part)

    return delegate


async def _worker(ctx: Context, input: Json) -> str:
    part = input if isinstance(input, str) else msgspec.json.encode(input).decode()
    await ctx.note(f"Looked into {part}.", kind="finding", tags=("work",))
    return await ctx.say(f"I looked into {part}.")


async def _sleeper(ctx: Context, input: Json) -> str:
    return await _take_steps(ctx, "demo.nap", input)


async def _sender(ctx: Context, input: Json) -> str:
    return await _take_steps(ctx, "demo.send", input)


async def _take_steps(ctx: Context, function: str, input: Json) -> str:
    asked = msgspec.convert(input, _Steps)
    for _ in range(asked.steps):
        await ctx.call(function, {"seconds": asked.seconds})
    return await ctx.say(f"slept {asked.steps}")


AGENTS: tuple[Agent, ...] = (
    Agent(name="asker", title="Asker", description="Asks for a colour.", run=_asker),
    Agent(name="brief", title="Brief", description="Asks, and waits two seconds for the answer.", run=_brief),
    Agent(
        name="planner",
        title="Planner",
        description="Pins a plan, has two workers look into it, and sums up.",
        run=_planner,
        uses=("agent.worker",),
    ),
    Agent(name="worker", title="Worker", description="Pins what it found and answers.", run=_worker),
    Agent(
        name="sleeper",
        title="Sleeper",
        description="Takes naps, which may be taken again after a crash.",
        run=_sleeper,
        input_schema=STEPS,
        uses=("demo.nap",),
    ),
    Agent(
        name="sender",
        title="Sender",
        description="Takes steps that may not be taken twice.",
        run=_sender,
        input_schema=STEPS,
        uses=("demo.send",),
    ),
)

"""A plugin whose model, functions and agent tell a secret wherever something can be told; it knows the value itself."""

import json
import logging
import os
import threading
from base64 import b64encode
from urllib.parse import quote

from transom_hookspecs import (
    Agent,
    Message,
    ModelEnd,
    Rule,
    TextDelta,
    TokenCount,
    ToolCall,
    TransomError,
    function,
    hookimpl,
    tool,
)

SECRET = os.environ["PLANTED"]
log = logging.getLogger("planter")


def writings() -> list[str]:
    """The value as others may write it."""
    data = SECRET.encode()
    return [
        SECRET,
        json.dumps(SECRET),
        quote(SECRET),
        quote(SECRET, safe=""),
        b64encode(data).decode(),
        b64encode(b"x" + data).decode(),
    ]


class PlantedModel:
    """Does what the prompt's last word says."""

    name = "planted"
    cut = False

    def count(self, request) -> int:
        return 1

    async def stream(self, request):
        said = [message.content for message in request.messages]
        if any(SECRET in text for text in said):
            yield TextDelta("the prompt has it in clear")
        mode = said[-1]
        if mode == "error":
            raise TransomError("invalid_argument", f"no {SECRET} here", {"given": SECRET, SECRET: [SECRET]})
        if mode == "crash":
            raise ValueError(SECRET)
        text = f"It is {SECRET}, {' or '.join(writings())}"
        for letter in text:
            yield TextDelta(letter)
            if mode == "cut" and letter == "+" and not self.cut:
                self.cut = True
                raise TransomError("unavailable", f"cut after {SECRET}")
        arguments = {"text": text, "more": {SECRET: [SECRET]}}
        calls = [ToolCall(id=SECRET, function="plant.take", arguments=arguments)]
        calls.append(ToolCall(id="b", function=f"plant.{SECRET}", arguments={}))
        calls.append(ToolCall(id="c", function="oz.board_write", arguments={"text": SECRET, "kind": SECRET, "tags": [SECRET]}))
        end = {"reasoning": {"signature": SECRET}} if mode == "calls" else {}
        yield ModelEnd(calls=tuple(calls) if mode == "calls" else (), usage=TokenCount(input_tokens=1, output_tokens=1), **end)


async def take(text: str, more: dict[str, list[str]]) -> str:
    """Say what it got."""
    return f"{text} {more}"


async def give() -> dict[str, list[str]]:
    """Answer with it."""
    return {SECRET: [SECRET, *writings(), "x" * 200 + SECRET]}


async def fail() -> str:
    """Raise with it."""
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        raise RuntimeError("y" * 1969 + SECRET, {"key": SECRET}) from error


async def refuse() -> str:
    """Refuse with it."""
    raise TransomError("failed_precondition", f"{SECRET} is not for you", {"value": SECRET})


async def guarded(text: str) -> str:
    """Asks first."""
    return text


async def planter(ctx, input):
    """Does what `mode` says."""
    await MODES[input["mode"]](ctx)
    return {"again": input, SECRET: writings()}


async def by_model(ctx, mode):
    prompt = [Message(role="system", content=f"You know {SECRET}."), Message(role="user", content=mode)]
    answer = await ctx.model("planted", prompt, functions=["plant.*", "oz.board_write"])
    results = await ctx.tools(answer.calls, message=answer.message) if answer.calls else []
    await ctx.say(f"{answer.text} {[r.content for r in results]}")


async def caught(ctx, name):
    try:
        await ctx.call(name)
    except TransomError as error:
        await ctx.say(f"it said {error.message} {error.details}")
        raise


async def raises(ctx):
    raise ValueError("z" * 1973 + SECRET)


async def refuses(ctx):
    raise TransomError("aborted", f"because of {SECRET}", {"value": [SECRET]})


async def logs(ctx):
    log.error("with an argument: %s", SECRET)
    log.error("with a wrong one: %d", SECRET)
    try:
        raise ValueError(SECRET)
    except ValueError:
        log.exception("in a traceback of %s", writings(), stack_info=True)
    thread = threading.Thread(target=int, args=(SECRET,))
    thread.start()


async def delegates(ctx):
    await ctx.delegate("planter", {"mode": "raise", "why": SECRET}, tags=[SECRET])


async def branches(ctx):
    await ctx.together(raises, raises)


MODES = {
    "text": lambda ctx: by_model(ctx, "text"),
    "calls": lambda ctx: by_model(ctx, "calls"),
    "cut": lambda ctx: by_model(ctx, "cut"),
    "model error": lambda ctx: by_model(ctx, "error"),
    "model crash": lambda ctx: by_model(ctx, "crash"),
    "result": lambda ctx: ctx.call("plant.give"),
    "fail": lambda ctx: caught(ctx, "plant.fail"),
    "refuse": lambda ctx: caught(ctx, "plant.refuse"),
    "wrong": lambda ctx: ctx.call("plant.take", {"text": [SECRET], "more": SECRET}),
    "unknown": lambda ctx: ctx.call(f"plant.{SECRET}", {"text": SECRET}),
    "raise": raises,
    "refuses": refuses,
    "log": logs,
    "say": lambda ctx: ctx.say(SECRET * 3),
    "note": lambda ctx: ctx.note(f"note {SECRET}", kind=SECRET, tags=[SECRET]),
    "ask": lambda ctx: ctx.ask(f"Is it {SECRET}?", choices=[SECRET, "no"], details={"it": SECRET}),
    "form": lambda ctx: ctx.ask("Which?", schema={"type": "object", "properties": {"x": {"const": SECRET}}}),
    "approve": lambda ctx: ctx.call("plant.guarded", {"text": SECRET}),
    "event": lambda ctx: ctx.wait_for_event("planted", match={"key": SECRET}),
    "delegate": delegates,
    "branches": branches,
}


class PlanterPlugin:
    """Registers all of it."""

    spec = "1.0"

    def __init__(self, config: object) -> None:
        """Take no settings."""

    @hookimpl
    def register_models(self):
        """The model."""
        return [PlantedModel()]

    @hookimpl
    def register_tools(self):
        """The functions."""
        return [tool("plant", take, give, fail, refuse, function(guarded, approval=Rule(edit=True), open_world=False))]

    @hookimpl
    def register_agents(self):
        """The agent."""
        schema = {"type": "object", "properties": {"mode": {"enum": [*MODES, "none"]}}, "required": ["mode"]}
        return [Agent(name="planter", run=planter, input_schema=schema)]

"""From a ModelRequest to the JSON body of a chat completion, for servers with function calls of their own."""

from collections.abc import Sequence

import msgspec

from transom_hookspecs import FunctionSpec, JsonObject, Message, ModelRequest

from .names import to_wire

RESERVED = frozenset(
    (
        "best_of",
        "functions",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "n",
        "response_format",
        "stream",
        "stream_options",
        "tools",
    )
)
"""Fields of a body that neither the settings nor an agent's options may set: the request says them, or they cost."""

REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""The names under which servers send reasoning, and under which each wants its own back."""


def native(request: ModelRequest) -> JsonObject:
    """Messages, tools and response format in the server's own terms."""
    current = turn_start(request.messages)
    body: JsonObject = {"messages": [_message(m, reasoned=i > current) for i, m in enumerate(request.messages)]}
    if request.functions:
        body["tools"] = [{"type": "function", "function": _function(f)} for f in request.functions]
    if request.output_schema is not None:
        body["response_format"] = response_format(request.output_schema)
    return body


def turn_start(messages: Sequence[Message]) -> int:
    """Where the last user message stands. Reasoning goes back from there on: it belongs to one turn."""
    return max((i for i, message in enumerate(messages) if message.role == "user"), default=-1)


def response_format(schema: JsonObject) -> JsonObject:
    """What makes an answer match a schema."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def reasoning_fields(message: Message) -> JsonObject:
    """The message's reasoning under the provider's own names."""
    return {name: message.reasoning[name] for name in REASONING if name in message.reasoning}


def result_text(message: Message) -> str:
    """A call's result as the model reads it; the wire has no mark for an error."""
    return f"Error: {message.content}" if message.error else message.content


def json_text(value: object) -> str:
    """The value as JSON text."""
    return msgspec.json.encode(value).decode()


def _message(message: Message, *, reasoned: bool) -> JsonObject:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call, "content": result_text(message)}
    # empty text, not null, beside calls: chat templates add to it
    written: JsonObject = {"role": message.role, "content": message.content}
    if message.calls:
        written["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": to_wire(c.function), "arguments": json_text(c.arguments)}}
            for c in message.calls
        ]
    return written | reasoning_fields(message) if reasoned else written


def _function(function: FunctionSpec) -> JsonObject:
    return {"name": to_wire(function.name), "description": function.description, "parameters": function.parameters}

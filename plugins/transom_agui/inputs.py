"""A RunAgentInput, read leniently: what is not known is passed over, what is needed is checked field by field.

Every refusal names all fields that are wrong, so that a client is mended in one go.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, cast, get_args

import msgspec

from transom_hookspecs import Json, JsonObject, TransomError

from .view import Messages

THREAD: Final = re.compile(r"[A-Za-z0-9._:@-]{1,200}")
ID: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,200}")
"""A run's or a message's ID: short, and without control characters."""

MOST_ANSWERS: Final = 1_000
"""More than a tree of jobs can wait for at once."""

Status = Literal["resolved", "cancelled"]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a resume: what the person says to one interrupt."""

    interrupt: str
    status: Status
    payload: Json = None


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The newest user message. `at`: where it stands among the messages."""

    id: str
    text: str
    at: int


class RunInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks for.

    Parameters:
        said: the newest user message; None when there is no user message at all.
        protocol: the version that the client speaks; empty for one from before 1.0.
    """

    thread: str
    run: str
    messages: Messages
    said: Said | None
    answers: tuple[Answer, ...] = ()
    protocol: str = ""


def read_input(body: Mapping[str, Json]) -> RunInput:
    """The input that a body is.

    Raises:
        TransomError: invalid_argument, naming each field that is wrong.
    """
    wrong: list[str] = []
    thread, run = body.get("threadId"), body.get("runId")
    if not (isinstance(thread, str) and THREAD.fullmatch(thread)):
        wrong.append("threadId: send 1 to 200 letters, digits and ._:@-")
    if not (isinstance(run, str) and ID.fullmatch(run) and run.strip()):
        wrong.append("runId: send 1 to 200 characters without control characters")
    if body.get("tools") not in (None, []):
        wrong.append("tools: the agent's tools run here, under the tenant's policy; leave them out")
    messages = _messages(body.get("messages"), wrong)
    said = None if wrong else _said(messages, wrong)
    answers = _answers(body.get("resume"), wrong)
    if wrong:
        raise TransomError("invalid_argument", "; ".join(wrong[:20]))
    version = body.get("protocolVersion")
    return RunInput(
        thread=cast(str, thread),
        run=cast(str, run),
        messages=messages,
        said=said,
        answers=answers,
        protocol=version[:20] if isinstance(version, str) else "",
    )


def _messages(value: Json, wrong: list[str]) -> Messages:
    if not isinstance(value, list):
        wrong.append("messages: send a list (empty for a resume)")
        return ()
    for i, message in enumerate(value):
        if not isinstance(message, dict):
            wrong.append(f"messages[{i}]: send an object")
            continue
        identity = message.get("id")
        if not (isinstance(identity, str) and ID.fullmatch(identity)):
            wrong.append(f"messages[{i}].id: send 1 to 200 characters without control characters")
        if not isinstance(message.get("role"), str):
            wrong.append(f"messages[{i}].role: send user, assistant, tool or another role")
    return cast(Messages, tuple(value))


def _said(messages: Messages, wrong: list[str]) -> Said | None:
    for i in range(len(messages) - 1, -1, -1):
        if messages[i]["role"] == "user":
            text = _text(messages[i].get("content"), f"messages[{i}].content", wrong)
            return Said(id=cast(str, messages[i]["id"]), text=text, at=i)
    return None


def _text(content: Json, where: str, wrong: list[str]) -> str:
    """The words of a user message: its text, or its text parts, joined by line ends."""
    parts: list[str] = []
    if isinstance(content, str):
        parts.append(content)
    elif isinstance(content, list):
        for i, part in enumerate(content):
            if not isinstance(part, dict) or part.get("type") != "text":
                wrong.append(f"{where}[{i}]: only text parts are taken here, no images, files or others")
            elif not isinstance(part.get("text"), str):
                wrong.append(f"{where}[{i}].text: send text")
            else:
                parts.append(cast(str, part["text"]))
    else:
        wrong.append(f"{where}: send text, or a list of text parts")
    return "\n".join(parts)


def _answers(value: Json, wrong: list[str]) -> tuple[Answer, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        wrong.append("resume: send a list of answers")
        return ()
    if len(value) > MOST_ANSWERS:
        wrong.append(f"resume: send at most {MOST_ANSWERS} answers")
        return ()
    answers = []
    for i, entry in enumerate(value):
        if not isinstance(entry, dict) or not isinstance(entry.get("interruptId"), str):
            wrong.append(f"resume[{i}].interruptId: send the interrupt's id")
        elif entry.get("status") not in get_args(Status):
            wrong.append(f"resume[{i}].status: send resolved or cancelled")
        else:
            status = cast(Status, entry["status"])
            answers.append(Answer(interrupt=cast(str, entry["interruptId"]), status=status, payload=entry.get("payload")))
    return tuple(answers)


def agent_input(text: str, schema: JsonObject | None) -> Json:
    """The input of an agent that a message is: its text, or the JSON that it holds where the agent asks for some."""
    if schema is None or schema.get("type") == "string":
        return text
    try:
        return cast(Json, msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return text

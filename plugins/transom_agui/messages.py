"""Messages as a client is to have them: those of a thread as it is held here, and which of its own it keeps."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import cast

from transom_hookspecs import Item, JsonObject

from .view import Messages, View
from .wire import text_of


def result_id(job: str, call: str) -> str:
    """The ID of the message that is a call's result."""
    return f"{job}:{call.removeprefix(job + ':')}:result"


def kept(messages: Messages, view: View, said: AbstractSet[str], calls: AbstractSet[str]) -> Messages:
    """The client's messages without those that this run says again, to which it would append.

    Parameters:
        said: IDs of the turn's messages from before the run.
        calls: IDs of its calls from before the run.
    """
    newest = max((i for i, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    if not view.start:
        return messages[: newest + 1]

    def stays(message: JsonObject) -> bool:
        if message.get("role") == "tool":
            return str(message.get("toolCallId")) in calls and message.get("id") in said
        return not str(message.get("id")).startswith(f"{view.job}:") or message.get("id") in said

    return (*messages[: newest + 1], *(message for message in messages[newest + 1 :] if stays(message)))


def thread_messages(items: Iterable[Item], mark: str) -> Messages:
    """A thread's items as messages, under the IDs that they were sent with; a result only where its call is.

    Parameters:
        mark: what each answer's text begins with.
    """
    calls: set[str] = set()
    messages: list[JsonObject] = []
    for item in items:
        calls.update(call.id for call in item.calls)
        if item.role != "tool" or item.call in calls:
            messages.append(_message(item, mark))
    return tuple(messages)


def _message(item: Item, mark: str) -> JsonObject:
    text = "" if item.content is None else text_of(item.content)
    if item.role == "user":
        return {"id": item.id, "role": "user", "content": text}
    if item.role == "tool":
        return {"id": result_id(item.job, item.call), "role": "tool", "toolCallId": item.call, "content": text}
    message: JsonObject = {"id": item.id, "role": "assistant"}
    if text:
        message["content"] = mark + text
    if item.calls:
        message["toolCalls"] = [
            cast(
                JsonObject,
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function, "arguments": text_of(call.arguments)},
                },
            )
            for call in item.calls
        ]
    return message

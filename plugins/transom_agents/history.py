"""A conversation's earlier turns as part of a prompt."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from transom_hookspecs import Item, Json, Message

Results = Mapping[tuple[str, str], Item]
"""Results by the item that asked for the call, and the call's ID."""


def as_messages(items: Sequence[Item]) -> list[Message]:
    """The messages of a conversation's items, such that a model's provider takes them.

    They begin with what a person said, and each call has exactly one result right after it: a result whose call was
    left behind is dropped, and a call that a lost turn never finished gets a result that says so.
    """
    results = _by_call(items)
    messages: list[Message] = []
    for item in items:
        if item.role == "user":
            messages.append(Message(role="user", content=as_text(item.content)))
        elif item.role == "assistant" and (messages or item.calls or item.content):
            messages.append(Message(role="assistant", content=as_text(item.content), calls=item.calls))
            messages += _results(item, results)
    first = next((number for number, message in enumerate(messages) if message.role == "user"), 0)
    return messages[first:]


def _by_call(items: Sequence[Item]) -> Results:
    """Each result under the item of its own turn that asked for the call last: IDs of calls may come again."""
    asked: dict[tuple[str, str], str] = {}
    results: dict[tuple[str, str], Item] = {}
    for item in items:
        asked.update({(item.job, call.id): item.id for call in item.calls})
        if item.role == "tool" and (item.job, item.call) in asked:
            results[asked[item.job, item.call], item.call] = item
    return results


def _results(asked: Item, results: Results) -> Iterable[Message]:
    for call in asked.calls:
        found = results.get((asked.id, call.id))
        content = as_text(found.content) if found else "This call was not finished."
        error = found.error if found else True
        yield Message(role="tool", content=content, call=call.id, function=call.function, error=error)


def as_text(content: Json) -> str:
    """Text as it is, anything else as compact JSON."""
    return content if isinstance(content, str) else msgspec.json.encode(content).decode()

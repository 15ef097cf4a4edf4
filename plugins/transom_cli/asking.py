"""Asking a person at the terminal: one wait at a time, shown whole, answered in words.

A dialog is a coroutine over two functions, one that reads a line and one that shows spans, so it knows no terminal.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import cast

import anyio
import msgspec

from transom_hookspecs import DecideApproval, Json, JsonObject, WaitView

from .render import Span, pretty
from .safe import safe, safe_line
from .waits import APPROVALS, terms

Read = Callable[[], Awaitable[str | None]]
Show = Callable[[Iterable[Span]], None]

_YES = frozenset(("y", "yes", "approve"))
_NO = frozenset(("n", "no", "deny"))
_LATER = frozenset(("l", "later"))
_MISSING = object()


class EndOfInput(Exception):
    """Whoever was asked closed the input: what was asked is left waiting."""


def standing_answer(wait: WaitView, *, yes: bool | None) -> DecideApproval | None:
    """What --yes or --no says to a wait; None where it says nothing.

    A value that must be typed is not typed by --yes: that is what such a rule is for.
    """
    if yes is None or wait.kind not in APPROVALS or not wait.can_decide or (yes and wait.rule.typed):
        return None
    return DecideApproval(wait=wait.id, approved=yes, token=wait.token)


class Dialog:
    """Asks for decisions.

    Parameters:
        read: the next line, or None at the end of input.
        show: prints spans.
    """

    def __init__(self, read: Read, show: Show) -> None:
        self._read = read
        self._show = show

    async def ask(self, wait: WaitView) -> DecideApproval | None:
        """Show a wait and ask for its decision; None when it is left waiting or is not this person's to decide."""
        self._show(_card(wait))
        if not wait.can_decide:
            self._show((Span("  You cannot decide this one.\n", "warn"),))
            return None
        try:
            if wait.kind == "question":
                return await self._question(wait)
            if wait.kind == "restart":
                return await self._restart(wait)
            return await self._approval(wait)
        except EndOfInput:
            self._show((Span("\n"),))
            return None

    async def _approval(self, wait: WaitView) -> DecideApproval | None:
        while True:
            word, comment = _split(await self._prompt("Approve? [y]es, [n]o, [l]ater; a comment may follow: "))
            if word in _LATER:
                return None
            if word in _NO:
                return DecideApproval(wait=wait.id, token=wait.token, approved=False, comment=comment)
            if word in _YES:
                confirm = await self._prompt(f"Type the value of {wait.rule.typed!r} to confirm: ") if wait.rule.typed else ""
                return DecideApproval(wait=wait.id, token=wait.token, approved=True, comment=comment, confirm=confirm)
            self._complain("Please answer y, n or l.")

    async def _restart(self, wait: WaitView) -> DecideApproval | None:
        self._show(
            Span(f"  {line}\n", "dim")
            for line in (
                "done: it has happened, go on (a result may follow as JSON)",
                "again: make the call once more",
                "fail: end the job",
            )
        )
        while True:
            word, rest = _split(await self._prompt("[d]one, [a]gain, [f]ail or [l]ater: "))
            if word in _LATER:
                return None
            answer = {"d": "done", "a": "again", "f": "fail"}.get(word[:1])
            if answer is None:
                self._complain("Please answer d, a, f or l.")
            elif answer == "done" and rest:
                result: JsonObject = {"answer": answer, "result": json_or_text(rest)}
                return DecideApproval(wait=wait.id, token=wait.token, answer=result)
            else:
                return DecideApproval(wait=wait.id, token=wait.token, answer=answer)

    async def _question(self, wait: WaitView) -> DecideApproval:
        answer = await (self._choice(wait.choices) if wait.choices else self._form(wait.schema))
        if answer is _MISSING:
            return DecideApproval(wait=wait.id, token=wait.token, approved=False)
        return DecideApproval(wait=wait.id, token=wait.token, answer=cast("Json", answer))

    async def _choice(self, choices: Sequence[str]) -> object:
        """One of the choices, by its number or its words."""
        self._show(Span(f"  {number}. {safe_line(choice)}\n") for number, choice in enumerate(choices, 1))
        while True:
            line = (await self._prompt("Number or answer (/decline declines): ")).strip()
            if line == "/decline":
                return _MISSING
            if (chosen := choose(choices, line)) is not None:
                return chosen
            self._complain(f"Please answer with a number from 1 to {len(choices)}, or one of the answers.")

    async def _form(self, schema: JsonObject) -> object:
        """An answer of the schema: text, or an object field by field."""
        properties = schema.get("properties")
        if not isinstance(properties, dict) or set(properties) == {"answer"}:
            field = properties.get("answer") if isinstance(properties, dict) else None
            return await self._field("Answer (/decline declines): ", field if isinstance(field, dict) else {}, required=True)
        required, answer = schema.get("required"), {}
        for name, field in properties.items():
            needed = isinstance(required, list) and name in required
            kind = field if isinstance(field, dict) else {}
            value = await self._field(f"{_title(name, kind)}{'' if needed else ' (optional)'}: ", kind, required=needed)
            if value is _MISSING and needed:
                return _MISSING
            if value is not _MISSING:
                answer[name] = value
        return answer

    async def _field(self, prompt: str, schema: JsonObject, *, required: bool) -> object:
        """A value of a flat schema; an optional one is left out by an empty line."""
        while True:
            line = await self._prompt(prompt)
            if line.strip() == "/decline" or not (line or required):
                return _MISSING
            try:
                return parse_field(line, schema)
            except ValueError as error:
                self._complain(str(error))

    async def _prompt(self, text: str) -> str:
        self._show((Span(safe(text), "head"),))
        try:
            line = await self._read()
        except anyio.get_cancelled_exc_class():  # decided elsewhere: what comes next begins a line
            self._show((Span("\n"),))
            raise
        if line is None:
            raise EndOfInput
        return line

    def _complain(self, text: str) -> None:
        self._show((Span(f"{text}\n", "warn"),))


def choose(choices: Sequence[str], line: str) -> str | None:
    """Which choice a line means: its very words, else its number, else its words in another case."""
    if line in choices:
        return line
    if re.fullmatch(r"[0-9]{1,9}", line) and 1 <= int(line) <= len(choices):
        return choices[int(line) - 1]
    folded = [choice for choice in choices if choice.casefold() == line.casefold()]
    return folded[0] if len(folded) == 1 else None


def parse_field(line: str, schema: JsonObject) -> Json:
    """A typed line as a value of a flat schema's field.

    Raises:
        ValueError: saying what would be taken.
    """
    kind, options = schema.get("type"), schema.get("enum")
    if isinstance(options, list):
        chosen = choose([str(option) for option in options], line.strip())
        if chosen is None:
            raise ValueError(f"Please answer one of: {', '.join(str(option) for option in options)}")
        return chosen
    if kind == "boolean":
        word = line.strip().lower()
        if word in _YES | _NO | {"true", "false"}:
            return word in _YES | {"true"}
        raise ValueError("Please answer yes or no.")
    if kind in ("integer", "number"):
        return _number(line.strip(), whole=kind == "integer")
    return line if kind in ("string", None) else json_or_text(line)


def json_or_text(text: str) -> Json:
    """JSON when it is JSON, else the text itself."""
    try:
        return cast("Json", msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return text


def _number(text: str, *, whole: bool) -> int | float:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        raise ValueError(f"Please answer a {'whole ' if whole else ''}number.") from None


def _split(line: str) -> tuple[str, str]:
    word, _, rest = line.strip().partition(" ")
    return word.lower(), rest.strip()


def _title(name: str, schema: JsonObject) -> str:
    title, description = schema.get("title"), schema.get("description")
    shown = title if isinstance(title, str) else name
    return f"{shown}, {description}" if isinstance(description, str) else shown


def _card(wait: WaitView) -> list[Span]:
    """All that a person should see before she decides."""
    spans = [Span(f"\n? {safe_line(wait.agent)} waits: {wait.kind} {safe_line(wait.function)}".rstrip() + "\n", "warn")]
    if wait.message:
        spans.append(Span(_indented(wait.message)))
    if wait.shown is not None:
        spans.append(Span(_indented(pretty(wait.shown))))
    spans.extend(Span(f"  · {term}\n", "dim") for term in terms(wait.rule, sum(vote.approved for vote in wait.votes)))
    return spans


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in safe(text).splitlines())

"""What waits for a person, in words: lists, and how to decide."""

from collections.abc import Sequence

from transom_hookspecs import Rule, WaitView

from .client import Target
from .render import brief
from .safe import safe_line

APPROVALS = frozenset(("approval", "outputs", "escalation", "changeset"))
"""The kinds that --yes and --no answer: not a question, not money, not a step that may have run already."""


def summary(wait: WaitView) -> str:
    """What it asks for, in one line."""
    return f"{safe_line(wait.function)} {brief(wait.shown)}" if wait.function else safe_line(wait.message)


def terms(rule: Rule, votes: int = 0) -> list[str]:
    """Who may decide and how, a sentence each; nothing for the plain case."""
    told = []
    if rule.deciders:
        told.append(f"decided by {safe_line(', '.join(rule.deciders))}")
    if rule.count > 1:
        told.append(f"{rule.count} people must agree ({votes} so far)")
    if rule.four_eyes:
        told.append("not by whoever started the job")
    if rule.confirm:
        told.append("confirmed by the acting person")
    if rule.typed:
        told.append(f"the value of {safe_line(rule.typed)!r} must be typed")
    if rule.reason:
        told.append(f"asked because of: {safe_line(rule.reason)}")
    return told


def commands(wait: WaitView, where: Target) -> list[str]:
    """The command lines that decide it."""
    if wait.kind == "question":
        return [where.command("approval", "answer", wait.id, "ANSWER")]
    if wait.kind == "restart":
        return [where.command("approval", "answer", wait.id, choice) for choice in ("done", "again", "fail")]
    confirm = ("--confirm", "VALUE") if wait.rule.typed else ()
    return [where.command("approval", "approve", wait.id, *confirm), where.command("approval", "deny", wait.id)]


def explain(waits: Sequence[WaitView], where: Target) -> list[str]:
    """Lines that tell what waits, under which terms, and how to decide it."""
    lines = []
    for wait in waits:
        lines.append(f"{wait.kind} {safe_line(wait.id)} of {safe_line(wait.agent)}: {summary(wait)}")
        lines.extend(f"  {term}" for term in terms(wait.rule, sum(vote.approved for vote in wait.votes)))
        lines.extend(f"  choices: {safe_line(', '.join(wait.choices))}" for _ in wait.choices[:1])
        lines.extend(f"  {command}" for command in commands(wait, where))
    return lines

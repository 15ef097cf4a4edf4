"""What becomes of a call: the tenant's tool policy, and whether a job that holds outside input may send data out."""

from collections.abc import Sequence

import msgspec

from transom_hookspecs import Member, Rule, ToolUse, Verdict

from .book import Book, ToolRule
from .judge import whose

TAINT = Rule(reason="taint")


def judge_call(use: ToolUse, member: Member | None, book: Book) -> Verdict | None:
    """The strictest of all rules that a call falls under; None when none does, and nothing else asks."""
    found = book.tools(use.job.agent, use.function, whose(use.job.caller, member.teams if member else ()))
    for row in found:
        if row.ruling == "refuse":
            return Verdict(ruling="deny", reason=_why(row, "refuses it"), by=row.named)
    asking = [row for row in found if row.ruling == "ask"]
    if asking:
        return _asks(asking)
    if use.sends_out and use.job.taint and use.rule is None and not book.passes(use.function, use.job.agent):
        reason = f"the job holds outside input ({', '.join(use.job.taint)}), and {use.function} can send data out"
        return Verdict(ruling="ask", reason=reason, rule=TAINT, by="taint")
    return Verdict(ruling="allow", by=found[0].named) if found else None


def _why(row: ToolRule, does: str) -> str:
    said = f": {row.reason}" if row.reason else ""
    return f"the tenant's tool policy (agent {row.agent}, function {row.function}, for {row.who}) {does}{said}"


def _asks(rows: Sequence[ToolRule]) -> Verdict:
    """One question that satisfies every row that asks; refused when no one could decide it."""
    first = rows[0]
    rule = first.rule or Rule()
    for row in rows[1:]:
        joined = join(rule, row.rule or Rule())
        if joined is None:
            return Verdict(ruling="deny", reason=_why(row, "names other deciders than another row"), by=row.named)
        rule = joined
    return Verdict(
        ruling="ask", reason=_why(first, "asks a person"), rule=msgspec.structs.replace(rule, reason="policy"), by=first.named
    )


def join(one: Rule, other: Rule) -> Rule | None:
    """The rule that holds when both do; None when no decider is named by both."""
    deciders = one.deciders or other.deciders
    if one.deciders and other.deciders:
        deciders = tuple(name for name in one.deciders if name in other.deciders)
        if not deciders:
            return None
    return one.stricter(msgspec.structs.replace(other, deciders=deciders))

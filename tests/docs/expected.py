"""Compares what a page shows with what was printed, and learns which real names stand for the page's.

A line `...` stands for any number of lines, `...` inside one for any text. What differs from run to run (IDs, tokens,
times, ports) matches anything of its form; once seen, a page's ID means the real one, in output and commands alike.
"""

import re

PORT = "7443"
"""The port that the pages show."""

_NAMES = re.compile(
    r"(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"|(?P<interrupt>ozi1\.[\w-]+(?:\.\.\.)?)"
    r"|(?P<token>tr_(?:dev|key|app|pat|at)_[\w-]+(?:\.\.\.)?)"
    r"|(?P<call>call[_-][0-9a-f]{24})"
    r"|(?P<job>(?<=job-)[0-9a-f]{32}\b)"
    r"|(?P<cursor>(?<=\d-)[0-9a-f]{12}\b)"
)
"""What names something for the length of a page."""

_FORMS = {
    "id": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "interrupt": r"ozi1\.[\w-]+",
    "token": r"tr_(?:dev|key|app|pat|at)_[\w-]+",
    "call": r"call[_-][0-9a-f]{24}",
    "job": r"[0-9a-f]{32}",
    "cursor": r"[0-9a-f]{12}",
}

_PASSING = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"),
    (r"\d+\.\d+ ?s\b", r"\d+\.\d+ ?s\b"),
    (r"\b[0-9a-f]{64}\b", r"[0-9a-f]{64}"),
    (r"operator:[a-z]+", r"operator:[\w.-]+"),
    (r"\d+ tokens", r"\d+ tokens"),
)
"""What is different each time and named nowhere else: its form in a page, and in what is printed."""


class Names:
    """Which real name stands for each name of a page."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}
        self.port = PORT

    def applied(self, text: str) -> str:
        """A page's text with the real names."""
        for shown, real in self._real.items():
            text = text.replace(shown, real)
        return text.replace(f"127.0.0.1:{PORT}", f"127.0.0.1:{self.port}")

    def check(self, expected: str, printed: str, where: str) -> None:
        """Fail when the two do not match; else keep what was learned."""
        expected, printed = expected.rstrip("\n"), _plain(printed)
        if not expected:
            return
        if expected.splitlines()[-1].strip() != "...":
            printed = printed.rstrip("\n")
        pattern, shown = self._pattern(expected)
        found = re.fullmatch(pattern, printed)
        assert found, f"{where}: expected\n{expected}\n--- but it printed\n{printed}"
        self._real.update(zip(shown, found.groups(), strict=True))

    def _pattern(self, expected: str) -> tuple[str, list[str]]:
        """A regular expression for the output, and the page's new names, one a group."""
        shown: list[str] = []
        parts: list[str] = []
        lines = expected.splitlines()
        for number, line in enumerate(lines, 1):
            last = number == len(lines)
            if line.strip() == "...":
                parts.append(r"(?:.*(?:\n|\Z))*?" if not last else r"(?:.*\n?)*")
            else:
                parts.append(self._line(line.rstrip(), shown) + r"[ \t\r]*" + ("" if last else r"(?:\n|\Z)"))
        return "".join(parts), shown

    def _line(self, line: str, shown: list[str]) -> str:
        parts, at = [], 0
        for match in _NAMES.finditer(line):
            parts.append(_literal(line[at : match.start()]))
            at, name = match.end(), match[0]
            if name in self._real:
                parts.append(re.escape(self._real[name]))
            elif name in shown:
                parts.append(f"(?P=name{shown.index(name)})")
            else:
                shown.append(name)
                parts.append(f"(?P<name{len(shown) - 1}>{_FORMS[match.lastgroup or 'id']})")
        return "".join(parts) + _literal(line[at:])


def _literal(text: str) -> str:
    """A piece of a line without names, as a pattern."""
    for number, (form, _) in enumerate(_PASSING):
        text = re.sub(form, f"\x00{number}\x00", text)
    escaped = re.sub(r"(?:\\ ){2,}", " {2,}", re.escape(text)).replace(r"\.\.\.", ".*?")  # columns may be wider
    return re.sub("\x00(\\d)\x00", lambda m: _PASSING[int(m[1])][1], escaped)


def _plain(printed: str) -> str:
    """Printed text without colours and carriage returns, its port the pages'."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed).replace("\r", "")
    return re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{PORT}", text)

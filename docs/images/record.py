"""Records a real run at a terminal as a picture: docs/images/helper.svg.

python docs/images/record.py

The run is `transom run helper "Please greet the team"` in an empty folder; `y` is typed at its question. Each line of
the picture appears when it was printed. What does not play animations shows all of it.
"""

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

COMMAND: Final = 'transom run helper "Please greet the team"'
PROMPT: Final = "Approve? [y]es, [n]o, [l]ater; a comment may follow: "
TARGET: Final = Path(__file__).parent / "helper.svg"
THINKING: Final = 1.5
COLUMNS: Final = 96
CHARACTER, LINE, LEFT, TOP = 8.43, 20, 18, 62

_SGR: Final = re.compile(r"\x1b\[([0-9;]*)m")
_CLASSES: Final = {"1": "head", "2": "dim", "31": "bad", "32": "good", "33": "warn"}


class Line(NamedTuple):
    """A line as it was printed: its text with its marks of colour, the seconds since the start, and what was typed when."""

    text: str
    at: float
    typed: str = ""
    typed_at: float = 0.0


def record() -> list[Line]:
    """Run the command at a terminal of its own and return its lines."""
    import pexpect

    with tempfile.TemporaryDirectory() as folder:
        child = pexpect.spawn(
            sys.executable,
            ["-m", "transom", "run", "helper", "Please greet the team"],
            cwd=folder,
            env=environment(folder),
            encoding="utf-8",
            timeout=30,
            dimensions=(40, COLUMNS),
        )
        begin, lines, asked = time.monotonic(), [Line(f"\x1b[2m$\x1b[0m {COMMAND}", 0.0)], False
        while child.expect(["\r\n", re.escape(PROMPT), pexpect.EOF]) != 2:
            at = time.monotonic() - begin
            if child.after == PROMPT and not asked:
                asked = True
                lines.append(Line(f"{child.before}{PROMPT}", at))
                time.sleep(THINKING)
                child.sendline("y")
            elif lines[-1].text.endswith(PROMPT) and not lines[-1].typed:
                lines[-1] = Line(lines[-1].text, lines[-1].at, _SGR.sub("", child.before), at)
            else:
                lines.append(Line(child.before, at))
        child.close()
        return lines


def environment(folder: str) -> dict[str, str]:
    """The environment without settings of Transom's; the name of who is at the machine is nobody's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRANSOM_", "OZ0_", "NO_COLOR"))}
    return {**kept, "HOME": folder, "TERM": "xterm", "LOGNAME": "anna", "USER": "anna"}


class Painter:
    """Makes SVG of lines; a colour lasts until the next mark, also over lines."""

    def __init__(self) -> None:
        self._style = "text"

    def row(self, line: Line, number: int) -> str:
        """A line."""
        inside = "".join(f'<tspan class="{style}">{escape(text)}</tspan>' for style, text in self._spans(line.text))
        if line.typed:
            inside += f'<tspan class="text" style="animation: later {line.typed_at:.2f}s step-end">{escape(line.typed)}</tspan>'
        place = f'x="{LEFT}" y="{TOP + number * LINE}" xml:space="preserve"'
        return f'<text {place} style="animation: later {line.at:.2f}s step-end">{inside}</text>'

    def _spans(self, text: str) -> Iterator[tuple[str, str]]:
        at = 0
        for mark in _SGR.finditer(text):
            if piece := text[at : mark.start()]:
                yield self._style, piece
            at, self._style = mark.end(), _CLASSES.get(mark[1], "text")
        if piece := text[at:]:
            yield self._style, piece


def picture(lines: list[Line]) -> str:
    """The whole picture."""
    width, height = round(2 * LEFT + COLUMNS * CHARACTER), TOP + len(lines) * LINE
    colours = ("#e0645c", "#e2b23f", "#57a75b")
    dots = "".join(f'<circle cx="{22 + i * 20}" cy="20" r="6" fill="{colour}"/>' for i, colour in enumerate(colours))
    painter = Painter()
    rows = "\n".join(painter.row(line, number) for number, line in enumerate(lines))
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">
<title>{escape(COMMAND)}</title>
<desc>A terminal: the agent wants to greet the team, a person is asked and says yes, the agent greets and is done.</desc>
<style>
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
.text {{ fill: #d7dae0; }} .head {{ fill: #ffffff; font-weight: bold; }} .dim {{ fill: #8b919c; }}
.good {{ fill: #7cc57f; }} .bad {{ fill: #e0645c; }} .warn {{ fill: #e2b23f; }}
@keyframes later {{ from {{ fill-opacity: 0; }} to {{ fill-opacity: 1; }} }}
@media (prefers-reduced-motion: reduce) {{ text, tspan {{ animation: none !important; }} }}
</style>
<rect width="{width}" height="{height}" rx="10" fill="#1f2329"/>
{dots}
{rows}
</svg>
"""


def main() -> None:
    """Record and write."""
    TARGET.write_text(picture(record()), encoding="utf-8")
    print(f"{TARGET} written")


if __name__ == "__main__":
    main()

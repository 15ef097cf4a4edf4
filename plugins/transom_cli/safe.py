r"""Text of models, tools and people, made safe for a terminal: it can neither move the cursor nor hide or reorder words.

What could is shown as its escape (`\x1b`, `\u202e`) rather than dropped, so that nobody decides on less than there is.
"""

import re

_UNSAFE = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but newline and tab, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks, embeddings, overrides, isolates
    "\u2028\u2029\ufff9-\ufffb"  # separators that some terminals break lines at, interlinear marks
    "\ud800-\udfff"  # lone surrogates cannot be encoded
    "\U000e0000-\U000e007f"  # tag characters: invisible text
    "]"
)
_BREAKS = re.compile(r"[\n\t]+ *")


def safe(text: str) -> str:
    """The text without anything a terminal would act on; lines and tabs stay.

    Works on any piece of a stream: each character is judged alone. A carriage return is dropped, as half of a line end.
    """
    return _UNSAFE.sub(_escape, text)


def safe_line(text: str, limit: int = 0) -> str:
    """The text safe and in one line; past `limit` characters (0: no limit) it is cut, with an ellipsis."""
    line = _BREAKS.sub(" ", safe(text)).strip()
    return f"{line[: limit - 1]}…" if limit and len(line) > limit else line


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character == "\r":
        return ""
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

"""Bounds of free text that is kept."""

from transom_hookspecs import TransomError

MAX_WORDS, MAX_NAME = 4_000, 200
"""Characters of a comment or a reason, and of a name that nobody has to know beforehand."""


def check_words(field: str, words: str, most: int = MAX_WORDS) -> None:
    """Refuse a text that is too long.

    Raises:
        TransomError: invalid_argument.
    """
    if len(words) > most:
        raise TransomError("invalid_argument", f"{field}: has {len(words)} characters; it may have at most {most}")

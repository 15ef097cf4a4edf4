"""What goes wrong between here and a server, as the errors that a model may raise. The key stands in none of them."""

import email.utils
import math
import random
import re
from collections.abc import Mapping
from datetime import UTC
from typing import TYPE_CHECKING

from transom_hookspecs import Code, Json, TransomError

from .jsontext import decode, mend, object_of

if TYPE_CHECKING:
    import httpx

TEXT_LIMIT = 500
LONGEST_WAIT = 60.0
_STATUS: dict[int, Code] = {
    400: "invalid_argument",
    401: "failed_precondition",
    402: "failed_precondition",
    403: "failed_precondition",
    404: "failed_precondition",
    408: "unavailable",
    413: "invalid_argument",
    422: "invalid_argument",
    429: "resource_exhausted",
}
_WORDS: tuple[tuple[re.Pattern[str], Code], ...] = (
    (re.compile("rate_?limit|quota|too_many|resource_exhausted"), "resource_exhausted"),
    (re.compile("auth|permission|api_key|forbidden|not_found|billing|credit"), "failed_precondition"),
    (re.compile("invalid|context_length|unsupported|bad_request"), "invalid_argument"),
)
"""What the words of `error.code` and `error.type` mean, where no number says it."""


class ProviderError(TransomError):
    """A server's refusal or failure. `again`: asking once more may help; `after`: seconds that it asked to wait."""

    def __init__(
        self,
        code: Code,
        message: str,
        details: Mapping[str, Json] | None = None,
        *,
        again: bool = False,
        after: float | None = None,
    ) -> None:
        super().__init__(code, message, details)
        self.again = again
        self.after = after

    def about(self, model: str) -> TransomError:
        """The error as it is told, naming the model."""
        return TransomError(self.code, f"model {model!r}: {self.message}", self.details)


class Failures:
    """Makes the errors of one request; none shows the key.

    Parameters:
        remedy: what to look at when the server refuses the caller, as `the key in OPENAI_API_KEY`.
        key: what no error may show.
    """

    def __init__(self, *, remedy: str, key: str) -> None:
        self._remedy = remedy
        self._key = key

    def status(self, status: int, headers: Mapping[str, str], body: bytes, now: float) -> ProviderError:
        """The error of a response that is no success.

        Parameters:
            headers: with lower-case names; Retry-After is read from them.
            now: the time in seconds (Unix), for a Retry-After that is a date.
        """
        try:
            said = object_of(decode(body))
        except ValueError:
            said = {"message": body.decode("utf-8", "replace")}
        code: Code = _STATUS.get(status) or ("unavailable" if status >= 500 else "failed_precondition")
        location = (
            f" with a redirect to {self.clean(headers.get('location', ''))}; correct `url`" if 300 <= status < 400 else ""
        )
        return self._error(
            code, f"HTTP {status}{location}", said, {"status": status}, after=retry_after(headers.get("retry-after", ""), now)
        )

    def in_stream(self, chunk: Mapping[str, Json]) -> ProviderError:
        """The error that stands as an object inside a stream that began as a success."""
        error = object_of(chunk.get("error")) or chunk
        given = [error.get("code"), error.get("status"), error.get("type")]
        numbers = [int(value) for value in given if isinstance(value, int | str) and re.fullmatch("[1-5][0-9]{2}", str(value))]
        if numbers:
            return self._error(_STATUS.get(numbers[0], "unavailable"), f"error {numbers[0]}", chunk, {"status": numbers[0]})
        words = " ".join(value.lower() for value in given if isinstance(value, str))
        code: Code = next((code for pattern, code in _WORDS if pattern.search(words)), "unavailable")
        return self._error(code, "an error in its stream", chunk, {})

    def transport(self, error: "httpx.HTTPError | httpx.InvalidURL") -> ProviderError:
        """The error of a connection that failed, was cut, or stayed silent for too long."""
        import httpx

        said = self.clean(str(error)) or type(error).__name__
        if isinstance(error, httpx.TimeoutException):
            return ProviderError("deadline_exceeded", f"no byte from the server in time ({said})")
        if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL):
            return ProviderError("failed_precondition", f"{said}; correct `url`")
        return ProviderError("unavailable", f"the connection failed: {said}", again=True)

    def broken(self, problem: str) -> ProviderError:
        """The error of an answer that cannot be used; the next one may be whole."""
        return ProviderError("unavailable", f"{self.clean(problem)}", again=True)

    def clean(self, text: str) -> str:
        """A provider's text without the key, on one line, of bounded length."""
        text = " ".join(mend(text).split())
        if self._key:
            text = text.replace(self._key, "[redacted]")
        return text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT] + "…"

    def _error(
        self, code: Code, what: str, said: Mapping[str, Json], details: dict[str, Json], *, after: float | None = None
    ) -> ProviderError:
        text, kind = _said(said)
        if kind:
            details["provider_code"] = self.clean(kind)
        remedy = f"; check {self._remedy}" if code == "failed_precondition" else ""
        message = f"the server answered {what}: {self.clean(text) or 'no reason given'}{remedy}"
        again = code in ("resource_exhausted", "unavailable")
        return ProviderError(code, message, details, again=again, after=after)


def _said(body: Mapping[str, Json]) -> tuple[str, str]:
    """The text and the kind of an error's body, in any of the shapes that servers give it."""
    error = body.get("error")
    inner = object_of(error) or body
    text = next((said for key in ("message", "detail", "error") if (said := _as_text(inner.get(key)))), "")
    kind = next((kind for key in ("code", "type") if (kind := _as_text(inner.get(key)))), "")
    return text or _as_text(error), kind


def _as_text(value: Json) -> str:
    if value is None or isinstance(value, bool):
        return ""
    return value if isinstance(value, str) else str(value)


def retry_after(value: str, now: float) -> float | None:
    """Seconds that a Retry-After asks to wait, held within 0 and 60; None when it says nothing that can be read."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = email.utils.parsedate_to_datetime(value)
            seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return min(max(seconds, 0.0), LONGEST_WAIT) if not math.isnan(seconds) else None


def backoff(attempt: int) -> float:
    """Seconds before try `attempt` + 1 when the server asked for none: doubling from half a second, with jitter."""
    return random.uniform(0.5, 1.0) * min(0.5 * 2.0 ** (attempt - 1), 8.0)  # noqa: S311 - spreads load, guards nothing

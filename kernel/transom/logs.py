"""Logs without secrets: every record is redacted when it is made, before any handler sees it."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transom_hookspecs import Secrets

log = logging.getLogger("transom")

WITHHELD = "[a line of the log is withheld, as it cannot be redacted]"

_formatter = logging.Formatter()


@contextmanager
def redacted(secrets: Callable[[], Secrets | None]) -> Iterator[None]:
    """Redact whatever this process logs, its threads' last words too, while it is inside.

    Parameters:
        secrets: gives the service that knows what must not be told, if there is one.
    """
    before = logging.getLogRecordFactory(), threading.excepthook, sys.unraisablehook

    def made(*args: Any, **options: Any) -> logging.LogRecord:
        return without_secrets(before[0](*args, **options), secrets())

    logging.setLogRecordFactory(made)
    threading.excepthook, sys.unraisablehook = thread_failed, unraisable
    try:
        yield
    finally:
        logging.setLogRecordFactory(before[0])
        threading.excepthook, sys.unraisablehook = before[1:]


def without_secrets(record: logging.LogRecord, secrets: Secrets | None) -> logging.LogRecord:
    """A record whose message, traceback and stack are redacted texts; one that cannot be is withheld."""
    if secrets is None:
        return record
    trace, stack = None, None
    try:
        words = secrets.redact(record.getMessage())
        trace = secrets.redact(_formatter.formatException(record.exc_info)) if record.exc_info else None
        stack = secrets.redact(record.stack_info) if record.stack_info else None
    except Exception:  # noqa: BLE001 - its message may not be told, and nobody waits for it
        words, trace = WITHHELD, None
    record.msg, record.args, record.exc_info, record.exc_text, record.stack_info = words, (), None, trace, stack
    return record


def thread_failed(args: threading.ExceptHookArgs) -> None:
    """Log what ended a thread, instead of printing it."""
    if args.exc_value is not None and args.exc_type is not SystemExit:
        name = args.thread.name if args.thread else "?"
        log.error("thread %r failed", name, exc_info=(args.exc_type, args.exc_value, args.exc_traceback))


def unraisable(args: Any) -> None:
    """Log what could not be raised, instead of printing it."""
    log.error("%s", args.err_msg or "something failed where nothing can be raised", exc_info=args.exc_value)

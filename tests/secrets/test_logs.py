"""No line of a log has a value: messages, arguments, tracebacks and stacks are redacted when they are made."""

import io
import logging
import threading
import warnings

import pytest

from transom.logs import WITHHELD, redacted

pytestmark = pytest.mark.req("IDN-7")

VALUE = "ghp_9Zq2LmB7xKfT"


class Known:
    """A service that knows one value, and may fail."""

    broken = False

    def redact(self, text: str) -> str:
        if self.broken:
            raise RuntimeError(f"failed over {text}")
        return text.replace(VALUE, "[secret github]")


@pytest.fixture
def said():
    """What a handler of anybody's prints, under a logger with one of its own and below the root."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logging.Formatter("%(name)s %(message)s %(args)s"))
    logging.getLogger().addHandler(handler)
    yield out
    logging.getLogger().removeHandler(handler)


@pytest.fixture
def log():
    return logging.getLogger("somebody.else")


def test_messages_arguments_tracebacks_and_stacks(said, log):
    with redacted(Known):
        log.error("a %s and %d", VALUE, 2)
        log.error({"key": VALUE})
        log.error("%(key)s", {"key": VALUE})
        log.warning(f"in the message {VALUE}", stack_info=True)  # noqa: G004 - as others do
        try:
            raise ValueError(VALUE) from KeyError(VALUE)
        except ValueError:
            log.exception("it failed")
    text = said.getvalue()
    assert VALUE not in text
    assert text.count("[secret github]") >= 6
    assert "a [secret github] and 2" in text
    assert "Traceback" in text
    assert "Stack (most recent call last)" in text


def test_the_record_that_handlers_get_has_no_value_anywhere(caplog, log):
    with redacted(Known):
        try:
            raise ValueError(VALUE)
        except ValueError:
            log.exception("it failed with %s", VALUE)
    (record,) = caplog.records
    assert VALUE not in repr(vars(record))


@pytest.mark.parametrize("spoil", ["%d", "%s %s", "%(name)s"])
def test_a_line_that_cannot_be_formatted_is_withheld(said, capsys, log, spoil):
    with redacted(Known):
        log.error(spoil, VALUE)
    assert WITHHELD in said.getvalue()
    assert VALUE not in said.getvalue() + "".join(capsys.readouterr())


def test_a_line_that_cannot_be_redacted_is_withheld(said, capsys, log):
    known = Known()
    known.broken = True
    with redacted(lambda: known):
        try:
            raise ValueError(VALUE)
        except ValueError:
            log.exception("it failed with %s", VALUE, stack_info=True)
    assert WITHHELD in said.getvalue()
    assert VALUE not in said.getvalue() + "".join(capsys.readouterr())


def test_what_ends_a_thread_is_logged_and_not_printed(said, capsys):
    def fail():
        raise ValueError(VALUE)

    with redacted(Known):
        thread = threading.Thread(target=fail, name="a-thread")
        thread.start()
        thread.join()
    assert "thread 'a-thread' failed" in said.getvalue()
    assert "ValueError: [secret github]" in said.getvalue()
    assert VALUE not in "".join(capsys.readouterr())


def test_what_cannot_be_raised_is_logged_and_not_printed(said, capsys):
    class Leaving:
        def __del__(self):
            raise ValueError(VALUE)

    with redacted(Known), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Leaving()
    assert "ValueError: [secret github]" in said.getvalue()
    assert VALUE not in "".join(capsys.readouterr())


def test_afterwards_everything_is_as_it_was(said, log):
    before = logging.getLogRecordFactory(), threading.excepthook
    with redacted(Known):
        pass
    assert (logging.getLogRecordFactory(), threading.excepthook) == before
    log.error("a %s", VALUE)
    assert VALUE in said.getvalue()


def test_without_a_service_nothing_changes(said, log):
    with redacted(lambda: None):
        log.error("a %s", "b")
    assert "somebody.else a b ('b',)" in said.getvalue()

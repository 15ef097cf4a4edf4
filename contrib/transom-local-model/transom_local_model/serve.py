"""The child process: llama.cpp's server, on a free loopback port, for as long as its parent lives.

It is told what to serve in one line on its standard input, answers with one line on its standard output, and ends when
its input does: the parent's end of the pipe closes with the parent, however that ends.
"""

import importlib
import os
import signal
import sys
import threading
from typing import Any

import msgspec

from .settings import ServeOrder, ServeReport

ONE_CALLER_AT_A_TIME = 1
"""Slots of the server. More would share the context among them; a second request waits for the first."""


def main() -> None:
    """Serve until the standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no answer
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ServeOrder)
    watch = threading.Thread(target=_end_with_parent)
    watch.start()
    try:
        server = _load(order)
    except (ImportError, RuntimeError, OSError, ValueError, AttributeError) as error:
        report = ServeReport(problem=f"{type(error).__name__}: {error}")
    else:
        report = ServeReport(url=server.listening_address)
    os.write(answers, msgspec.json.encode(report) + b"\n")
    watch.join()


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)  # no clean-up: llama.cpp's threads may be in the middle of an answer that nobody reads


def _load(order: ServeOrder) -> Any:
    """The server, which listens when this returns; the library has no types."""
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = order.path
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order.key]
    params.ui = False
    params.use_jinja = True
    params.n_ctx = order.context
    params.n_parallel = ONE_CALLER_AT_A_TIME
    params.verbosity = 0
    params.cpuparams.n_threads = order.threads
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()

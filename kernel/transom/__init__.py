"""Transom's kernel: it starts jobs, records what they do, lets people decide, and streams the record.

The main path, in reading order: `start` (a job begins), `run` and `context` (it is advanced, step by step),
`journal` and `tree` (what is recorded, in one transaction), `log` (who follows), `waits` (a person decides).
"""

from typing import TYPE_CHECKING

from .app import Transom
from .config import Config, load

if TYPE_CHECKING:
    from litestar import Litestar

    from .core import Core


def create_app(core: "Core") -> "Litestar":
    """The ASGI application of a kernel; see `web.create_app`. The web framework is imported only here."""
    from . import web

    return web.create_app(core)


__all__ = ["Config", "Transom", "create_app", "load"]

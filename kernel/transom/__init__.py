"""Transom's kernel: it starts jobs, records what they do, lets people decide, and streams the record.

The main path, in reading order: `start` (a job begins), `run` and `context` (it is advanced, step by step),
`journal` and `tree` (what is recorded, in one transaction), `log` (who follows), `waits` (a person decides).
"""

from .app import Transom, create_app, serve
from .config import Config, load

__all__ = ["Config", "Transom", "create_app", "load", "serve"]

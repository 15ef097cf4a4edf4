"""The commands, one module a group."""

from .agents import catalog
from .approvals import approval
from .extending import plugins
from .jobs import job
from .running import run
from .serving import dev, serve
from .shell import completion
from .tables import hooks, operations

COMMANDS = (run, dev, serve, job, approval, catalog, plugins, hooks, operations, completion)

"""The commands, one module a group."""

from .approvals import approval
from .catalog import catalog
from .completion import completion
from .jobs import job
from .plugins import plugins
from .run import run
from .serving import dev, serve
from .tables import hooks, operations

COMMANDS = (run, dev, serve, job, approval, catalog, plugins, hooks, operations, completion)

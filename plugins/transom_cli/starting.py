"""Starting a job for a person: what to make of an input that was not given, and what to say of an agent that is not there."""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from transom_hookspecs import AgentView, JobAnswer, Json, JsonObject, Launcher, StartJob, TransomError

from .client import Client, Target
from .render import compact
from .safe import safe_line
from .screen import say

_FILE = re.compile(r".*\.ya?ml\Z|.*[/\\].*", re.DOTALL)
_TEXT = '"some text"'


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A start that somebody asked for.

    Parameters:
        request: its agent may be the path of a file.
        said: whether there is an input; an empty standard input is none.
        asked: whether somebody is at the terminal who could have given one.
    """

    request: StartJob
    said: bool
    asked: bool
    where: Target
    launcher: Launcher

    def files(self) -> list[str]:
        """The file that the agent is declared in, when it is given as one."""
        agent = self.request.agent
        if self.where.remote or not _FILE.match(agent):
            return []
        if not Path(agent).is_file():
            raise TransomError("invalid_argument", f"there is no file {agent!r}; an agent is named without dots and slashes")
        return [agent]

    async def send(self, client: Client) -> JobAnswer:
        """Start the job.

        Raises:
            TransomError: of an input that is missing, how to give it; of an agent that is not there, what is.
        """
        request = self.request
        if _FILE.match(request.agent):
            request = msgspec.structs.replace(request, agent=client.declared_in(request.agent))
        if not self.said:
            request = msgspec.structs.replace(request, input=await self._unsaid(client, request.agent))
        try:
            return await client.start(request)
        except TransomError as error:
            if error.code == "not_found" and (note := await self._near(client, request.agent)):
                error.add_note(note)
            raise

    async def _unsaid(self, client: Client, name: str) -> Json:
        """The input when none was given: an agent that takes anything gets an empty text, null one that takes it."""
        view = next((agent for agent in await client.agents() if agent.name == name), None)
        if view is None:
            return None  # the start says so
        if view.input_schema is None:
            if self.asked:
                say(f"No INPUT: {safe_line(name)} gets an empty text. {self._how(_TEXT)}", "dim", err=True)
            return ""
        kind = view.input_schema.get("type", "null")
        kinds = kind if isinstance(kind, list) else [kind]
        if "null" in kinds:
            return None
        text = "string" in kinds
        if text and not self.asked:
            return ""
        error = TransomError(
            "invalid_argument", f"INPUT is missing: agent {name!r} takes {'text' if text else takes(view)}, and none was given"
        )
        error.add_note(self._how(_TEXT if text else f"'{_example(view.input_schema)}'"))
        raise error

    def _how(self, example: str) -> str:
        """How to give an input."""
        command = f"transom run {safe_line(self.request.agent)} {example}"
        return f"Give it as `{command}`; `-` reads it from standard input, `@file` from a file."

    async def _near(self, client: Client, name: str) -> str:
        """What to do about a name that the catalog has not; empty when that cannot be read, and the error says enough."""
        try:
            names = [agent.name for agent in await client.agents()]
        except TransomError:
            return ""
        if plugin := self._plugin_in_development(name):
            return (
                f"It is of the plugin {plugin!r}, which is for development: `transom dev` has it, and so has `transom run` "
                f'in a folder without a transom.toml. To have it here, write enable = ["{plugin}"] under [plugins] in '
                f"{self.launcher.config_path}."
            )
        near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        return f"{hint}`{self.where.command('catalog')}` lists what there is."

    def _plugin_in_development(self, name: str) -> str:
        """The plugin that has the agent in development mode, which this is not; or empty."""
        if self.where.remote or not self.launcher.config_path:
            return ""
        try:
            agents: Sequence[AgentView] = self.launcher.agents(self.where.tenant, dev=True)
        except TransomError:
            return ""  # nothing more is known then
        return next((agent.plugin for agent in agents if agent.name == name), "")


def takes(agent: AgentView) -> str:
    """An agent's input in short: text, or the names of its fields, those that may be left out with a question mark."""
    schema = agent.input_schema or {}
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return str(schema.get("type", "text"))
    needed = required if isinstance(required, list) else []
    return ", ".join(name if name in needed else f"{name}?" for name in properties)


def _example(schema: JsonObject) -> str:
    """What an input of the schema looks like."""
    properties, required = schema.get("properties"), schema.get("required")
    names = required if isinstance(required, list) and required else properties if isinstance(properties, dict) else {}
    return compact(dict.fromkeys(map(str, names), "…")) if schema.get("type") == "object" else "…"

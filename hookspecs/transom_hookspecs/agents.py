"""The agent family: what can be started, and the Context that an agent works through."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from .callers import Caller
from .conversations import Item, ToolCall
from .errors import ErrorInfo
from .events import Rule, WaitKind
from .markers import hookspec
from .models import Message, ModelEnd
from .values import Json, JsonObject

T = TypeVar("T")


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent may know of its job: what never changes, so that a replay sees the same."""

    id: str
    tenant: str
    tree: str
    agent: str
    caller: Caller
    conversation: str = ""
    turn: int = 0


class ModelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a model step gave, the same on every replay.

    Parameters:
        message: the id of its message in the log.
        text: all of its text, filtered as recorded.
    """

    message: str
    text: str
    end: ModelEnd

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that the model asked for."""
        return self.end.calls

    def as_message(self) -> Message:
        """The answer as part of the next prompt."""
        return Message(role="assistant", content=self.text, calls=self.end.calls, reasoning=self.end.reasoning)


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call gave: its content, or why it did not run or failed."""

    call: str
    function: str
    content: Json = None
    error: ErrorInfo | None = None

    def as_message(self) -> Message:
        """The result as part of the next prompt."""
        text = self.error.message if self.error else self.content
        if not isinstance(text, str):
            text = msgspec.json.encode(text).decode()
        return Message(role="tool", content=text, call=self.call, function=self.function, error=self.error is not None)


Branch = Callable[["Context"], Awaitable[T]]


class Context(Protocol):
    """An agent's way to do anything: each call is a step that is recorded, and on replay returns its record.

    A Context counts its own calls. Concurrency goes only through `together`, `tools` and `first`; a call while
    another is open raises ConcurrentUse.
    """

    job: JobFacts

    async def model(
        self,
        model: str,
        messages: Sequence[Message],
        *,
        functions: Sequence[str] = (),
        output_schema: JsonObject | None = None,
        max_tokens: int = 4096,
        temperature: float | None = None,
        options: JsonObject | None = None,
    ) -> ModelAnswer:
        """Ask a model; its text streams into the log as it comes.

        Parameters:
            functions: `<tool>.<function>` or `<tool>.*` that it may call; names of what does not exist are refused.

        Raises:
            TransomError: the model's own error, after its retries.
        """

    async def tools(self, calls: Sequence[ToolCall], *, message: str = "") -> list[ToolResult]:
        """Make a model's calls at once, in its order; each has policy, approval, schema check and timeout of its own.

        A call that fails, is refused or denied gives a result with an error; nothing is raised.
        """

    async def call(self, function: str, arguments: JsonObject | None = None) -> Json:
        """Make one call of the agent's own and return its content.

        Raises:
            TransomError: what the function failed with, or permission_denied when policy or a person refused.
        """

    async def delegate(self, agent: str, input: Json = None, *, timeout: float | None = None, tags: Sequence[str] = ()) -> Json:
        """Start another agent or flow as a child job, wait for it, and return its output.

        Raises:
            TransomError: why it could not start, or how it failed.
        """

    async def say(self, text: str) -> str:
        """Add a message of the agent's own words to the log; returns them as recorded."""

    async def ask(
        self,
        message: str,
        *,
        choices: Sequence[str] = (),
        schema: JsonObject | None = None,
        kind: WaitKind = "question",
        rule: Rule | None = None,
        details: Json = None,
        timeout: float | None = None,
    ) -> Json:
        """Ask a person and wait.

        Parameters:
            choices: the only answers taken.
            schema: what an answer must match; text when neither is given.
            kind: `question` answers with the answer, `approval` and all others with whether it was approved.
            timeout: seconds until the runtime declines by itself.

        Returns:
            The answer, or for a question that was declined or expired None.
        """

    async def note(self, text: str, *, kind: str = "note", tags: Sequence[str] = (), supersedes: int = 0) -> int:
        """Pin a note to the tree's board and return its number."""

    async def output(self, output: str, arguments: JsonObject) -> Json:
        """Queue a safe output of the fire that this job belongs to."""

    async def wait_for_event(self, source: str, *, match: JsonObject | None = None, timeout: float | None = None) -> Json:
        """Wait for an outside event of a source whose fields equal `match`; None when `timeout` seconds passed."""

    async def sleep(self, seconds: float) -> None:
        """Wait; a long wait holds no memory."""

    async def now(self) -> int:
        """The time in milliseconds (Unix), the same on replay."""

    async def random(self) -> float:
        """A random number in [0, 1), the same on replay."""

    async def together(self, *branches: Branch[T]) -> list[T]:
        """Run branches at once, each with a Context of its own; results in their order.

        The first that raises cancels the others and is raised.
        """

    async def first(self, *branches: Branch[T]) -> tuple[int, T]:
        """Run branches at once; the index and result of the one that ended first, which is recorded. Others are cancelled."""

    def named(self, name: str) -> "Context":
        """A Context whose steps have keys under this name (`<name>.1`), used in turn with this one.

        Parameters:
            name: a name (not a number), once in this Context.
        """

    async def history(self, limit: int = 200) -> list[Item]:
        """The conversation's latest items before this turn, oldest first; empty without a conversation."""

    async def functions(self, names: Sequence[str]) -> list[str]:
        """The full names of the functions that these names and `<tool>.*` patterns stand for."""


AgentRun = Callable[[Context, Json], Awaitable[Json] | Json]


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that can be started: an agent or a flow.

    Parameters:
        run: given the Context and the input, returns the output. A plain function runs in a thread.
        input_schema: what an input must match; None takes text (or any JSON).
        output_schema: what an output must match; None for text.
        card_schema: an output that matches it is shown as a card.
        version: of a Python agent's code; a running job goes on only under the version it started with.
        uses: the functions, agents and models that it may use, for lists and policy (`team.*`).
        timeout: seconds for the whole job, waits included.
    """

    name: str
    run: AgentRun
    title: str = ""
    description: str = ""
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    card_schema: JsonObject | None = None
    version: str = "1"
    flow: bool = False
    conversations: bool = True
    uses: tuple[str, ...] = ()
    timeout: float = 30 * 86_400.0


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A declared thing of a bundle: one YAML file, read safely.

    Parameters:
        folder: the bundle's subfolder (`agents`, `flows`, `routines`).
        name: what it declares, by its `name` or its file's name.
        path: for messages.
        tenants: the tenants that it is in; empty means every one.
    """

    folder: str
    name: str
    path: str
    body: JsonObject
    bundle: str = ""
    tenants: tuple[str, ...] = ()


class Kind(Protocol):
    """A kind of declared agent: how a document becomes one."""

    name: str
    folder: str

    def load(self, name: str, body: JsonObject) -> Agent:
        """Make the agent that a document declares. Must depend on nothing but the arguments: jobs that started
        under an earlier document are replayed through it.

        Raises:
            TransomError: invalid_argument, naming the field, the value's problem and the remedy.
        """


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of declared agents, flows and routines that a plugin ships.

    Parameters:
        path: the folder; its subfolders `agents`, `flows`, `routines` are read.
        tenants: where it is; empty means every tenant, unless the setting `bundles.<name>.tenants` lists some.
    """

    name: str
    path: str
    tenants: tuple[str, ...] = ()


class AgentHooks:
    """Hooks of the agent family."""

    @hookspec
    def register_agents(self) -> Sequence[Agent]:  # type: ignore[empty-body]
        """Return agents written in Python; they are in every tenant."""

    @hookspec
    def register_kinds(self) -> Sequence[Kind]:  # type: ignore[empty-body]
        """Return kinds of declared agents, each with the folder that its documents stand in."""

    @hookspec
    def register_bundles(self) -> Sequence[Bundle]:  # type: ignore[empty-body]
        """Return bundles: folders of declared agents, flows and routines."""

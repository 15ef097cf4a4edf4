"""What a declared agent does: it asks its model, makes the calls that the model asks for, and asks again."""

from typing import Final

import msgspec

from transom_hookspecs import Code, Context, Json, Message, ModelAnswer, TransomError

from .format import Declaration
from .history import as_messages, as_text
from .schemas import Fitting

_CORRECTION: Final = "That answer does not fit: {problem}. Answer again, with nothing but JSON that fits the schema."
_MISFIT: Final = (
    "the answer did not fit `output` after one more try either ({problem}); say in `instructions` what it must hold, "
    "make the schema simpler, or choose a model that keeps to schemas"
)


class Loop:
    """The run of one declared agent; holds nothing of a job."""

    def __init__(self, name: str, declared: Declaration) -> None:
        self._name = name
        self._declared = declared
        self._output = Fitting(declared.output) if declared.output is not None else None

    async def run(self, ctx: Context, input: Json) -> Json:
        """Answer an input: text, or JSON that fits the schema of `output`.

        Raises:
            TransomError: resource_exhausted when `max_calls` or `max_tokens` does not suffice, failed_precondition when
                the model withholds its answer, or twice gives one that does not fit.
        """
        prompt = await self._prompt(ctx, input)
        corrected = False
        for left in reversed(range(self._declared.max_calls)):
            answer = await self._ask(ctx, prompt)
            prompt.append(answer.as_message())
            if answer.calls:
                if left:  # results that no model would read are not worth their effects
                    results = await ctx.tools(answer.calls, message=answer.message)
                    prompt += [result.as_message() for result in results]
                continue
            value, problem = self._read(answer)
            if not problem:
                return value
            if corrected:
                raise self._error("failed_precondition", _MISFIT.format(problem=problem))
            corrected = True
            prompt.append(Message(role="user", content=_CORRECTION.format(problem=problem)))
        raise self._error("resource_exhausted", f"its {self._declared.max_calls} model calls are used up; raise `max_calls`")

    async def _prompt(self, ctx: Context, input: Json) -> list[Message]:
        instructions = self._declared.instructions
        prompt = [Message(role="system", content=instructions)] if instructions else []
        if ctx.job.conversation:
            prompt += as_messages(await ctx.history())
        return [*prompt, Message(role="user", content=as_text(input))]

    async def _ask(self, ctx: Context, prompt: list[Message]) -> ModelAnswer:
        declared = self._declared
        answer = await ctx.model(
            declared.model,
            tuple(prompt),
            functions=declared.functions,
            output_schema=declared.output,
            max_tokens=declared.max_tokens,
            temperature=declared.temperature,
            options=declared.options,
        )
        if answer.end.finish == "content_filter":
            raise self._error("failed_precondition", "the model withheld its answer; change the input or `instructions`")
        if answer.end.finish == "calls" and not answer.calls:
            raise self._error("unavailable", "the model announced a call and sent none; start the job again, or change `model`")
        return answer

    def _read(self, answer: ModelAnswer) -> tuple[Json, str]:
        """The value of an answer, and what is wrong with it."""
        if self._output is None:
            return answer.text, ""
        if answer.end.finish == "length":
            limit = self._declared.max_tokens
            raise self._error("resource_exhausted", f"the answer was cut at {limit} tokens; raise `max_tokens`")
        try:
            value: Json = msgspec.json.decode(answer.text)
        except (msgspec.DecodeError, RecursionError) as error:
            return None, f"it is no JSON: {error}"
        return value, self._output.misfit(value)

    def _error(self, code: Code, message: str) -> TransomError:
        return TransomError(code, f"agent {self._name!r}: {message}")

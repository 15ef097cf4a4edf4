"""The model `scripted`: it says what `options.script` says, word by word and always the same, for demos and tests.

The script language is in `script`. To the runtime it is a model like any other: it streams, calls functions,
fails, keeps to `max_tokens`, and its usage is counted, at one token a word.
"""

from typing import Annotated

import msgspec

from transom_hookspecs import Model, hookimpl

from .model import ScriptedModel

Price = Annotated[float, msgspec.Meta(ge=0, le=10_000)]


class ScriptedPlugin:
    """Registers the model `scripted`."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """Settings: what a million words of prompt and of answer cost in USD, to try budgets with."""

        usd_per_million_input: Price = 0.0
        usd_per_million_output: Price = 0.0

    def __init__(self, config: Config) -> None:
        self._config = config

    @hookimpl
    def register_models(self) -> list[Model]:
        """The one model."""
        return [
            ScriptedModel(
                usd_per_input_token=self._config.usd_per_million_input / 1e6,
                usd_per_output_token=self._config.usd_per_million_output / 1e6,
            )
        ]

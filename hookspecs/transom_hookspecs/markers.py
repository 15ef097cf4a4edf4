"""The two markers, and the version of the contract."""

from typing import Final

import pluggy

SPEC_VERSION: Final = (1, 0)
"""Major and minor. A plugin says `spec = "1.0"`: the same major, and a minor not above the kernel's, is accepted."""

ENTRY_POINT_GROUP: Final = "transom"

hookspec = pluggy.HookspecMarker("transom")
hookimpl = pluggy.HookimplMarker("transom")

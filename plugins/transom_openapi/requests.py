"""What the plugin's operation takes."""

import msgspec


class GetOpenApi(msgspec.Struct, frozen=True, kw_only=True):
    """The OpenAPI document of the agents and flows that the caller sees; `plugin` narrows to one plugin's."""

    plugin: str = ""

"""Signing in with OpenID Connect: authorization code with PKCE, one provider or several.

Read in this order: `settings`, `routes` (what the browser asks), `pending` (what it keeps between the two requests),
`provider` (what the provider is asked), `claims` (what it says of a person, and what of that is believed).
The person's session is begun by the service SignIn, so that it is a session as any other.
"""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from transom_hookspecs import Door, Kernel, SignIn, TransomError, hookimpl

from .settings import OidcSettings, ProviderSettings, checked

if TYPE_CHECKING:
    from .provider import Provider

__all__ = ["OidcPlugin", "OidcSettings"]


class OidcPlugin:
    """One door, `oidc`, with two routes a provider."""

    spec = "1.0"
    Config = OidcSettings

    def __init__(self, config: OidcSettings) -> None:
        found = checked(config.providers, os.environ)
        self.providers = {name: _provider(name, settings, secret) for name, (settings, secret) in found.items()}
        self._kernel: Kernel | None = None

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Hold a client open for each provider; none is asked before somebody signs in."""
        async with AsyncExitStack() as stack:
            for provider in self.providers.values():
                await stack.enter_async_context(provider.run(kernel))
            self._kernel = kernel
            yield
            self._kernel = None

    @property
    def kernel(self) -> Kernel:
        """The running kernel.

        Raises:
            TransomError: unavailable before the start is done and from the shutdown on.
        """
        if self._kernel is None:
            raise TransomError("unavailable", "the server is starting or stopping; try again in a moment")
        return self._kernel

    @property
    def sign_in(self) -> SignIn:
        """The service that begins sessions.

        Raises:
            TransomError: failed_precondition when no plugin offers it.
        """
        service = self.kernel.service(SignIn)
        if service is None:
            raise TransomError("failed_precondition", "no plugin begins sessions (SignIn); enable one, such as identity")
        return service

    @hookimpl
    def register_doors(self) -> list[Door]:
        """The door, when there is a provider."""
        if not self.providers:
            return []
        from .routes import make_handlers

        return [Door(name="oidc", handlers=make_handlers(self))]


def _provider(name: str, settings: ProviderSettings, secret: str) -> "Provider":
    from .provider import Provider  # with joserfc and httpx, which nobody without a provider waits for

    return Provider(name, settings, secret)

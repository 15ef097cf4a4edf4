"""A first identity: callers with bearer tokens and one role each, written in transom.toml.

    [identity.callers.ci]
    role = "member"
    token_env = "CI_TOKEN"        # or token_sha256 = "<hex>"
    scopes = ["echo"]

Who sends a request is found by the digest of its token (`tokens`); what the caller may do is decided by one table
(`roles`). In development mode there are also the people and keys of `dev`. It says nothing of callers that another
plugin authenticates, except that the operator of the process (no tenant) may do everything.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec

from transom_hookspecs import Access, Caller, DevTokens, Kernel, RequestHead, Service, Verdict, hookimpl

from .callers import CallerConfig, Directory, configured
from .dev import DevCallers, read_key
from .roles import judge
from .tokens import bearer


class IdentityPlugin:
    """Authenticates bearer tokens and authorizes by role."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """Settings: who may call, by name."""

        callers: dict[str, CallerConfig] = {}

    def __init__(self, config: Config) -> None:
        self._directory = Directory(configured(config.callers, os.environ))
        self._dev = DevCallers()

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Let the development callers in, in development mode."""
        if kernel.dev:
            self._dev.derive(await anyio.to_thread.run_sync(read_key, kernel.data))
            for member, token in self._dev.members():
                self._directory.add(member, token)
        yield

    @hookimpl
    def authenticate(self, head: RequestHead) -> Caller | None:
        """The caller whose token this is, or None."""
        token = bearer(head)
        return None if token is None else self._directory.find(token)

    @hookimpl
    def authorize(self, access: Access) -> Verdict | None:
        """What the table of roles says; None of callers that are not of this plugin."""
        return judge(access, self._directory.member(access.caller))

    @hookimpl
    def register_services(self) -> list[Service]:
        """The tokens of the development callers."""
        return [Service(protocol=DevTokens, provider=self._dev)]

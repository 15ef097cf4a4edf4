"""Plain values for a tool: only those that it declares, only once allowed for its tenant, and only for that call."""

import pytest
from job_kit import ran
from kernel_kit import agents_plugin

from transom_hookspecs import CallContext, TransomError, function, tool
from transom_secrets.requests import ApproveSecretEnv, ListSecrets

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-7")]

VALUE = "ghp_9Zq2LmB7xKfT"
SEEN: list[dict[str, str]] = []


async def clone(context: CallContext) -> str:
    """Needs the plain value, as a program that it would start does."""
    SEEN.append(dict(context.secret_env))
    return f"cloned with {context.secret_env.get('token', 'nothing')}"


async def other(context: CallContext) -> str:
    """Declares nothing."""
    SEEN.append(dict(context.secret_env))
    return "done"


async def cloner(ctx, input):
    return await ctx.call("git.clone")


async def both(ctx, input):
    return [await ctx.call("git.clone"), await ctx.call("git.other")]


PLUGIN = agents_plugin(cloner, both, tools=(tool("git", function(clone, secret_env=("token",)), other),))


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


async def test_a_tool_gets_what_it_declares_once_it_was_allowed(opened, put, operator):
    async with opened(PLUGIN) as k:
        await put(k, "token", VALUE)
        await put(k, "undeclared", "another-value")
        refused = await ran(k, "cloner", "one")
        assert refused.status == "failed"
        assert refused.error.code == "permission_denied"
        assert "transom secret allow git token" in refused.error.message
        view = await k.call("ApproveSecretEnv", ApproveSecretEnv(tool="git", name="token"), operator())
        assert view.tools == ("git",)
        assert (await ran(k, "both", "two")).output == ["cloned with [secret token]", "done"]
        assert SEEN == [{"token": VALUE}, {}]
        (entry,) = [r.entry for r in await k.store.audit("default") if r.entry.action == "secret.allow"]
        assert (entry.object, entry.details) == ("token", {"tool": "git", "revoke": False})


async def test_it_may_be_taken_back_and_is_one_tenants_and_one_tools(opened, put, operator):
    async with opened(PLUGIN) as k:
        for tenant in ("default", "acme"):
            await put(k, "token", VALUE, tenant=tenant)
        await k.call("ApproveSecretEnv", ApproveSecretEnv(tool="git", name="token"), operator("acme"))
        await k.call("ApproveSecretEnv", ApproveSecretEnv(tool="gitlab", name="token"), operator())
        assert (await ran(k, "cloner", "one")).error.code == "permission_denied"
        await k.call("ApproveSecretEnv", ApproveSecretEnv(tool="git", name="token"), operator())
        assert (await ran(k, "cloner", "two")).status == "completed"
        await k.call("ApproveSecretEnv", ApproveSecretEnv(tool="git", name="token", revoke=True), operator())
        assert (await ran(k, "cloner", "three")).error.code == "permission_denied"
        (shown,) = (await k.call("ListSecrets", ListSecrets(), operator())).secrets
        assert shown.tools == ("gitlab",)


async def test_what_is_missing_or_only_signs_is_refused(opened, put, operator):
    async with opened(PLUGIN) as k:
        assert (await ran(k, "cloner", "one")).error.code == "not_found"
        await put(k, "token", VALUE, host=("a.example",), signing=True)
        await k.call("ApproveSecretEnv", ApproveSecretEnv(tool="git", name="token"), operator())
        refused = await ran(k, "cloner", "two")
        assert refused.error.code == "permission_denied"
        assert "only signs" in refused.error.message
    assert SEEN == []


async def test_without_a_plugin_that_keeps_secrets_the_call_fails(kernel):
    async with kernel(plugins=[PLUGIN]) as k:
        refused = await ran(k, "cloner")
        assert refused.error.code == "failed_precondition"


@pytest.mark.parametrize(
    ("tool_name", "name", "code"), [("git.clone", "token", "invalid_argument"), ("git", "no", "not_found")]
)
async def test_what_cannot_be_allowed_is_named(opened, put, operator, tool_name, name, code):
    async with opened() as k:
        await put(k, "token", VALUE)
        with pytest.raises(TransomError) as refused:
            await k.call("ApproveSecretEnv", ApproveSecretEnv(tool=tool_name, name=name), operator())
        assert refused.value.code == code

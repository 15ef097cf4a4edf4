"""The runtime inside a program: no server, no port.

python examples/embedded/main.py
"""

import asyncio
import tempfile

from transom import Transom
from transom_hookspecs import Caller, DecideApproval, JobEnded, Origin, Text, WaitOpened

ME = Origin(tenant="default", caller=Caller(kind="operator", id="me"), door="embedded")


async def greet_with_approval(transom: Transom) -> None:
    """Start a job, follow its events as they are recorded, and say yes when it asks."""
    job = await transom.start("helper")
    async for batch in transom.kernel.watch("default", job.tree):
        for entry in batch:
            match entry.event:
                case WaitOpened(wait=wait, message=message, shown=shown):
                    print(f"asked: {message} {shown}")
                    await transom.kernel.call("DecideApproval", DecideApproval(wait=wait, approved=True), ME)
                case Text(delta=delta):
                    print(f"said: {delta!r}")
                case JobEnded(status=status, output=output):
                    print(f"{status}: {output}")
                    return


async def main() -> None:
    """Two jobs of the demo agents, which development mode brings."""
    with tempfile.TemporaryDirectory() as data:
        async with Transom(data=data, dev=True) as transom:
            print(await transom.run("echo", "hello"))
            await greet_with_approval(transom)


if __name__ == "__main__":
    asyncio.run(main())

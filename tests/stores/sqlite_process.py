"""A process of its own on a SQLite store, for tests: `python sqlite_process.py <mode> <data> <tree>`.

append: append events one by one until killed, and print each one's seq once it is acknowledged.
once: append five events and end.
touch: touch the topic <tree> for each line read, and print the time at which the touch was acknowledged.
"""

import asyncio
import sys
import time

from transom_hookspecs import KERNEL_RECORDS, Text, Tree
from transom_sqlite import SqliteStore


async def main(mode: str, data: str, tree: str) -> None:
    store = SqliteStore()
    store.data = data
    async with store.open(KERNEL_RECORDS):
        print(store.worker, flush=True)
        if mode == "touch":
            await touch(store, tree)
        for n in range(10**9 if mode == "append" else 5 if mode == "once" else 0):
            seq = await store.transact("a", lambda tx, n=n: write(tx, tree, n))
            print(seq, flush=True)


def write(tx, tree, n):
    """A row and two events that must stand or fall together."""
    tx.put(Tree(id=f"{tree}.{n}"))
    return tx.append("t", [Text(job=tree, message=f"{n}", delta="one"), Text(job=tree, message=f"{n}", delta="two")])


async def touch(store: SqliteStore, topic: str) -> None:
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        await store.transact("a", lambda tx: tx.touch(topic))
        print(time.time(), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""Thinning the logs of trees that ended some days ago: text deltas go, `text.ended` has their words.

Each tree is thinned once. `Thinned` says up to when those that were created have been passed; the ones that had not
ended by then are kept in `Late`, and looked at again each time.
"""

from collections.abc import Sequence

import msgspec

from transom_hookspecs import Index, Job, Record, Store, Tx

from .trees import BUDGET, is_old

PAGE = 200


class Thinned(msgspec.Struct, frozen=True, kw_only=True):
    """How far thinning has come: every tree created before `upto` (ms, Unix) was thinned, or is in `Late`."""

    id: str = "trees"
    upto: int = 0


class Late(msgspec.Struct, frozen=True, kw_only=True):
    """A tree that had not ended long enough when thinning passed it."""

    tree: str


RECORDS = [
    Record(type=Thinned, key=("id",)),
    Record(type=Late, key=("tree",), indexes=(Index("all", ("tree",)),), belongs=("tree",)),
]


class Thinning:
    """Thins the logs of one tenant's trees.

    Parameters:
        before: a time in milliseconds (Unix); trees that ended before it are thinned.
    """

    def __init__(self, store: Store, tenant: str, before: int) -> None:
        self._store, self._tenant, self._before = store, tenant, before
        self.deltas = 0

    async def run(self) -> int:
        """Thin every tree that is due; returns how many deltas went."""
        await self._late_ones()
        await self._new_ones()
        return self.deltas

    async def _late_ones(self) -> None:
        after: tuple[str, ...] | None = None
        while page := await self._store.select(self._tenant, Late, "all", after=after, limit=PAGE):
            after = (page[-1].tree,)
            for late in page:
                root = await self._store.get(self._tenant, Job, late.tree)
                if root is None or is_old(root, self._before):
                    await self._thin(late.tree)
                    await self._forget(late)

    async def _forget(self, late: Late) -> None:
        await self._store.transact(self._tenant, lambda tx: tx.delete(Late, late.tree), relaxed=True)

    async def _new_ones(self) -> None:
        """Pass the trees created since the last time, newest first, up to those that may have ended long enough."""
        passed = await self._store.get(self._tenant, Thinned, "trees") or Thinned()
        after: tuple[int, str] = (self._before, "")
        while page := await self._page(after, passed.upto):
            after = (page[-1].created_at, page[-1].id)
            if young := [root for root in page if not is_old(root, self._before)]:
                await self._keep(young)
            for root in page:
                if is_old(root, self._before):
                    await self._thin(root.id)
        if self._before > passed.upto:
            done = Thinned(upto=self._before)
            await self._store.transact(self._tenant, lambda tx: tx.put(done), relaxed=True)

    async def _page(self, after: tuple[int, str], upto: int) -> list[Job]:
        roots = await self._store.select(self._tenant, Job, "recent", {"top": True}, after=after, limit=PAGE)
        return [root for root in roots if root.created_at >= upto]

    async def _keep(self, young: Sequence[Job]) -> None:
        def write(tx: Tx) -> None:
            for root in young:
                tx.put(Late(tree=root.id))

        await self._store.transact(self._tenant, write, relaxed=True)

    async def _thin(self, tree: str) -> None:
        """Thin one tree's log, when it is still that of a job that ended long enough."""

        def write(tx: Tx) -> int:
            root = tx.get(Job, tree)
            return tx.thin(tree, BUDGET) if root is not None and is_old(root, self._before) else 0

        thinned = BUDGET
        while thinned == BUDGET:
            thinned = await self._store.transact(self._tenant, write, relaxed=True)
            self.deltas += thinned

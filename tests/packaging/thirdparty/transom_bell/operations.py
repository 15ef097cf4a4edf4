"""What may be done with a bell: a row of the table of operations."""

import msgspec

from transom_hookspecs import Call, Operation, Tx


class Bell(msgspec.Struct, frozen=True, kw_only=True):
    """A bell, and how often it was rung."""

    name: str
    rings: int = 0


class RingBell(msgspec.Struct, frozen=True, kw_only=True):
    """Ring a bell."""

    name: str


async def ring_bell(call: Call, request: RingBell) -> Bell:
    """Count the ring and answer the bell."""

    def write(tx: Tx) -> Bell:
        tx.insert(Bell(name=request.name))
        rings = tx.add(Bell, (request.name,), "rings", 1)
        return Bell(name=request.name, rings=rings)

    return await call.transact(write, object=request.name)


RING_BELL = Operation(
    name="RingBell",
    request=RingBell,
    response=Bell,
    permission="bells.ring",
    handler=ring_bell,
    audit="bell.ring",
    idempotent=True,
)

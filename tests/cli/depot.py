"""A plugin whose operations have a field of every kind, and commands: installed for one test, called by the others."""

from typing import Annotated, Literal

import msgspec

from transom_hookspecs import Caller, JsonObject, Operation, hookimpl

NOW = 1_772_000_000_000


class PutThing(msgspec.Struct, frozen=True, kw_only=True):
    """Put a thing on a shelf.

    Its place is found by the depot.

    Parameters:
        name: what it is called
        size, weight: in metres and kilograms.
        tag: words to find it by,
            as many as there are.
        notes: whatever else there is to say.
    """

    name: Annotated[str, msgspec.Meta(pattern="^[a-z]+$")]
    size: Annotated[int, msgspec.Meta(ge=1, le=9)]
    colour: Literal["red", "blue"] = "red"
    weight: float | None = None
    fragile: bool = False
    insured: bool = True
    checked: bool | None = None
    tag: tuple[str, ...] = ()
    rooms: tuple[int, ...] | None = None
    notes: JsonObject = {}
    url: Annotated[str, msgspec.Meta(description="where it was bought")] = ""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large."""

    metres: int
    litres: float = 0


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """A thing."""

    colour: str
    id: str
    created_at: int = 0
    expires_at: int = 0
    size: Size | None = None
    tags: tuple[str, ...] = ()
    fragile: bool = False
    price: float = 0
    text: str = ""


class ListThings(msgspec.Struct, frozen=True, kw_only=True):
    """The things."""

    limit: int = 50
    cursor: str = ""


class Things(msgspec.Struct, frozen=True, kw_only=True):
    """A page of things."""

    things: tuple[Thing, ...]
    cursor: str = ""


class Unlock(msgspec.Struct, frozen=True, kw_only=True):
    """Open a lock.

    Parameters:
        code: four digits or more.
    """

    lock: str
    code: Annotated[str, msgspec.Meta(min_length=4)]
    spare: str = ""


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """Seal a lock with a text."""

    lock: str
    text: str


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """Join parts at places."""

    how: Literal["glue", "bolt"]
    exact: bool
    parts: tuple[str, ...]
    places: tuple[int, ...]
    plan: Size


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """Put a job away."""

    id: str


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the handler got."""

    heard: str


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing to tell."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Two lists and more."""

    checked: int
    good: tuple[Thing, ...] = ()
    bad: tuple[Thing, ...] = ()


LAMP = Thing(id="lamp", colour="red", created_at=NOW, tags=("a", "b"), size=Size(metres=2, litres=1.5), text="one\ntwo")
ROPE = Thing(id="rope", colour="blue", created_at=NOW, expires_at=1 << 53, price=3)


async def put(call, request: PutThing) -> Told:
    await call.audit(object=request.name)
    return Told(heard=f"{msgspec.json.encode(request).decode()} by {by(call.origin.caller)}")


def by(caller: Caller) -> str:
    return caller.kind


async def things(call, request: ListThings) -> Things:
    return Things(things=(LAMP, ROPE)[: request.limit], cursor="next" if request.limit == 1 else "")


async def thing(call, request: Archive) -> Thing:
    return LAMP


async def unlock(call, request: Unlock) -> Told:
    return Told(heard=f"{request.lock} {len(request.code)} {request.spare}")


async def seal(call, request: Seal) -> Told:
    return Told(heard=repr(request.text))


async def join(call, request: Join) -> Told:
    return Told(heard=msgspec.json.encode(request).decode())


async def archive(call, request: Archive) -> Nothing:
    return Nothing()


async def report(call, request: ListThings) -> Report:
    return Report(checked=2, good=(LAMP,))


def row(name, request, response, handler, command, **more) -> Operation:
    return Operation(
        name=name, request=request, response=response, handler=handler, command=command, permission="depot.use", **more
    )


OPERATIONS = (
    row("PutThing", PutThing, Told, put, "depot put", audit="depot.put", idempotent=True, description="Put a thing away."),
    row("ListThings", ListThings, Things, things, "depot list"),
    row("GetThing", Archive, Thing, thing, "depot shelf show"),
    row("Unlock", Unlock, Told, unlock, "depot unlock", secret=("code", "spare"), audit="depot.unlock"),
    row("Seal", Seal, Told, seal, "depot seal", secret=("text",)),
    row("Join", Join, Told, join, "depot join"),
    row("ArchiveJob", Archive, Nothing, archive, "job archive", audit="depot.archive"),
    row("Hidden", Archive, Nothing, archive, "job list"),
    row("Stock", ListThings, Report, report, "stock"),
    row("Silent", Archive, Nothing, archive, ""),
)


class DepotPlugin:
    spec = "1.0"

    def __init__(self, config: object) -> None: ...

    @hookimpl
    def register_operations(self) -> tuple[Operation, ...]:
        return OPERATIONS

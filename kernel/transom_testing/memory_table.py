"""The rows of one record in memory, as JSON by tenant and key: nothing a caller holds is the store's own."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from transom_hookspecs import Cursor, Record, Scalar, TransomError, Where

R = TypeVar("R", bound=msgspec.Struct)

Undo = Callable[[], object]

encode = msgspec.json.Encoder().encode


class MemoryTable(Generic[R]):
    """One record's rows.

    Parameters:
        before: the same record's table of an earlier opening, whose rows it takes over.
    """

    def __init__(self, record: Record, before: "MemoryTable[R] | None") -> None:
        self.record = record
        self.rows: dict[tuple[Scalar, ...], bytes] = before.rows if before else {}
        self._indexes = {index.name: index.fields for index in record.indexes}
        self._decode = msgspec.json.Decoder(record.type).decode

    def key_of(self, record: msgspec.Struct) -> tuple[Scalar, ...]:
        """The values of a record's key."""
        return tuple([getattr(record, part) for part in self.record.key])

    def get(self, tenant: str, key: Sequence[Scalar]) -> R | None:
        """The record with this key, or None."""
        data = self.rows.get((tenant, *key))
        return None if data is None else self._decode(data)  # type: ignore[return-value]

    def put(self, tenant: str, record: msgspec.Struct) -> Undo:
        """Keep the record; returns how to undo that."""
        key = (tenant, *self.key_of(record))
        data = encode(record)
        self._decode(data)  # a value of a wrong type is found here, not by whoever reads it
        before, self.rows[key] = self.rows.get(key), data
        return lambda: self._restore(key, before)

    def delete(self, tenant: str, key: Sequence[Scalar]) -> Undo | None:
        """Remove a record; returns how to undo that, or None when there was none."""
        whole = (tenant, *key)
        before = self.rows.pop(whole, None)
        return None if before is None else lambda: self._restore(whole, before)

    def clear(self, tenant: str, where: Where, limit: int) -> list[Undo]:
        """Remove records that have these values; returns how to undo that, one each."""
        first = next(iter(where), "")
        if first not in {fields[0] for fields in (self.record.key, *self._indexes.values())}:
            raise TransomError(
                "invalid_argument", f"clear of {self.record.type.__name__}: neither its key nor an index begins with {first!r}"
            )
        rows = [(key, self._decode(data)) for key, data in self.rows.items() if key[0] == tenant]
        gone = [key for key, row in rows if all(getattr(row, name) == value for name, value in where.items())]
        return [undo for key in gone[:limit] if (undo := self.delete(tenant, key[1:]))]

    def _restore(self, key: tuple[Scalar, ...], before: bytes | None) -> None:
        if before is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = before

    def check_fields(self, changes: dict[str, object]) -> None:
        """Refuse changes of fields that there are not, or that are part of the key."""
        for name in changes:
            if name in self.record.key or name not in self.record.type.__struct_fields__:
                why = "is part of its key" if name in self.record.key else "is no field of it"
                raise TransomError("invalid_argument", f"update of {self.record.type.__name__}: {name!r} {why}")

    def select(self, tenant: str, index: str, where: Where, after: Cursor | None) -> list[R]:
        """Records in the order of a declared index."""
        fields = self._fields(index)
        rest = fields[len(where) :]
        if {field.removeprefix("-") for field in fields[: len(where)]} != set(where):
            raise self._wrong(index, f"where takes its leading fields, not {', '.join(where)}")
        if after is not None and len(after) != len(rest):
            raise self._wrong(index, f"after takes {len(rest)} values ({', '.join(rest)}), not {len(after)}")
        rows: list[R] = [self._decode(data) for key, data in self.rows.items() if key[0] == tenant]  # type: ignore[misc]
        rows = [row for row in rows if all(getattr(row, name) == value for name, value in where.items())]
        if after is not None:
            rows = [row for row in rows if _is_beyond(row, rest, after)]
        for field in reversed(rest):
            rows = _sorted(rows, field)
        return rows

    def _fields(self, index: str) -> tuple[str, ...]:
        try:
            return self._indexes[index]
        except KeyError:
            raise TransomError(
                "invalid_argument", f"record {self.record.type.__name__!r} declares no index {index!r}"
            ) from None

    def _wrong(self, index: str, what: str) -> TransomError:
        return TransomError("invalid_argument", f"index {index!r} of {self.record.type.__name__}: {what}")


def _rank(value: Scalar) -> tuple[Any, ...]:
    """A value's place in an order: None before everything else."""
    return (0,) if value is None else (1, value)


def _sorted(rows: list[R], field: str) -> list[R]:
    name = field.removeprefix("-")
    return sorted(rows, key=lambda row: _rank(getattr(row, name)), reverse=field.startswith("-"))


def _is_beyond(row: msgspec.Struct, fields: Sequence[str], after: Cursor) -> bool:
    for field, value in zip(fields, after, strict=True):
        mine, its = _rank(getattr(row, field.removeprefix("-"))), _rank(value)
        if mine != its:
            return mine < its if field.startswith("-") else mine > its
    return False


def absent(type: type[msgspec.Struct], key: Sequence[Scalar]) -> TransomError:
    """There is no such record."""
    return TransomError("not_found", f"there is no {type.__name__} {'/'.join(map(str, key))}")

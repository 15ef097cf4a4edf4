"""Tables: the SQL and the conversions of each record, made once when the store opens.

Every statement begins with the tenant: it is the first column of each table, key and index.
"""

# ruff: noqa: S608 - the SQL is put together from the names of declared Structs and fields, never from values

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import astuple

from transom_hookspecs import Cursor, Index, Record, Scalar, TransomError, Where

from .fields import Field, field_of

R = TypeVar("R", bound=msgspec.Struct)

Row = tuple[Any, ...]
Query = tuple[str, tuple[Scalar, ...]]

OWN = ("audit", "audit_chain", "audit_details", "change", "event", "log", "schema")
"""The store's own tables; no record may be called so."""


class Tables:
    """The tables of all records, by the record's type.

    Raises:
        TransomError: invalid_argument when two records have one name, or one has a name of the store's own.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self._tables: dict[type[msgspec.Struct], Table[Any]] = {}
        names: set[str] = set(OWN)
        for record in records:
            if record.name in names:
                raise TransomError(
                    "invalid_argument", f"record {record.type.__name__!r}: the table name {record.name!r} is taken; rename it"
                )
            names.add(record.name)
            self._tables[record.type] = Table(record)

    def __iter__(self) -> "Iterator[Table[Any]]":
        return iter(self._tables.values())

    def __getitem__(self, type: type[R]) -> "Table[R]":
        try:
            return self._tables[type]
        except KeyError:
            raise TransomError(
                "invalid_argument", f"record {type.__name__!r} is not registered; return it from register_records"
            ) from None


class Table(Generic[R]):
    """One record's table: its statements, and rows to Structs and back."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.type: type[R] = record.type  # type: ignore[assignment]
        self.fields: dict[str, Field] = {info.name: field_of(info) for info in msgspec.structs.fields(record.type)}
        self.indexes: dict[str, IndexOrder] = {index.name: IndexOrder(self, index) for index in record.indexes}
        self._names = tuple(self.fields)
        self._writes = [(i, field.write) for i, field in enumerate(self.fields.values()) if field.write]
        self._reads = [(field.name, field.read) for field in self.fields.values() if field.read]
        self._updates: dict[tuple[str, ...], str] = {}
        self._statements(record.name)

    def _statements(self, name: str) -> None:
        columns = ", ".join(field.column for field in self.fields.values())
        marks = ", ".join("?" * (len(self.fields) + 1))
        parts = [self.ordered_by(part).column for part in self.record.key]
        key = ", ".join(parts)
        self.where_key = "tenant = ?" + "".join(f" AND {part} = ?" for part in parts)
        self.quoted = f'"{name}"'
        self.columns = columns
        into = f"INTO {self.quoted} (tenant, {columns}) VALUES ({marks})"
        self.get = f"SELECT {columns} FROM {self.quoted} WHERE {self.where_key}"
        self.put = f"INSERT OR REPLACE {into}"
        self.insert = f"INSERT {into} ON CONFLICT (tenant, {key}) DO NOTHING"
        self.delete = f"DELETE FROM {self.quoted} WHERE {self.where_key}"

    @property
    def is_small(self) -> bool:
        """Whether rows are short, so that they stand in the key's own tree and need none beside it."""
        return all(field.scalar for field in self.fields.values())

    def ordered_by(self, name: str) -> Field:
        """A field of the key or an index.

        Raises:
            TransomError: invalid_argument when there is none of that name, or it is no scalar.
        """
        field = self.fields.get(name)
        if field is None or not field.scalar:
            raise TransomError(
                "invalid_argument",
                f"record {self.type.__name__!r}: {name!r} in a key or index must be a field of one scalar type",
            )
        return field

    def dump(self, tenant: str, record: R) -> list[Any]:
        """The row of a record."""
        row: list[Any] = [tenant, *astuple(record)]
        for position, write in self._writes:
            row[position + 1] = write(row[position + 1])
        return row

    def load(self, row: Row) -> R:
        """The record of a row."""
        values = dict(zip(self._names, row, strict=True))
        for name, read in self._reads:
            values[name] = read(values[name])
        return self.type(**values)

    def key_of(self, record: R) -> tuple[Scalar, ...]:
        """The values of a record's key."""
        return tuple([getattr(record, part) for part in self.record.key])

    def update(self, changes: Mapping[str, object]) -> tuple[str, list[Any]]:
        """The statement that writes these fields, and its first values; the tenant and the key come after."""
        names = tuple(changes)
        if (sql := self._updates.get(names)) is None:
            sql = self._updates[names] = self._update(names)
        fields = self.fields
        return sql, [write(value) if (write := fields[name].write) else value for name, value in changes.items()]

    def _update(self, names: tuple[str, ...]) -> str:
        for name in names:
            if name not in self.fields or name in self.record.key:
                why = "is part of its key" if name in self.fields else "is no field of it"
                raise TransomError("invalid_argument", f"update of {self.type.__name__}: {name!r} {why}")
        assigned = ", ".join(f"{self.fields[name].column} = ?" for name in names)
        return f"UPDATE {self.quoted} SET {assigned} WHERE {self.where_key}"

    def clear(self, where: Where) -> Query:
        """The statement that removes the rows with these values: tenant, the values, how many at most.

        Raises:
            TransomError: invalid_argument when there are no values, or neither the key nor an index begins with the first.
        """
        first = next(iter(where), "")
        if first not in {fields[0] for fields in (self.record.key, *(index.fields for index in self.record.indexes))}:
            raise TransomError(
                "invalid_argument", f"clear of {self.type.__name__}: neither its key nor an index begins with {first!r}"
            )
        parts = [_Part(self, name) for name in where]
        key = ", ".join(["tenant", *(self.fields[part].column for part in self.record.key)])
        found = f"SELECT {key} FROM {self.quoted} WHERE tenant = ?{''.join(f' AND {part.equal}' for part in parts)} LIMIT ?"
        return f"DELETE FROM {self.quoted} WHERE ({key}) IN ({found})", tuple(where.values())

    def add(self, field: str) -> str:
        """The statement that adds to an integer field: by, tenant, key."""
        column = self.fields[field].column
        return f"UPDATE {self.quoted} SET {column} = {column} + ? WHERE {self.where_key} RETURNING {column}"

    def order(self, index: str) -> "IndexOrder":
        """A declared index."""
        try:
            return self.indexes[index]
        except KeyError:
            raise TransomError("invalid_argument", f"record {self.type.__name__!r} declares no index {index!r}") from None

    def select(self, tenant: str, index: str, where: Where | None, after: Cursor | None, limit: int) -> Query:
        """The query for records in the order of an index."""
        conditions, values, order = self.order(index).query(tenant, where or {}, after)
        return f"SELECT {self.columns} FROM {self.quoted} WHERE {conditions} ORDER BY {order} LIMIT ?", (*values, limit)

    def count(self, tenant: str, index: str, where: Where | None, limit: int) -> Query:
        """The query for how many records `select` gives."""
        conditions, values, _ = self.order(index).query(tenant, where or {}, None)
        return f"SELECT count(*) FROM (SELECT 1 FROM {self.quoted} WHERE {conditions} LIMIT ?)", (*values, limit)


class IndexOrder:
    """A declared index as SQL: its columns, and where a page begins."""

    def __init__(self, table: Table[Any], index: Index) -> None:
        self.index = index
        self._record = table.record
        self._parts = [_Part(table, name) for name in index.fields]

    @property
    def is_key(self) -> bool:
        """Whether the primary key has this order already."""
        return self.index.fields == self._record.key

    @property
    def columns(self) -> str:
        """The index's columns, as CREATE INDEX takes them."""
        return ", ".join(["tenant", *(part.ordered for part in self._parts)])

    def query(self, tenant: str, where: Where, after: Cursor | None) -> tuple[str, tuple[Scalar, ...], str]:
        """Conditions, their values, and the order of a page."""
        equal, rest = self._parts[: len(where)], self._parts[len(where) :]
        if {part.name for part in equal} != set(where):
            raise self._wrong(f"where takes its leading fields, not {', '.join(where)}")
        conditions = ["tenant = ?", *(part.equal for part in equal)]
        values: list[Scalar] = [tenant, *(where[part.name] for part in equal)]
        if after is not None:
            if len(after) != len(rest):
                raise self._wrong(f"after takes {len(rest)} values ({', '.join(part.name for part in rest)}), not {len(after)}")
            beyond, more = _beyond(rest, after)
            conditions.append(beyond)
            values.extend(more)
        return " AND ".join(conditions), tuple(values), ", ".join(part.ordered for part in rest) or "tenant"

    def _wrong(self, what: str) -> TransomError:
        return TransomError("invalid_argument", f"index {self.index.name!r} of {self._record.type.__name__}: {what}")


class _Part:
    """One field of an index: its column and direction."""

    def __init__(self, table: Table[Any], field: str) -> None:
        self.name = field.removeprefix("-")
        self.descending = field.startswith("-")
        declared = table.ordered_by(self.name)
        self.column, self.nullable = declared.column, declared.nullable
        self.ordered = f"{self.column} DESC" if self.descending else self.column
        self.equal = f"{self.column} IS ?" if self.nullable else f"{self.column} = ?"

    def beyond(self, value: Scalar) -> Query:
        """What comes strictly after a value; NULL comes before everything else."""
        if value is None:
            return ("0", ()) if self.descending else (f"{self.column} IS NOT NULL", ())
        if not self.descending:
            return f"{self.column} > ?", (value,)
        return (f"({self.column} < ? OR {self.column} IS NULL)" if self.nullable else f"{self.column} < ?"), (value,)


def _beyond(parts: Sequence[_Part], after: Cursor) -> Query:
    """What comes after a cursor: one row value where all go one way, else field by field."""
    if not parts:
        return "0", ()
    if any(part.nullable for part in parts) or len({part.descending for part in parts}) > 1:
        return _beyond_field_by_field(parts, after)
    sign = "<" if parts[0].descending else ">"
    columns, marks = ", ".join(part.column for part in parts), ", ".join("?" * len(parts))
    return f"({columns}) {sign} ({marks})", tuple(after)


def _beyond_field_by_field(parts: Sequence[_Part], after: Cursor) -> Query:
    alternatives: list[str] = []
    values: list[Scalar] = []
    for i, part in enumerate(parts):
        beyond, last = part.beyond(after[i])
        alternatives.append(" AND ".join([*(before.equal for before in parts[:i]), beyond]))
        values.extend([*after[:i], *last])
    return "(" + " OR ".join(alternatives) + ")", tuple(values)

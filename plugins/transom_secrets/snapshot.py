"""The secrets as they are in memory: made whole of the store's rows, and never changed after."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from transom_hookspecs import TransomError

from .cipher import Key, opened
from .matching import Matcher, looked_for
from .records import Secret, SecretEnv

Row = tuple[str, str]
"""A tenant and a name."""

NOTHING: Final = Matcher({})


class Snapshot:
    """All secrets of all tenants.

    Parameters:
        keys: by their IDs.
        before: the snapshot before, whose matchers are kept where nothing changed.

    Its `values` are by tenant and name; a row that cannot be opened has none, and why is in `broken`.
    """

    def __init__(
        self,
        rows: Sequence[Secret] = (),
        allowed: Iterable[SecretEnv] = (),
        keys: Mapping[str, Key] | None = None,
        before: "Snapshot | None" = None,
    ) -> None:
        self.rows: dict[Row, Secret] = {(row.tenant, row.name): row for row in rows}
        self.broken: dict[Row, TransomError] = {}
        self.values: dict[str, dict[str, str]] = defaultdict(dict)
        self._allowed = frozenset((each.tenant, each.tool, each.name) for each in allowed)
        for place, row in self.rows.items():
            try:
                self.values[row.tenant][row.name] = opened(row, keys or {})
            except TransomError as error:
                self.broken[place] = error
        self._matchers = {tenant: self._matcher(tenant, before) for tenant in self.values}

    def _matcher(self, tenant: str, before: "Snapshot | None") -> Matcher:
        values = self.values[tenant]
        if before is not None and before.values.get(tenant) == values:
            return before.matcher(tenant)
        return Matcher(values)

    def matcher(self, tenant: str) -> Matcher:
        """What finds the tenant's values; falsy when there are none to find."""
        return self._matchers.get(tenant, NOTHING)

    def matchers(self) -> Iterable[Matcher]:
        """What finds every tenant's."""
        return self._matchers.values()

    def tools(self, tenant: str, name: str) -> tuple[str, ...]:
        """The tools that may have a secret's plain value."""
        return tuple(sorted(tool for of, tool, what in self._allowed if (of, what) == (tenant, name)))

    def allows(self, tenant: str, tool: str, name: str) -> bool:
        """Whether a tool may have a secret's plain value."""
        return (tenant, tool, name) in self._allowed

    def is_filtered(self, tenant: str, name: str) -> bool:
        """Whether a secret's value is looked for in texts."""
        return bool(looked_for(self.values.get(tenant, {}).get(name, "")))

    def secret(self, tenant: str, name: str) -> tuple[Secret, str]:
        """A secret and its value.

        Raises:
            TransomError: not_found, or data_loss when its row is not as it was written.
        """
        row = self.rows.get((tenant, name))
        if row is None:
            raise TransomError("not_found", f"there is no secret {name!r} here; make it with `transom secret set {name}`")
        if (error := self.broken.get((tenant, name))) is not None:
            raise TransomError(error.code, error.message)
        return row, self.values[tenant][name]

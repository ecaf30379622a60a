"""The schema contract: which fields of a payload become which typed columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError
from incremental_assets.quality.types import FieldType

_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
RESERVED = frozenset({"dt", "payload"})
MOST_NEW_COLUMNS = 100
FIELDS = "_fields"
OnNew = Literal["evolve", "discard", "freeze"]


@dataclass(frozen=True, init=False)
class Contract:
    """The declared columns of a table and what becomes of fields that nobody declared.

    `evolve`: a new field becomes a new nullable string column, holding the field's JSON text (a
    later value of another type then still fits). `discard`: it stays in bronze alone. `freeze`: a
    day with such a field is held until the contract declares it or the feed is repaired.
    """

    columns: Mapping[str, FieldType]
    on_new: OnNew

    def __init__(self, on_new: OnNew = "evolve", **columns: FieldType) -> None:
        for name in columns:
            if not _COLUMN.fullmatch(name) or name.lower() in RESERVED:
                raise DefinitionError(
                    f"Contract column {name!r}: use letters, digits and underscores, beginning "
                    f"with a letter, and none of {sorted(RESERVED)}."
                )
        folded = [name.lower() for name in columns]
        if len(set(folded)) != len(folded):
            raise DefinitionError(f"Contract columns differ only in case: {sorted(columns)}.")
        object.__setattr__(self, "columns", MappingProxyType(dict(columns)))
        object.__setattr__(self, "on_new", on_new)

    def apply(self, rows: DataFrame) -> DataFrame:
        """Type the payload.

        Takes rows with `payload: variant`; adds the declared columns, `_fields:
        map<string,variant>` (all fields; null where the payload is no object) and `_unreadable:
        array<string>` (the declared fields whose value is there but cannot be read).
        """
        rows = rows.withColumn(FIELDS, F.col("payload").try_cast("map<string,variant>"))
        values = {name: F.try_element_at(FIELDS, F.lit(name)) for name in self.columns}
        rows = rows.withColumns(
            {f"_kind_{name}": F.schema_of_variant(value) for name, value in values.items()}
            | {f"_text_{name}": value.try_cast("string") for name, value in values.items()}
        )
        typed = {
            name: kind.typed(F.col(f"_kind_{name}"), F.col(f"_text_{name}"))
            for name, kind in self.columns.items()
        }
        rows = rows.withColumns(typed)
        unreadable = [
            F.when(F.col(name).isNull() & (F.col(f"_kind_{name}") != "VOID"), F.lit(name))
            for name in self.columns
        ]
        # Without the nulls; `array_compact` would call a lambda for each element.
        present = F.array_except(F.array(*unreadable), F.array(F.lit(None).cast("string")))
        rows = rows.withColumn("_unreadable", present)
        return rows.drop(*(f"_{part}_{name}" for part in ("kind", "text") for name in self.columns))

    def grown(self, found: Iterable[str], known: Iterable[str]) -> list[str]:
        """The undeclared fields that are columns: those of the table, then new ones by name.

        `found` are the fields of a batch, `known` the columns that the table has.
        Names that Delta cannot store, that begin with `_` or that differ from another only in
        case stay in bronze; so does what exceeds `MOST_NEW_COLUMNS`.
        """
        if self.on_new != "evolve":
            return []
        taken = {name.lower() for name in self.columns} | RESERVED
        grown = [n for n in known if n.lower() not in taken and _COLUMN.fullmatch(n)]
        taken |= {name.lower() for name in grown}
        for name in sorted(set(found)):
            if len(grown) >= MOST_NEW_COLUMNS:
                break
            if _COLUMN.fullmatch(name) and name.lower() not in taken:
                grown.append(name)
                taken.add(name.lower())
        return grown

    def refused(self, found: Iterable[str]) -> list[str]:
        """The fields of a batch that a frozen contract does not have, each in words."""
        if self.on_new != "freeze":
            return []
        declared = {name.lower(): name for name in self.columns}
        return [
            f"{name} (declared as {declared[name.lower()]})" if name.lower() in declared else name
            for name in sorted(set(found) - set(self.columns))
        ]

    @staticmethod
    def undeclared(name: str) -> Column:
        """The text of a field that is not declared, or null; `apply` made `_fields` for it."""
        value = F.try_element_at(FIELDS, F.lit(name))
        text = F.coalesce(value.try_cast("string"), F.to_json(value))
        return F.when(~F.is_variant_null(value), text)

"""The names of a feed's fields: known ones are counted with the rows, others in a bounded query.

A feed decides on the names and the number of its fields; one that writes keys as names has
millions. So the gate's aggregate finds which of the known names the rows have, and whether there
are others. Only then the others are queried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from incremental_assets.quality.contract import (
    ABSENT,
    COLUMN,
    MOST_NEW_COLUMNS,
    RESERVED,
    SHAPE_AT,
    UNDECLARED,
    Contract,
    Shape,
)

MOST_NEW_FIELDS = 1_000
"""The most undeclared fields of a day that are read: first those that `on_new_column` names, then
those that can be columns, by name."""
LONGEST_NAME = 255
"""A longer name is cut, and can be no column."""
_CUT = "…"


@dataclass(frozen=True, slots=True)
class FieldNames:
    """The fields that are known of a table: declared, or columns that it has."""

    contract: Contract
    known: tuple[str, ...]
    shapes: tuple[Shape, ...] = ()

    @classmethod
    def of(
        cls,
        contract: Contract,
        columns: Iterable[str],
        expected: Collection[str] = (),
        shapes: Sequence[Shape] = (),
    ) -> FieldNames:
        """`columns` are those of the table as it is, `expected` what some of the rows have.

        `shapes` are those by which `Contract.apply` numbered the rows: their fields are not counted
        row by row.

        Expected fields are counted like columns, unless they leave no room for others: which
        fields become columns then depends on the names of all of them.
        """
        fields = {name for name in columns if COLUMN.fullmatch(name)}
        known = sorted(fields | set(contract.columns) | set(expected))
        names = cls(contract, tuple(known), tuple(shapes))
        if expected and not names.has_room():
            return replace(names, known=cls.of(contract, fields).known)
        return names

    def aggregates(self) -> Mapping[str, Column]:
        """Aggregates over the fields of rows: `field_0` … by the known names, `unknown` and `new`.

        `unknown` and `new` are the most fields in a row that are not known, and those of them that
        are to become columns or to hold the day. `shapes` has a bit for each shape that was there;
        the others are of the rows of no known shape.
        """
        found = {f"field_{at}": self._present(name) for at, name in enumerate(self.known)}
        others = self.others()
        new = F.when(F.size(others) > 0, F.size(F.filter(others, self._matters)))
        found |= {"unknown": F.max(self._if_looked_at(F.size(others)))}
        found |= {"new": F.max(self._if_looked_at(new))}
        if self.shapes:
            found["shapes"] = F.bit_or(F.expr(f"shiftleft(1, {SHAPE_AT})"))
        return found

    def found_in(self, row: Row) -> tuple[frozenset[str], bool, bool]:
        """Of a row of these aggregates: the known fields, and whether `unknown` and `new` ones."""
        here = {name for at, name in enumerate(self.known) if row[f"field_{at}"]}
        unknown, new = (row["unknown"] or 0) > 0, (row["new"] or 0) > 0
        bits = (row["shapes"] or 0) if self.shapes else 0
        for at, shape in enumerate(self.shapes):
            if bits >> at & 1:
                here.update(name for name in shape if name in self.known)
                others = [name for name in shape if name not in self.known]
                unknown = unknown or bool(others)
                new = new or any(map(self._does_matter, others))
        return frozenset(here), unknown, new

    def _if_looked_at(self, value: Column) -> Column:
        return F.when(F.col(SHAPE_AT).isNull(), value) if self.shapes else value

    def has_room(self) -> bool:
        """Whether a field that is not known may still become a column."""
        grown = {n for n in self.known if n not in self.contract.columns} - RESERVED
        return len(grown) < MOST_NEW_COLUMNS

    def others(self) -> Column:
        """The fields of a row that are not known; null where its payload is no object."""
        grown = [name for name in self.known if name not in self.contract.columns]
        others = F.col(UNDECLARED)
        return F.array_except(others, F.array(*map(F.lit, grown))) if grown else others

    def named(self, policies: Collection[str]) -> list[str]:
        """The fields, in lower case, that `on_new_column` names with one of these policies."""
        return [n for n, p in self.contract.on_new_column.items() if n != "*" and p in policies]

    def _present(self, name: str) -> Column:
        # The name is a column's, so it needs no escaping; as text it is one call to the JVM.
        declared = name in self.contract.columns
        here = (
            f"size({ABSENT}) = 0 OR NOT array_contains({ABSENT}, '{name}')"
            if declared
            else f"array_contains({UNDECLARED}, '{name}')"
        )
        if self.shapes:
            here = f"CASE WHEN {SHAPE_AT} IS NULL THEN {here} END"
        return F.expr(f"bool_or({here})")

    def _matters(self, name: Column) -> Column:
        """Whether a field that is not known is to hold the day, or may become a column.

        Or would be one, if its name had the case of the undeclared column.
        """
        taken, grown = {n.lower() for n in self.known} | RESERVED, self._grown_in_lower_case()
        column = F.lit(self.has_room()) & _can_be_column(name) & ~F.lower(name).isin(list(taken))
        column = column | F.lower(name).isin(sorted(grown)) if grown else column
        return self._becomes(name, "freeze") | (self._becomes(name, "evolve") & column)

    def _does_matter(self, name: str) -> bool:
        """The same of one name."""
        policy = self.contract.of_new(name)
        taken = {n.lower() for n in self.known} | RESERVED
        can_be = COLUMN.fullmatch(name) is not None and len(name) <= LONGEST_NAME
        column = self.has_room() and can_be and name.lower() not in taken
        column = column or name.lower() in self._grown_in_lower_case()
        return policy == "freeze" or (policy == "evolve" and column)

    def _grown_in_lower_case(self) -> frozenset[str]:
        grown = (name.lower() for name in self.known if name not in self.contract.columns)
        return frozenset(grown) - RESERVED

    def _becomes(self, name: Column, policy: str) -> Column:
        named, others = self.named([policy]), self.named({*self.contract.on_new_column.values()})
        here = F.lower(name).isin(named) if named else F.lit(False)
        if self.contract.on_new_column["*"] != policy:
            return here
        return here | ~F.lower(name).isin(others) if others else F.lit(True)


def unknown_names(rows: DataFrame, day: str, names: FieldNames) -> DataFrame:
    """`day` and `name` of the fields that are not known, one more than MOST_NEW_FIELDS a day."""
    name = F.col("name")
    left_out, chosen = names.named(["discard"]), names.named(["evolve", "freeze"])
    lower = F.lower(name)
    rank = (
        F.when(lower.isin(chosen), 0)
        .when(lower.isin(left_out), 3)
        .when(_can_be_column(name), 1)
        .otherwise(2)
    )
    cut = F.concat(F.left(name, F.lit(LONGEST_NAME - 1)), F.lit(_CUT))
    position = F.row_number().over(Window.partitionBy("day").orderBy("rank", "name"))
    return (
        rows.select(F.col(day).alias("day"), F.explode(names.others()).alias("name"))
        .select("day", F.when(F.length(name) > LONGEST_NAME, cut).otherwise(name).alias("name"))
        .distinct()
        .select("day", "name", rank.alias("rank"))
        .withColumn("position", position)
        .where(F.col("position") <= MOST_NEW_FIELDS + 1)
        .orderBy("day", "position")
    )


def _can_be_column(name: Column) -> Column:
    return name.rlike(f"^{COLUMN.pattern}$") & (F.length(name) <= LONGEST_NAME)

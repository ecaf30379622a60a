"""The gate: a table's rules, judged in one aggregate before anything is published."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from incremental_assets.quality.contract import Contract
from incremental_assets.quality.fields import MOST_NEW_FIELDS, FieldNames, unknown_names
from incremental_assets.quality.reasons import is_good, naming_one
from incremental_assets.quality.rule import (
    APART,
    LINE,
    UNREADABLE,
    DayRule,
    RowRule,
    Rule,
    Severity,
)

READABLE = "values_readable"
IN_TIME = "business_day_in_time"
DECLARED = "fields_declared"
PRESENT = "fields_present"
FIT = "values_fit"
_STRUCTURAL = {
    READABLE: "Each line is a JSON object and each declared field can be read as its type.",
    IN_TIME: "The business day is neither too late nor too early for the landing day, nor "
    "before the first partition.",
}


@dataclass(frozen=True, slots=True)
class Value:
    """A further aggregate, and how those of several groups are combined.

    `combine` gets the values that are not null, and is not called without any.
    """

    column: Column
    combine: Callable[[Sequence[Any]], Any] = sum


@dataclass(frozen=True, slots=True)
class DayGate:
    """The counts of one day: its rows, how many have which reasons, and their fields.

    The rows of a target are of no day: `day` is None.

    `unknown` and `new`: there are other fields, and such that matter; `more_fields`: there are more
    of these than were read.
    """

    day: date | None
    rows: int = 0
    quarantined: int = 0
    counted: int = 0
    counted_quarantined: int = 0
    late: int = 0
    unreadable: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    measured: Mapping[str, Any] = field(default_factory=dict)
    measured_rows: int = 0
    fields: frozenset[str] = frozenset()
    unknown: bool = False
    new: bool = False
    more_fields: bool = False


@dataclass(frozen=True, slots=True)
class Counted:
    """What the aggregate gives: counts per day, the names of fields, flags, and other values."""

    days: Mapping[date | None, DayGate]
    broken: Mapping[tuple[date | None, str], int]
    fields: frozenset[str]
    flags: Mapping[str, int] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def whole(self) -> DayGate:
        """The rows of a target, which are of no day."""
        return self.days.get(None) or DayGate(None)


def structural_rules(contract: Contract | None) -> Mapping[str, tuple[str, Severity]]:
    """What every typed table judges besides its own rules: description and severity by name."""
    found: dict[str, tuple[str, Severity]] = {
        name: (text, "quarantine") for name, text in _STRUCTURAL.items()
    }
    if contract is None:
        return found
    text = (
        "Each required column is in some row, none seems to have been renamed, and no field "
        "differs from an undeclared column only in case."
    )
    found[PRESENT] = (text, "warn")
    if contract.freezes_new:
        found[DECLARED] = ("The rows have no field that the contract does not declare.", "fail")
    if contract.freezes_values:
        columns = ", ".join(contract.freezes_values)
        found[FIT] = (f"Each value of {columns} can be read as its type.", "fail")
    return found


def count(
    rows: DataFrame,
    rules: Sequence[Rule],
    day: str | None,
    late: Column | None = None,
    flags: Mapping[str, Column] = MappingProxyType({}),
    deletes: Column | None = None,
    names: FieldNames | None = None,
    values: Mapping[str, Value] = MappingProxyType({}),
) -> Counted:
    """Count everything that the rules need, by day, in one pass over the rows.

    `day` names the column to group by (None: the rows are of no day), `late` selects late rows, and
    the good rows with each of the `flags` are counted. A row that `deletes` has no values that
    rules could measure or count. Rows are counted by their reasons, of which there are few
    combinations, so that a rule more costs nothing here. Of the fields, those that `names` knows
    are found, and whether there are others. `values` are aggregates over all rows.
    """
    # Of a target only good rows count: a day is held for what lands, a load for what it publishes.
    judged = ~F.array_contains("_reasons", LINE) if day else is_good()
    watched = watched_rules(rules)
    measures = measures_of(rules)
    fields_of = names.aggregates() if names else {}
    with naming_one(rows, rules):
        found = rows.groupBy(
            (F.col(day) if day else F.lit(None).cast("date")).alias("day"),
            F.col("_reasons").alias("reasons"),
            *([deletes.alias("deletes")] if deletes is not None else []),
        ).agg(
            F.count(F.lit(1)).alias("rows"),
            F.count_if(F.lit(False) if late is None else late).alias("late"),
            *(column.alias(name) for name, column in fields_of.items()),
            *(F.count_if(flag).alias(f"flag_{name}") for name, flag in flags.items()),
            *(value.column.alias(f"value_{name}") for name, value in values.items()),
            # Of the good rows there is one group a day, so these need not be put together again.
            *(measure().alias(f"measure_{name}") for name, measure in measures.items()),
            *(
                F.count_if(~F.coalesce(rule.condition(), F.lit(False)) & judged).alias(
                    f"broken_{rule.name}"
                )
                for rule in watched
            ),
        )
    days: dict[date | None, DayGate] = {}
    broken: dict[tuple[date | None, str], int] = {}
    fields: set[str] = set()
    flagged = dict.fromkeys(flags, 0)
    groups = found.collect()
    for row in groups:
        day_so_far = days.get(row["day"]) or DayGate(row["day"])
        gate = _with_rows(day_so_far, row["reasons"], row["rows"], row["late"])
        live = deletes is None or not row["deletes"]
        if live and not row["reasons"]:
            measured = {name: row[f"measure_{name}"] for name in measures}
            gate = replace(gate, measured=measured, measured_rows=row["rows"])
        here, unknown, new = names.found_in(row) if names else (frozenset[str](), False, False)
        days[row["day"]] = replace(
            gate,
            fields=gate.fields | here,
            unknown=gate.unknown or unknown,
            new=gate.new or new,
        )
        fields.update(here)
        for name in flags:
            flagged[name] += 0 if row["reasons"] else row[f"flag_{name}"]
        for rule in watched:
            key = row["day"], rule.name
            broken[key] = broken.get(key, 0) + (row[f"broken_{rule.name}"] if live else 0)
    return Counted(days, broken, frozenset(fields), flagged, _combined(groups, values))


def _combined(groups: Sequence[Row], values: Mapping[str, Value]) -> Mapping[str, Any]:
    """The values of all groups together; None where every group has none."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        there = [row[f"value_{name}"] for row in groups if row[f"value_{name}"] is not None]
        found[name] = value.combine(there) if there else None
    return found


def with_new_fields(
    counted: Counted, rows: DataFrame, day: str, names: FieldNames, asked: Sequence[str]
) -> Counted:
    """The counts with the names of unknown fields, where they are needed.

    They are needed where they become columns or hold the day, and where one of the `asked` columns
    is in no row, as it may have been renamed. Of a day with more than MOST_NEW_FIELDS the others
    are not named, and `more_fields` is true.
    """
    wanted = {
        gate.day
        for gate in counted.days.values()
        if gate.new or (gate.unknown and not gate.fields.issuperset(asked))
    }
    if not wanted:
        return counted
    found: dict[date | None, list[str]] = {}
    for row in unknown_names(rows, day, names).collect():
        found.setdefault(row["day"], []).append(row["name"])
    days = dict(counted.days)
    for each in wanted & found.keys():
        some = found[each][:MOST_NEW_FIELDS]
        more = len(found[each]) > MOST_NEW_FIELDS
        days[each] = replace(days[each], fields=days[each].fields.union(some), more_fields=more)
    every = frozenset[str]().union(*(gate.fields for gate in days.values()))
    return replace(counted, days=days, fields=every)


def _with_rows(gate: DayGate, reasons: Sequence[str], rows: int, late: int) -> DayGate:
    """The counts of a day with further rows, which have the same reasons."""
    rejected = rows if reasons else 0
    apart = rows if reasons and set(reasons) <= set(APART) else 0
    unreadable = any(reason.endswith(UNREADABLE) for reason in reasons)
    by_reason = dict(gate.reasons)
    for reason in set(reasons):
        by_reason[reason] = by_reason.get(reason, 0) + rows
    return replace(
        gate,
        rows=gate.rows + rows,
        quarantined=gate.quarantined + rejected,
        counted=gate.counted + rows - apart,
        counted_quarantined=gate.counted_quarantined + rejected - apart,
        late=gate.late + (0 if reasons else late),
        unreadable=gate.unreadable + (rows if unreadable else 0),
        reasons=by_reason,
    )


def aggregates(rules: Sequence[Rule]) -> Mapping[str, Column]:
    """The aggregates that judge gold rows: `broken_…` of row rules, `measure_…` of day rules."""
    broken = {
        f"broken_{rule.name}": F.count_if(~F.coalesce(rule.condition(), F.lit(False)))
        for rule in watched_rules(rules)
    }
    measured = {f"measure_{name}": measure() for name, measure in measures_of(rules).items()}
    return broken | measured


def watched_rules(rules: Sequence[Rule]) -> list[RowRule]:
    """The row rules that do not quarantine: rows that break them are counted."""
    return [r for r in rules if isinstance(r, RowRule) and r.severity != "quarantine"]


def measures_of(rules: Sequence[Rule]) -> Mapping[str, Callable[[], Column]]:
    """The measures of the day rules over a day's good rows, by `rule.measure`."""
    return {
        f"{rule.name}.{name}": measure
        for rule in rules
        if isinstance(rule, DayRule)
        for name, measure in rule.measures.items()
    }

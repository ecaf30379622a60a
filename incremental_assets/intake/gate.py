"""The gate of an intake: reasons row by row, and one aggregate that judges every rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.errors import GateError
from incremental_assets.frames import quoted
from incremental_assets.quality.rules import DayCounts, DayRule, RowRule, Rule

REASONS = "_reasons"
LINE = "line_unreadable"


@dataclass(frozen=True, slots=True)
class Judged:
    """What the aggregate found: rows, those set aside, the values asked for, and what to tell."""

    rows: int
    quarantined: int
    values: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def is_good() -> Column:
    """A row that no rule sets aside."""
    return F.expr(f"size({REASONS}) = 0")


def with_reasons(
    rows: DataFrame,
    key: Sequence[str],
    rules: Sequence[Rule],
    own: Sequence[Column],
    is_row: Column | None = None,
) -> DataFrame:
    """Add `_reasons: array<string>`: why a row is quarantined; empty for a good one.

    A line that could not be taken apart, a value that does not fit its column, a null key, the
    reasons in `own` (text or null), and row rules with severity `quarantine`. Rules apply to what
    `is_row`, where it is given: a delete need not say more than its key.
    """
    keys = [F.when(F.col(quoted(n)).isNull(), F.lit(f"{n}_null")) for n in key]
    broken = [
        F.when(_breaks(rule, is_row), F.lit(rule.name))
        for rule in rules
        if isinstance(rule, RowRule) and rule.severity == "quarantine"
    ]
    nothing = F.array(F.lit(None).cast("string"))
    unreadable = F.transform("_unreadable", lambda name: F.concat(name, F.lit("_unreadable")))
    # What cannot be read is null as well; one reason is enough for that.
    implied = F.transform("_unreadable", lambda name: F.concat(name, F.lit("_null")))
    found = F.array_except(F.array(*own, *keys, *broken, F.lit(None).cast("string")), nothing)
    reasons = F.concat(F.array_except(found, implied), unreadable)
    whole_line = F.when(F.col("_raw").isNotNull(), F.array(F.lit(LINE)))
    return rows.withColumn(REASONS, F.coalesce(whole_line, reasons))


def _breaks(rule: RowRule, is_row: Column | None) -> Column:
    broken = ~F.coalesce(rule.condition(), F.lit(False))
    return broken if is_row is None else broken & is_row


def judge(
    rows: DataFrame,
    name: str,
    rules: Sequence[Rule],
    values: Mapping[str, Column],
    is_row: Column | None = None,
) -> Judged:
    """Count everything in one pass, and judge it. `values` are further aggregates.

    Rules on rows apply to what `is_row`, as in `with_reasons`. Raises GateError where a rule with
    severity `fail` is broken.
    """
    watched = [r for r in rules if isinstance(r, RowRule) and r.severity != "quarantine"]
    broken = {
        f"_broken_{n}": F.count_if(_breaks(rule, is_row) & is_good())
        for n, rule in enumerate(watched)
    }
    row = rows.agg(
        F.count(F.lit(1)).alias("_rows"),
        F.count_if(~is_good()).alias("_quarantined"),
        *(column.alias(alias) for alias, column in (broken | dict(values)).items()),
    ).collect()[0]
    total, aside = row["_rows"], row["_quarantined"]
    found: dict[Rule, str] = {
        rule: f"{rule.name}: {row[f'_broken_{n}']} of {total} rows break it"
        for n, rule in enumerate(watched)
        if not rule.passes(row[f"_broken_{n}"], total)
    }
    counts = DayCounts(total, aside, total, aside, 1)
    for rule in rules:
        if isinstance(rule, DayRule) and total:
            verdict = rule.judge(counts)
            if not verdict.passed:
                found[rule] = f"{rule.name}: {verdict.found}"
    failed = [text for rule, text in found.items() if rule.severity == "fail"]
    if failed:
        raise GateError(
            f"{name}: held back by {'; '.join(failed)}. Nothing was published and the watermark "
            "did not move; correct the source or the rule, and load again."
        )
    notes = [text for rule, text in found.items() if rule.severity == "warn"]
    if aside:
        notes += _by_reason(rows)
    return Judged(total, aside, {alias: row[alias] for alias in values}, tuple(notes))


def _by_reason(rows: DataFrame) -> list[str]:
    """How many rows were set aside for which reason; read from the persisted rows."""
    reason = F.explode(REASONS).alias("reason")
    counted = rows.where(~is_good()).select(reason).groupBy("reason").count().collect()
    return sorted(f"{row['count']} rows set aside: {row['reason']}" for row in counted)

"""What batches of gold tables share: reading upstreams, running the transform, judging its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial, reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.days import named
from incremental_assets.delta.delta_table import version_of
from incremental_assets.delta.literals import sql_days
from incremental_assets.delta.read import DataFile, read_version
from incremental_assets.engine.batch import Batch, verdict
from incremental_assets.engine.scope import scope_of
from incremental_assets.engine.totals import NOTHING, differences, totals
from incremental_assets.engine.volume import RowsBefore, judges_volume, last_ones
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import quoted
from incremental_assets.ledger.entry import Entry
from incremental_assets.plurals import counted
from incremental_assets.quality.examples import MOST, Examples, examples
from incremental_assets.quality.gate import aggregates, measures_of, watched_rules
from incremental_assets.quality.judge import RuleResult, judge_day, row_result
from incremental_assets.quality.reasons import naming, naming_one, prepared
from incremental_assets.quality.rules import DayCounts, DayRule
from incremental_assets.table import AsOf, SameDay, Sums, Table
from incremental_assets.writes.destination import ChangeSet, Destination


def upstream_rows(session: SparkSession, batch: Batch, read: SameDay | AsOf) -> DataFrame:
    """The batch's days of the facts, or all versions of a table that is looked up."""
    name = read.table.name
    path = f"{batch.settings.lake}/{name}"
    if isinstance(read, AsOf) and name not in batch.versions:  # it was never loaded
        return _never_loaded(session, read)
    if isinstance(read, AsOf):
        return read_version(session, path, batch.versions[name])

    def of_these_days(file: DataFile) -> bool:
        return file.partition["dt"] in batch.work.days

    days = sql_days(batch.work.days)
    return read_version(session, path, batch.versions[name], of_these_days).where(f"dt IN ({days})")


def _never_loaded(session: SparkSession, read: AsOf) -> DataFrame:
    """No version of a table that is looked up, with the columns that are known of it."""
    ends = [name for name in (read.valid_from, read.valid_to) if name]
    types = {read.key: "string", **dict.fromkeys(ends, "timestamp"), "dt": "date"}
    if read.table.write.keeps_versions:
        types["is_current"] = "boolean"
    if read.table.has_declared_columns and read.table.schema is not None:
        types |= {name: kind.sql for name, kind in read.table.schema.columns.items()}
    columns = (F.lit(None).cast(kind).alias(name) for name, kind in types.items())
    return session.range(0).select(*columns)


def made_rows(batch: Batch, frames: Sequence[DataFrame]) -> DataFrame:
    """What the table's transform makes of the frames: `dt` and its own columns."""
    assert batch.table.transform is not None  # refused when it is defined
    made = with_day(batch.table, batch.table.transform(*frames))
    own = [quoted(name) for name in made.columns if not name.startswith("_") and name != "dt"]
    return made.select("dt", *own)


def with_day(table: Table, made: DataFrame) -> DataFrame:
    """What a transform made. Raises DefinitionError where it has no `dt`."""
    if "dt" not in made.columns:
        raise DefinitionError(
            f"{table.name}: the transform gives no column dt (a date, by which the table is "
            f"partitioned), only {', '.join(made.columns)}. Nothing was loaded; add it."
        )
    return made


def change_set(rows: DataFrame) -> ChangeSet:
    """Made rows as changes: their columns are all their own."""
    return ChangeSet(rows, {f.name: f.dataType for f in rows.schema.fields})


def destination(batch: Batch, key: Sequence[str] = (), **facts: Any) -> Destination:
    """Where the rows of a gold table go; it has no side table."""
    number, table = batch.number, batch.table
    return Destination(
        table.name,
        batch.path,
        number,
        tuple(key),
        partition_by=("dt",),
        counted_by="dt",
        tombstones=False,
        **facts,
    )


def judge(
    batch: Batch, facts: DataFrame, rows: DataFrame
) -> tuple[list[Entry], dict[date, list[RuleResult]]]:
    """Reconcile what was written with the facts, which are read a second time on purpose.

    Sums of the rows that came out of the join would agree with themselves. Only the few summed
    columns of either side are scanned, in one job.
    """
    table, sums = batch.table, batch.table.sums or Sums()
    left = totals(facts, {name: sql for name, (sql, _) in sums.sums.items()}, 0)
    rows, right = made_totals(batch, rows, {name: sql for name, (_, sql) in sums.sums.items()})
    sides = [left, right, *elsewhere(rows.sparkSession, batch)]
    found: dict[int, dict[date | None, Mapping[str, Any]]] = {at: {} for at in range(len(sides))}
    for row in reduce(partial(DataFrame.unionByName, allowMissingColumns=True), sides).collect():
        found[row["side"]][row["dt"]] = row.asDict()
    _require_days(batch, found[1])
    examples_of = examples_of_broken(batch, rows, found[1].values())
    history = batch.view.table(table.name)
    volume = last_ones(history, lambda entry: entry.rows_counted)
    entries: list[Entry] = []
    results: dict[date, list[RuleResult]] = {}
    for claim in batch.claims:
        expected, after = found[0].get(claim.day, {}), found[1].get(claim.day, {})
        read, made = expected.get("rows", 0), after.get("rows", 0)
        counts = DayCounts(
            made,
            0,
            made,
            0,
            differences=differences(sums, expected, after),
            elsewhere={
                name: value
                for side in range(2, len(sides))
                for name, value in found[side].get(claim.day, {}).items()
                if value is not None
            },
            trailing=RowsBefore(volume, claim.day) if judges_volume(table.rules) else (),
            day=claim.day,
            now=batch.now,
        )
        results[claim.day] = batch.accepting(judged(batch, counts, after, examples_of), claim.day)
        entries.append(
            replace(
                claim,
                **verdict(results[claim.day]),
                rows_read=read,
                rows_inserted=made,
                rows_counted=made,
            )
        )
    return entries, results


def _require_days(batch: Batch, made: Mapping[date | None, Mapping[str, Any]]) -> None:
    """Raise DefinitionError for rows that were made of other days than their facts are of."""
    others = {day: found["rows"] for day, found in made.items() if day not in batch.work.days}
    if not others:
        return
    known = sorted(day for day in others if day is not None)
    days = " and ".join(filter(None, (named(known), "no day" if None in others else "")))
    raise DefinitionError(
        f"{batch.table.name}: the transform makes {counted(sum(others.values()), 'row')} of {days} "
        f"out of facts of {named(batch.work.days)}. A day's rows are made of that day's facts, and "
        "these would be lost, or appear in some loads alone. Nothing was published; keep the dt of "
        "the facts, and give a local date a column of its own."
    )


def elsewhere(session: SparkSession, batch: Batch) -> list[DataFrame]:
    """What the rules ask other tables for, of the batch's days: `rule.measure` by `dt` and side."""
    days = set(batch.work.days)

    def of_these_days(file: DataFile) -> bool:
        return file.partition.get("dt") in days

    asked: dict[str, list[DayRule]] = {}
    for rule in batch.table.rules:
        if isinstance(rule, DayRule) and rule.reads_table:
            asked.setdefault(rule.reads_table, []).append(rule)
    found: list[DataFrame] = []
    for name, rules in asked.items():
        if not batch.view.table(name).high:
            continue  # it was never loaded
        path = f"{batch.settings.lake}/{name}"
        rows = read_version(session, path, version_of(path), of_these_days)
        rows = rows.where(f"dt IN ({sql_days(days)})")
        sums: dict[str, str] = {}
        for rule in rules:
            with naming(rule):
                _ = rows.agg(*map(F.expr, rule.elsewhere.values())).schema
            sums |= {f"{rule.name}.{measure}": sql for measure, sql in rule.elsewhere.items()}
        found.append(totals(rows, sums, 2 + len(found)))
    return found


def made_totals(
    batch: Batch, rows: DataFrame, sums: Mapping[str, str], further: Mapping[str, Column] = NOTHING
) -> tuple[DataFrame, DataFrame]:
    """The made rows with what their rules add to them, and their totals with what rules ask for.

    `further` are aggregates that are asked for as well. Raises DefinitionError for a rule that does
    not fit the rows.
    """
    rules = batch.table.rules
    scope = scope_of(rows.sparkSession, batch, "dt", replaced=True)
    rows = prepared(rows, rules, scope)
    with naming_one(rows, rules):
        return rows, totals(rows, sums, 1, {**aggregates(rules), **further})


def examples_of_broken(
    batch: Batch, rows: DataFrame, found: Iterable[Mapping[str, Any]]
) -> Examples:
    """Keys of rows that break a rule; nothing is looked up where none does."""
    broken = sum(n or 0 for row in found for name, n in row.items() if name.startswith("broken_"))
    rules, key = batch.table.rules, batch.table.key
    return examples(rows, rules, "dt", key, broken=broken) if broken else {}


def judged(
    batch: Batch, counts: DayCounts, found: Mapping[str, Any], examples_of: Examples
) -> list[RuleResult]:
    """The results of the rules on made rows, with what was counted of them."""
    rules = batch.table.rules
    measured = {name: found.get(f"measure_{name}") for name in measures_of(rules)}
    counts = replace(counts, measured=measured, measured_rows=counts.rows)
    of_rows = [
        replace(
            row_result(rule, found.get(f"broken_{rule.name}") or 0, counts.rows),
            examples=_of_rule(rule.name, counts.day, examples_of),
        )
        for rule in watched_rules(rules)
    ]
    return of_rows + judge_day(rules, counts)


def _of_rule(rule: str, day: date | None, examples_of: Examples) -> tuple[str, ...]:
    """The examples of a rule on a day, or on all days where they are judged together."""
    found = [keys for (of, name), keys in examples_of.items() if name == rule and day in (of, None)]
    return tuple(key for keys in found for key in keys)[:MOST]

"""A batch of typed rows into a silver table: appended, merged by key, or as versions (SCD2)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.delta.columns import DELETED, OPERATION
from incremental_assets.delta.side_table import side_table_of
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.delta.widen import widen
from incremental_assets.engine.batch import Batch, DayBatch, Outcome, verdict
from incremental_assets.engine.bronze_rows import contract_of, window_rows
from incremental_assets.engine.put_in_quarantine import put_in_quarantine
from incremental_assets.engine.table_write import stage_good
from incremental_assets.engine.typed import Typed, typed
from incremental_assets.engine.volume import RowsBefore, added_up, judges_volume
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.shares import rows_in_shares
from incremental_assets.quality.contract import SHAPE, Contract
from incremental_assets.quality.examples import Examples, examples
from incremental_assets.quality.fields import FieldNames
from incremental_assets.quality.gate import (
    PRESENT,
    Counted,
    DayGate,
    count,
    with_new_fields,
)
from incremental_assets.quality.judge import (
    RuleResult,
    in_other_case,
    judge_day,
    judge_fields,
    judge_rows,
    not_named,
)
from incremental_assets.quality.rule import APART
from incremental_assets.quality.rules import DayCounts


class TypedBatch(DayBatch[Typed]):
    """Types the payload, quarantines bad rows, and publishes the days that pass.

    Where the business day is declared unchanging for a key, each day is independent of the others:
    a merge looks only into the days of the batch, and a restated day is replaced whole. Where it is
    not (the rows lie under their landing day), keys are looked up in the whole table. Without a key
    every row stays, and a restated day is replaced, too.
    """

    def read(self, batch: Batch, frames: Frames) -> Typed:
        read = typed(frames, window_rows(frames.session, batch), batch)
        return replace(read, rows=frames.cache(read.rows))

    def gate(self, batch: Batch, frames: Frames, read: Typed) -> Outcome:
        counted = counted_rows(batch, read)
        broken = sum(day.quarantined for day in counted.days.values())
        broken += sum(counted.broken.values())
        key, rules, deletes = batch.table.key, batch.table.rules, deletes_of(read.rows)
        found = examples(read.rows, rules, "_day", key, deletes, broken=broken) if broken else {}
        return _judge(batch, counted, read, found)

    def quarantine(self, batch: Batch, frames: Frames, read: Typed, outcome: Outcome) -> None:
        if any(entry.rows_quarantined for entry in outcome.entries):
            put_in_quarantine(frames.session, batch, read.rows, outcome.entries)

    def stage(
        self, batch: Batch, frames: Frames, read: Typed, outcome: Outcome
    ) -> StagedWrite | None:
        if not outcome.published:
            return None
        assert outcome.counted is not None
        notes = fit_columns(frames.session, batch, read.rows)
        write = stage_good(frames, batch, read, outcome.counted, sorted(outcome.published))
        return replace(write, notes=tuple(notes))

    def counted(self, outcome: Outcome, write: StagedWrite) -> Sequence[Entry]:
        return with_changes(outcome.entries, write)


def counted_rows(batch: Batch, read: Typed) -> Counted:
    """What the gate counts of typed rows, by day, with the fields that matter."""
    rows = read.rows
    rules, late = batch.table.rules, F.col("_landing_day") > F.col("_day")
    shapes = read.shapes if SHAPE in rows.columns else ()
    names = FieldNames.of(contract_of(batch.table), batch.columns, Contract.expected(rows), shapes)
    counted = count(rows, rules, "_day", late, flags_of(batch), deletes_of(rows), names)
    return with_new_fields(counted, rows, "_day", names, _asked(batch))


def fit_columns(session: SparkSession, batch: Batch, rows: DataFrame) -> list[str]:
    """Widen the columns of the table, and of its side table, to the types of the rows."""
    own = [field for field in rows.schema.fields if not field.name.startswith("_")]
    notes = widen(session, batch.path, batch.table.name, own)
    # Always: a load may have died between the two.
    widen(session, side_table_of(batch.path), batch.table.name, own)
    return notes


def deletes_of(rows: DataFrame) -> Column | None:
    """Which rows are deletes, where there are any."""
    return F.col(DELETED) if DELETED in rows.columns else None


def flags_of(batch: Batch) -> Mapping[str, Column]:
    """Further counts of a log's rows."""
    return {"truncates": F.col(OPERATION) == "truncate"} if batch.table.log else {}


def _judge(batch: Batch, counted: Counted, read: Typed, examples_of: Examples) -> Outcome:
    entries: list[Entry] = []
    results: dict[date, list[RuleResult]] = {}
    history = batch.view.table(batch.table.name)
    asked = judges_volume(batch.table.rules)
    volume = added_up(history, lambda entry: entry.rows_counted) if asked else {}
    contract, columns = contract_of(batch.table), _asked(batch)
    own = {name.lower() for name in read.rows.columns}  # what a transform adds did not grow
    grown = [name for name in batch.columns if name.lower() not in own]
    for claim in batch.claims:
        gate = counted.days.get(claim.day) or DayGate(claim.day)
        rebuilds = batch.work.mode == "rebuild"
        earlier = () if rebuilds else history.since_rebuilt_with_drops(claim.day)
        rows, quarantined = rows_in_shares(earlier, APART)
        counts = DayCounts(
            rows=gate.rows,
            quarantined=gate.quarantined,
            total_rows=gate.counted + rows,
            total_quarantined=gate.counted_quarantined + quarantined,
            measured=gate.measured,
            measured_rows=gate.measured_rows,
            trailing=RowsBefore(volume, claim.day),
            day=claim.day,
            now=batch.now,
        )
        of_rows = [
            replace(result, examples=examples_of.get((claim.day, result.rule), ()))
            for result in judge_rows(gate, batch.table.rules, counted)
        ]
        of_fields = judge_fields(gate, contract, columns, grown)
        results[claim.day] = batch.accepting(
            of_rows + of_fields + judge_day(batch.table.rules, counts), claim.day
        )
        entries.append(
            replace(
                claim,
                **_with_hint(verdict(results[claim.day]), results[claim.day]),
                rows_read=gate.rows,
                rows_quarantined=gate.quarantined,
                rows_late=gate.late,
                rows_counted=gate.counted,
                rows_counted_quarantined=gate.counted_quarantined,
                position=json.dumps({"kind": read.kind}) if read.kind else "",
            )
        )
    notes = [*not_named(counted), *in_other_case(counted, contract, grown)]
    return Outcome(entries, results, notes, counted)


def _asked(batch: Batch) -> list[str]:
    """The columns that some row of a day should have; a delete in a log may have its key alone."""
    log = batch.table.log is not None
    columns = contract_of(batch.table).columns
    return [name for name in columns if not log or name in batch.table.key]


def _with_hint(outcome: dict[str, Any], results: Sequence[RuleResult]) -> dict[str, Any]:
    """A day that is held for its rows may be held because a field has another name now."""
    missing = next((r.found for r in results if r.rule == PRESENT and not r.passed), "")
    if outcome["held_by"] and missing:
        return outcome | {"held_by": f"{outcome['held_by']} ({missing})"}
    return outcome


def with_changes(entries: Sequence[Entry], written: StagedWrite) -> list[Entry]:
    """The entries with the rows that the batch inserts, updates and deletes.

    Rows of other days are counted on the first published day.
    """
    first = next(e.day for e in entries if e.state == "committed")
    return [
        replace(
            e,
            rows_inserted=written.inserted.get(e.day, 0)
            + (written.inserted.get(None, 0) if e.day == first else 0),
            rows_updated=written.updated.get(e.day, 0)
            + (written.updated.get(None, 0) if e.day == first else 0),
            rows_deleted=written.deleted if e.day == first else 0,
        )
        for e in entries
    ]

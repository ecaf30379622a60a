"""New events of a change log: those of files, or of a Delta table's commits, not read before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType

from incremental_assets.changes.by_log import ChangeLog
from incremental_assets.changes.debezium import envelopes
from incremental_assets.changes.log_position import (
    POSITION_KINDS,
    kind_counts,
    placed,
    settle_position_kind,
)
from incremental_assets.changes.log_sequence import (
    kind_of_type,
    sequence_kind,
    sequence_number,
    settle_sequence_kind,
)
from incremental_assets.changes.operations import operation_of
from incremental_assets.changes.row_hash import payload_hash
from incremental_assets.changes.watermark import Seen, as_text, instant, instant_at, number
from incremental_assets.errors import SourceError
from incremental_assets.frames import persisted, quoted
from incremental_assets.intake.event_identity import not_yet_set_aside, with_identity
from incremental_assets.intake.found import Found, Position
from incremental_assets.intake.gate import Judged, is_good, judge, with_reasons
from incremental_assets.intake.intake import HASH, ORDER, Intake
from incremental_assets.intake.log_truncates import Truncated, truncate_values, with_truncates
from incremental_assets.intake.new_files import LogFiles, bounded, new_files
from incremental_assets.intake.rows import (
    hash_of,
    own_types,
    require_columns,
    require_no_lines,
)
from incremental_assets.intake.target import Target
from incremental_assets.lake.history import DELETED
from incremental_assets.sources.object_columns import infer_columns, with_columns_of
from incremental_assets.sources.stored import FixedSource

OPERATION = "_operation"
MOST_SHOWN = 60
_WORD = "_op_word"


@dataclass(frozen=True)
class _Events:
    """The events of a log: own columns, `_operation`, `_op_word`, the order, `_deleted`.

    `said` is what the log says of an event itself: its operation, and its place as it is written.
    """

    rows: DataFrame
    own: Mapping[str, DataType]
    kind: str | None
    said: Mapping[str, Column]
    reasons: tuple[Column, ...] = ()


@contextmanager
def new_by_log(
    session: SparkSession,
    intake: Intake,
    fixed: FixedSource,
    changes: ChangeLog,
    target: Target,
    now: datetime,
) -> Iterator[Found | None]:
    """The events of what has not been read yet; None where there are none.

    Raises SourceError for an operation that nobody knows.
    """
    column = changes.sequence or "log position"
    before = target.position(Position("change log", column))
    log = new_files(fixed, target, before, one_by_one=intake.max_records is not None)
    if log.nothing:
        yield None
        return
    log = bounded(session, log, intake.max_records)
    with _events(session, intake, changes, target, before, log) as events:
        if events is None:
            yield None
            return
        rows = events.rows.withColumns(
            {DELETED: F.col(OPERATION) == "delete", HASH: hash_of(events.own)}
        )
        is_row = F.coalesce(F.col(OPERATION) == "upsert", F.lit(False))
        rows = with_reasons(rows, (), intake.rules, _reasons(intake, events), is_row)
        rows = not_yet_set_aside(with_identity(rows, events.said), target)
        with persisted(rows) as judged_rows:
            order = judged_rows.schema[ORDER].dataType.typeName()
            place = F.unix_micros(ORDER) if order == "timestamp" else F.col(ORDER)
            unknown = F.when(_unknown(), F.coalesce(_WORD, F.lit("null")))
            values = {
                "highest": F.max(F.when(is_good(), place)),
                "deletes": F.count_if(F.col(DELETED) & is_good()),
                "unknown": F.array_compact(F.array(F.min(unknown), F.max(unknown))),
            }
            values |= truncate_values(intake, place)
            judged = judge(judged_rows, intake.name, intake.rules, values, is_row)
            _refuse_unknown(intake, changes, judged.values["unknown"])
            truncated = Truncated.of(before.state, judged.values)
            expanded = with_truncates(session, intake, target, judged_rows, truncated)
            high = _watermark(changes, before.high, judged, order, now)
            state: dict[str, Any] = {"kind": events.kind}
            state |= truncated.state
            if log.version is not None:
                state["version"] = log.version
            yield Found(
                expanded,
                events.own,
                Position("change log", column, high, state),
                judged.rows,
                judged.quarantined,
                judged.values["deletes"] + truncated.counts,
                log.files,
                judged.notes,
            )


@contextmanager
def _events(
    session: SparkSession,
    intake: Intake,
    changes: ChangeLog,
    target: Target,
    before: Position,
    log: LogFiles,
) -> Iterator[_Events | None]:
    if changes.envelope == "debezium":
        with log.payloads(session) as payloads, persisted(envelopes(payloads, intake.key)) as rows:
            yield _debezium(intake, target, before, rows)
    else:
        with log.rows(session, target.known_types()) as rows:
            text = isinstance(_type_of(rows, changes.sequence), StringType)
            # Of text only the values tell how they count: they are looked at before they are read.
            with persisted(rows) if text else nullcontext(rows) as kept:
                yield _flat(intake, changes, before, kept)


def _type_of(rows: DataFrame, column: str) -> DataType | None:
    return next((f.dataType for f in rows.schema.fields if f.name == column), None)


def _flat(intake: Intake, changes: ChangeLog, before: Position, rows: DataFrame) -> _Events | None:
    every = own_types(rows)
    if not every:
        require_no_lines(intake, rows)
        return None
    require_columns(intake, every, (changes.operation, changes.sequence, *intake.key))
    own = {n: t for n, t in every.items() if n not in (changes.operation, changes.sequence)}
    sequence, type_of = F.col(quoted(changes.sequence)), every[changes.sequence]
    if isinstance(type_of, StringType):
        kinds = rows.agg(F.collect_set(sequence_kind(sequence)).alias("found")).collect()
        found = kinds[0]["found"]
    else:
        found = [kind_of_type(type_of)]
    kind = settle_sequence_kind(found, before.state.get("kind"), changes.sequence)
    order = sequence_number(sequence, kind or "number", type_of)
    word = F.col(quoted(changes.operation)).cast("string")
    operation = operation_of(word, changes.operations)
    unreadable = F.when(
        F.col(ORDER).isNull() & F.col("_raw").isNull() & (F.col(OPERATION) != "ignore"),
        F.when(sequence.isNull(), F.lit(f"{changes.sequence}_null")).otherwise(
            F.lit(f"{changes.sequence}_unreadable")
        ),
    )
    return _Events(
        rows.withColumns({ORDER: order, OPERATION: operation, _WORD: word}),
        own,
        kind,
        {"word": word, "place": sequence},
        (unreadable,),
    )


def _debezium(intake: Intake, target: Target, before: Position, rows: DataFrame) -> _Events | None:
    found = rows.agg(*(c.alias(kind) for kind, c in kind_counts().items())).collect()[0]
    counts = {kind: found[kind] for kind in POSITION_KINDS}
    kind = settle_position_kind(counts, before.state.get("kind"), intake.name)
    in_place = placed(rows, kind)
    columns = infer_columns(in_place, "_row", target.known_types(), intake.source.path)
    if not columns and target.version is None:
        _refuse_foreign(intake, rows)
        return None  # nothing but tombstones
    typed = with_columns_of(in_place, columns)
    own = {c.name: typed.schema[c.name].dataType for c in columns}
    missing = {n: F.lit(None).cast(t) for n, t in target.known_types().items() if n not in own}
    if not columns:  # truncates, tombstones or broken lines alone
        typed, own = typed.withColumns(missing), target.known_types()
    require_columns(intake, own, intake.key)
    counts_for = F.col(OPERATION).isin("upsert", "delete", "truncate")
    return _Events(
        typed,
        own,
        kind,
        # Of one event that changes a key there are two rows.
        {
            "event": payload_hash("payload"),
            "key": payload_hash("_key"),
            "operation": F.col(OPERATION),
        },
        (
            F.when(F.col("_raw").isNull(), F.col("_reason")),
            F.when(counts_for & F.col(ORDER).isNull(), F.lit("log_position_missing")),
        ),
    )


def _refuse_foreign(intake: Intake, rows: DataFrame) -> None:
    """Raise SourceError for a log without a row in which there is something, but no event."""
    odd = rows.where(F.col("_raw").isNotNull() | F.col("_reason").isNotNull())
    found = odd.select(F.coalesce("_raw", F.to_json("payload")).alias("line"), "_reason").limit(1)
    for row in found.collect():
        raise SourceError(
            f"{intake.name}: the source {intake.source.path} holds no row of a Debezium event, but "
            f"lines such as {row['line'][:MOST_SHOWN]!r} ({row['_reason'] or 'no JSON'}). Nothing "
            "was loaded; is it a flat log (cdc_format='flat')?"
        )


def _reasons(intake: Intake, events: _Events) -> list[Column]:
    """What sets an event aside; a truncate has no key, and what is ignored needs none."""
    row = F.col(OPERATION).isin("upsert", "delete")
    keys = [
        F.when(row & F.col(quoted(name)).isNull(), F.lit(f"{name}_null")) for name in intake.key
    ]
    return [*events.reasons, *keys]


def _unknown() -> Column:
    return F.col(OPERATION).isNull() & is_good()


def _refuse_unknown(intake: Intake, changes: ChangeLog, words: Sequence[str]) -> None:
    if words:
        shown = ", ".join(repr(word[:MOST_SHOWN]) for word in sorted(set(words)))
        raise SourceError(
            f"{intake.name}: the change log {intake.source.path} has operations that nobody knows, "
            f"such as {shown} (column {changes.operation!r}). Nothing was loaded; say what they "
            "mean with operations={'word': 'upsert' | 'delete' | 'truncate' | 'ignore'}."
        )


def _watermark(changes: ChangeLog, before: str, judged: Judged, order: str, now: datetime) -> str:
    """The highest place in the log that was ever read, for people: it decides nothing."""
    found = judged.values["highest"]
    if order == "timestamp":
        top = None if found is None else instant_at(int(found))
        return as_text(changes.advanced(instant(before), Seen(top, top, judged.rows, now)))
    top_number = None if found is None else int(found)
    seen = Seen(top_number, top_number, judged.rows, now)
    return as_text(changes.advanced(number(before), seen))

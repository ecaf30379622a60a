"""The events of a log that a loader reads, as rows of columns with their log position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType

from incremental_assets.changes.debezium import UNKNOWN_OPERATION, envelopes
from incremental_assets.changes.flat_log import FlatLog
from incremental_assets.changes.lacking import Lacking
from incremental_assets.changes.log_position import (
    POSITION_KINDS,
    kind_counts,
    settle_position_kind,
    with_positions,
)
from incremental_assets.changes.log_sequence import (
    is_ordered_as,
    kind_of_type,
    sequence_kind,
    sequence_number,
    settle_sequence_kind,
)
from incremental_assets.changes.new_files import LogFiles
from incremental_assets.changes.operations import operation_of
from incremental_assets.changes.position import Position
from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.soft_deletes import deletes, is_marked
from incremental_assets.changes.source_rows import own_types, require_columns, require_no_lines
from incremental_assets.changes.unchanged import IS_WHOLE, NOTHING, marked_fields, placeholders
from incremental_assets.delta.columns import LACKS, OPERATION, ORDER, WITHIN
from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames, quoted, with_columns
from incremental_assets.row_hash import payload_hash
from incremental_assets.sources.object_columns import infer_columns, with_columns_of

MOST_SHOWN = 60
_FIELDS = "_dbz_fields"
OP_WORD = "_op_word"


@dataclass(frozen=True)
class LogEvents:
    """The events of a log: own columns, `_operation`, `_op_word`, the order, `_deleted`.

    `kind` is the kind of its positions. `stated` is what the log states of an event itself: its
    operation, and its position as it is written. With `lacking` they have `_lacks`.
    """

    rows: DataFrame
    own: Mapping[str, DataType]
    kind: str | None
    stated: Mapping[str, Column]
    reasons: tuple[Column, ...] = ()
    lacking: Lacking | None = None


def flat_events(
    request: ReadRequest, frames: Frames, changes: FlatLog, before: Position, log: LogFiles
) -> LogEvents | None:
    """The events of a flat log: rows with operation and position in columns of their own."""
    known = request.state.known_types()
    stated = (changes.deleted or changes.operation, changes.sequence)
    settled = before.state.get("kind")
    rows = _rows_in_order(log, frames, known, changes.sequence, settled)
    if not own_types(rows) and known:  # lines alone, or none: the target has the columns
        words = dict.fromkeys(stated, StringType())
        nothing = {n: F.lit(None).cast(kind) for n, kind in (known | words).items()}
        rows = rows.withColumns(nothing)
    every = own_types(rows)
    if not every:
        require_no_lines(request, rows)
        return None
    lacking = {n: t for n, t in known.items() if n in request.key and n not in every}
    if lacking:  # truncates alone have no key
        rows = rows.withColumns({n: F.lit(None).cast(kind) for n, kind in lacking.items()})
        every = own_types(rows)
    require_columns(request, every, (*stated, *request.key))
    own = every if changes.deleted else {n: t for n, t in every.items() if n not in stated}
    sequence, type_of = F.col(quoted(changes.sequence)), every[changes.sequence]
    if isinstance(type_of, StringType):
        # How texts are ordered depends on their values, so these are inspected first.
        rows = frames.cache(rows)
        kinds = rows.agg(F.collect_set(sequence_kind(sequence)).alias("found")).collect()
        found = kinds[0]["found"]
    else:
        found = [kind_of_type(type_of)]
    kind = settle_sequence_kind(found, settled, changes.sequence)
    order = sequence_number(sequence, kind or "number", type_of)
    if ORDER in request.state.columns and (not found or kind == "number"):
        order = order.try_cast(request.state.columns[ORDER])
    word = F.col(quoted(stated[0])).cast("string")
    deleted = deletes(is_marked(word)) if changes.deleted else {}
    operation = deleted.get(OPERATION, operation_of(word, changes.operations))
    within = {WITHIN: deleted[WITHIN]} if deleted else {}
    rows, of_lacking = _flat_lacking(rows, own, request, changes)
    unknown = F.when(F.col(OPERATION).isNull() & F.col("_raw").isNull(), F.lit(UNKNOWN_OPERATION))
    unreadable = F.when(
        F.col(ORDER).isNull() & F.col("_raw").isNull() & (F.col(OPERATION) != "ignore"),
        F.when(sequence.isNull(), F.lit(f"{changes.sequence}_null")).otherwise(
            F.lit(f"{changes.sequence}_unreadable")
        ),
    )
    rows = rows.withColumns({ORDER: order, **within, OPERATION: operation, OP_WORD: word})
    if of_lacking is not None:
        columns = [name for name in own if name not in request.key]
        rows = rows.withColumn(LACKS, of_lacking.lacked(columns, {}))
    return LogEvents(
        rows,
        own,
        kind,
        {"word": word, "place": sequence},  # stored names: quarantine holds their hash
        (unknown, unreadable),
        of_lacking,
    )


def _rows_in_order(
    log: LogFiles,
    frames: Frames,
    known: Mapping[str, DataType],
    sequence: str,
    settled: str | None,
) -> DataFrame:
    """The rows of a flat log, with the sequence as text where its type does not order the log.

    A source without types gives a column the type that all values of a load fit: where 3.5 is among
    whole numbers they are doubles, and as text they are what they were. Raises SourceError where
    no value orders a log for which no kind was settled.
    """
    rows = log.rows(frames, known)
    type_of = own_types(rows).get(sequence)
    if type_of is None or log.fixed.is_typed or sequence in known:
        return rows
    if is_ordered_as(type_of, settled):
        return rows
    as_text = log.rows(frames, {**known, sequence: StringType()})
    has_kind = sequence_kind(F.col(quoted(sequence))).isNotNull()
    if settled is None and not as_text.where(has_kind).take(1):
        kind_of_type(type_of)
    return as_text


def _flat_lacking(
    rows: DataFrame, own: Mapping[str, DataType], request: ReadRequest, changes: FlatLog
) -> tuple[DataFrame, Lacking | None]:
    """The rows without the texts that mark a column as unchanged, with `_lacks`."""
    if not changes.may_lack_fields:
        return rows, None
    texts = [
        name
        for name, kind in own.items()
        if isinstance(kind, StringType) and changes.placeholder and name not in request.key
    ]
    known = placeholders(changes.placeholder)
    is_marked_text = {name: F.col(quoted(name)).isin(known) for name in texts}
    names = F.array(*(F.when(is_marked_text[n], F.lit(n)) for n in texts))
    lacks = F.array_except(names, F.array(F.lit(None).cast("string")))
    no_key = {
        name: F.when(~F.col(quoted(name)).isin(known), F.col(quoted(name)))
        for name in request.key
        if changes.placeholder and isinstance(own.get(name), StringType)
    }
    rows = with_columns(rows, no_key)
    rows = rows.withColumns({LACKS: lacks if texts else F.expr(NOTHING), IS_WHOLE: F.lit(False)})
    without = {n: F.when(~F.array_contains(LACKS, n), F.col(quoted(n))) for n in texts}
    return with_columns(rows, without), Lacking(tuple(texts), changes.unchanged, changes.no_earlier)


def envelope_events(
    request: ReadRequest, frames: Frames, changes: FlatLog, before: Position, log: LogFiles
) -> LogEvents | None:
    """The events in Debezium's envelopes, with the columns that their rows have."""
    placeholder = changes.placeholder
    rows = frames.cache(envelopes(log.payloads(frames), request.key, placeholder=placeholder))
    # Of one event that changes a key there are two rows.
    stated = {
        "event": payload_hash("payload"),
        "key": payload_hash("_key"),
        "operation": F.col(OPERATION),
    }
    by_kind = (c.alias(kind) for kind, c in kind_counts().items())
    found = rows.agg(*by_kind, marked_fields(rows).alias(LACKS)).collect()[0]
    counts = {kind: found[kind] for kind in POSITION_KINDS}
    lacking = Lacking.of(changes, found[LACKS])
    kind = settle_position_kind(counts, before.state.get("kind"), request.name)
    positioned = with_positions(rows, kind)
    columns = infer_columns(positioned, "_row", request.state.known_types(), request.source.path)
    if not columns and request.state.version is None:
        _refuse_foreign(request, rows)
        return None  # nothing but tombstones
    require_columns(request, {c.name: StringType() for c in columns}, ())
    # A row may have columns of the names that the event's own parts had.
    parts = ("_raw", "_file", "_reason", OP_WORD, "_row", OPERATION, ORDER, WITHIN)
    of_lacking = (LACKS, IS_WHOLE) if lacking is not None else ()
    events = positioned.select(
        *(name for name in (*parts, *of_lacking)),
        *(c.alias(f"_dbz_{name}") for name, c in stated.items()),
        F.when(F.col("_reason").isNotNull(), F.to_json("payload")).alias("_line"),
    )
    typed = with_columns_of(events, columns)
    own = {c.name: typed.schema[c.name].dataType for c in columns}
    missing = {
        n: F.lit(None).cast(t) for n, t in request.state.known_types().items() if n not in own
    }
    if not columns:  # truncates, tombstones or broken lines alone
        typed, own = with_columns(typed, missing), request.state.known_types()
    require_columns(request, own, request.key)
    if lacking is not None:
        typed, own, lacking = _with_lacking(typed, own, request, lacking)
    counts_for = F.col(OPERATION).isin("upsert", "delete", "truncate")
    return LogEvents(
        typed,
        own,
        kind,
        {name: F.col(f"_dbz_{name}") for name in stated},
        (
            F.when(F.col("_raw").isNull(), F.col("_reason")),
            F.when(counts_for & F.col(ORDER).isNull(), F.lit("log_position_missing")),
        ),
        lacking,
    )


def _with_lacking(
    rows: DataFrame, own: Mapping[str, DataType], request: ReadRequest, lacking: Lacking
) -> tuple[DataFrame, dict[str, DataType], Lacking]:
    """The events with the columns that they lack, and their names in `_lacks` as columns have them.

    A column that none of them has a value of is the target's.
    """
    known = request.state.known_types()
    there = {name.lower() for name in own}
    lower = {name.lower() for name in lacking.marked}
    every = lacking.unchanged != "marked"
    more = {
        n: t for n, t in known.items() if n.lower() not in there and (every or n.lower() in lower)
    }
    rows = with_columns(rows, {name: F.lit(None).cast(kind) for name, kind in more.items()})
    types = {**own, **more}
    fields = F.map_keys(F.col("_row").try_cast("map<string,variant>"))
    folded = F.coalesce(F.transform(fields, F.lower), F.expr(NOTHING))
    rows = rows.withColumns({_FIELDS: folded, LACKS: F.transform(LACKS, F.lower)})
    columns = [name for name in types if name not in request.key]
    spelled = {name.lower(): name for name in (*lacking.marked, *columns)}
    lacking = replace(lacking, marked=tuple(sorted({spelled[n.lower()] for n in lacking.marked})))
    marked = F.array(*(F.when(F.array_contains(LACKS, n), F.lit(spelled[n])) for n in spelled))
    rows = rows.withColumn(LACKS, F.array_except(marked, F.array(F.lit(None).cast("string"))))
    has_field = {name: F.array_contains(_FIELDS, name.lower()) for name in columns}
    rows = rows.withColumn(LACKS, lacking.lacked(columns, has_field))
    return rows.drop(_FIELDS), types, lacking


def _refuse_foreign(request: ReadRequest, rows: DataFrame) -> None:
    """Raise SourceError for a log without a row in which there is something, but no event."""
    odd = rows.where(F.col("_raw").isNotNull() | F.col("_reason").isNotNull())
    found = odd.select(F.coalesce("_raw", F.to_json("payload")).alias("line"), "_reason").limit(1)
    for row in found.collect():
        raise SourceError(
            f"{request.name}: the source {request.source.path} holds no row of a Debezium event, "
            f"but lines such as {row['line'][:MOST_SHOWN]!r} ({row['_reason'] or 'no JSON'}). "
            "Nothing was loaded; is it a flat log (cdc_format='flat')?"
        )


def key_reasons(key: Sequence[str]) -> list[Column]:
    """The reason of an event without its key; truncates and ignored events need none."""
    row = F.col(OPERATION).isin("upsert", "delete")
    return [F.when(row & F.col(quoted(name)).isNull(), F.lit(f"{name}_null")) for name in key]

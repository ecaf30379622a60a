"""Bronze rows as a silver table's typed rows, each with the reasons against it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.bronze_events import EVENT, NO_TIME, REASON, reasons_of
from incremental_assets.changes.lacking import (
    Lacking,
)
from incremental_assets.changes.position import state_of
from incremental_assets.delta.columns import CHANGED_AT, DELETED, HASH, OPERATION, ORDER
from incremental_assets.engine.batch import Batch
from incremental_assets.engine.bronze_rows import contract_of, line_of
from incremental_assets.engine.scope import scope_of
from incremental_assets.engine.typed_lacking import (
    Lacks,
    judged_lacking,
    known_elsewhere,
    with_expected_texts,
)
from incremental_assets.frames import Frames, quoted
from incremental_assets.quality.contract import (
    FURTHER,
    PAYLOAD,
    Shape,
    known_shapes,
)
from incremental_assets.quality.fields import LONGEST_NAME
from incremental_assets.quality.reasons import prepared, with_reasons
from incremental_assets.sources.payloads import MESSAGE
from incremental_assets.table import Table

_SAMPLE, _MOST_SHAPES, _LONGEST_SHAPE = 1_000, 100, 1_000


@dataclass(frozen=True)
class Typed:
    """Typed rows, the order of their versions (the row hash last), and how a log orders its events.

    They have the table's own columns, `_payload`, `_undeclared`, `_absent`, `_landing_day`, `_day`,
    `_file`, `dt`, `_reasons` and `_line`; changes also `_operation`, `_deleted` and the columns of
    `order` but the hash. `kind` is the kind of a log's positions, and `shapes` are those that
    `_of_shape` numbers. With `lacking`, changes have `_lacks`: the columns that did not change.
    """

    rows: DataFrame
    order: tuple[str, ...] = ()
    kind: str | None = None
    shapes: tuple[Shape, ...] = ()
    lacking: Lacking | None = None


def typed(frames: Frames, landed: DataFrame, batch: Batch, *, whole: bool = False) -> Typed:
    """Type bronze rows by the contract, transform them, with the reasons why a row is quarantined.

    `landed` are the `whole` log of the rows, so that no version before them is in the table. Raises
    SourceError where positions of a log have no order between them.
    """
    table = batch.table
    if table.log is None:
        rows, shapes = _judged(landed, batch, None)
        order: tuple[str, ...] = (*table.version_by, HASH)
        if table.write.keeps_versions:
            rows = rows.withColumns({ORDER: F.col(table.version_by[0]), DELETED: F.lit(False)})
            order = (ORDER, HASH)
        return Typed(_bare(rows, F.col(PAYLOAD)), order, shapes=shapes)
    kind = _kind_before(batch)
    events = table.log.events(frames, landed, table.key, kind, table.name)
    changes = events.rows
    if table.write.by_event_time:
        no_time = F.col(OPERATION).isNotNull() & F.col(CHANGED_AT).isNull()
        why = F.when(no_time & F.col("_raw").isNull(), F.lit(NO_TIME))
        changes = changes.withColumn(REASON, F.coalesce(REASON, why))
    known = known_elsewhere(frames, batch, events, kind, whole=whole)
    rows, shapes = _judged(changes, batch, Lacks(frames, events, known))
    rows = rows.withColumn("_reasons", reasons_of(F.col("_reasons"), table.key))
    order = (*events.order, HASH)
    return Typed(_bare(rows, F.col(EVENT)), order, events.kind, shapes, events.lacking)


def _judged(
    landed: DataFrame, batch: Batch, lacks: Lacks | None
) -> tuple[DataFrame, tuple[Shape, ...]]:
    table, session = batch.table, landed.sparkSession
    lacking = lacks.events.lacking if lacks is not None else None
    sampled = _sampled_shapes(landed, batch)
    shapes = tuple(known_shapes(sampled))
    expected = contract_of(table).grown(set[str]().union(*sampled), batch.columns)
    rows = contract_of(table).apply(landed, expected, shapes)
    why = [*_time_reasons(batch), *_key_reasons(table)]
    if lacks is not None and lacking is not None:
        rows = judged_lacking(rows, batch, lacks, lacking, why)
        return rows.withColumn("dt", F.col("_day")), shapes
    if table.transform is not None:
        rows = with_expected_texts(table.transform(rows), rows)
    replaced = batch.work.mode == "rebuild"
    rows = prepared(rows, table.rules, scope_of(session, batch, "_day", replaced=replaced))
    rows = with_reasons(rows, table.rules, why)
    return rows.withColumn("dt", F.col("_day")), shapes


def _bare(rows: DataFrame, payload: Column) -> DataFrame:
    """The rows without the columns that only typing needs.

    Of good rows without the landed line, and without the payload but where a field of it may become
    a column.
    """
    is_bad = F.size("_reasons") > 0
    rows = rows.withColumns(
        {
            "_line": F.when(is_bad, line_of(payload)),
            PAYLOAD: F.when(is_bad | F.col(FURTHER), F.col(PAYLOAD)),
        }
    )
    helpers = (
        "payload",
        EVENT,
        "_raw",
        "_unreadable",
        "_batch",
        "_hash",
        "_key",
        MESSAGE,
        "_reason",
    )
    return rows.drop(*helpers, FURTHER)


def _sampled_shapes(landed: DataFrame, batch: Batch) -> list[Shape]:
    """The shapes of a few rows of a large load, the most frequent first.

    Their fields, and those of the table, are taken out of the payload with the declared ones, which
    then need not be kept, and of rows of these shapes no name is looked at. Nothing else depends on
    it.
    """
    if batch.size in ("tiny", "small"):
        return []
    names = F.map_keys(F.col("payload").try_cast("map<string,variant>")).alias("names")
    some = landed.limit(_SAMPLE).select(names).where(F.size("names") <= _LONGEST_SHAPE)
    short = ~F.exists("names", lambda name: F.length(name) > LONGEST_NAME)
    by_shape = some.where(short).groupBy("names").count().orderBy(F.desc("count"), "names")
    return [tuple(row["names"]) for row in by_shape.limit(_MOST_SHAPES).collect()]


def _kind_before(batch: Batch) -> str | None:
    """The kind of positions that earlier loads found in the log."""
    for entry in batch.view.table(batch.table.name).newest_first():
        if entry.position:
            kind: str | None = state_of(entry).get("kind")
            return kind
    return None


def _key_reasons(table: Table) -> list[Column]:
    """Why a row has no key or no day, whatever severity a rule of that name has.

    An event of a log is asked for its key by `reasons_of`, and has no day.
    """
    key = () if table.log is not None else table.key
    needed = dict.fromkeys((*key, *([table.day] if table.day else [])))
    return [F.when(F.col(quoted(n)).isNull(), F.lit(f"{n}_not_null")) for n in needed]


def _time_reasons(batch: Batch) -> list[Column]:
    """Why a row's business day does not belong to the day that judges it."""
    table = batch.table
    if table.day is None:
        return [F.lit(None).cast("string")]
    business = F.col(table.day).try_cast("date")
    early = (business > F.col("_day")) | (business > F.date_add("_landing_day", 1))
    late: Column = business < F.col("_day")
    lateness = table.allowed_lateness_in(batch.settings.allowed_lateness)
    if lateness is not None:
        late = late | (business < F.date_sub("_landing_day", lateness.days))
    is_no_day = F.col(table.day).isNotNull() & business.isNull()  # of a text
    return [
        F.when(is_no_day, F.lit(f"{table.day}_unreadable"))
        .when(business < F.lit(batch.settings.start_date), F.lit("before_start"))
        .when(late, F.lit("too_late"))
        .when(early, F.lit("too_early"))
    ]

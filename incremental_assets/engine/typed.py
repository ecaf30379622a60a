"""Bronze rows as a silver table's typed rows, each with the reasons against it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes.bronze_events import EVENT, NO_TIME, REASON, Events, reasons_of
from incremental_assets.changes.lacking import Lacking, as_they_came, with_values_to_judge
from incremental_assets.changes.position import state_of
from incremental_assets.changes.unchanged import (
    NO_EARLIER,
    NO_EARLIER_FLAG,
    NOT_TRANSFORMED,
)
from incremental_assets.days import DayRange
from incremental_assets.decodable import decodable_stored
from incremental_assets.delta.columns import CHANGED_AT, DELETED, HASH, LACKS, OPERATION, ORDER
from incremental_assets.delta.delta_table import open_table, version_of
from incremental_assets.delta.literals import sql_days
from incremental_assets.delta.read import (
    DataFile,
    data_files,
    plain_files,
    read_files,
    read_version,
)
from incremental_assets.delta.side_table import side_rows, side_table_of
from incremental_assets.engine.batch import Batch
from incremental_assets.engine.scope import scope_of
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames, quoted
from incremental_assets.quality.contract import (
    ABSENT,
    EXPECTED,
    FURTHER,
    PAYLOAD,
    Contract,
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
        return Typed(_bare(rows, F.col("payload")), order, shapes=shapes)
    kind = _kind_before(batch)
    events = table.log.events(frames, landed, table.key, kind, table.name)
    changes = events.rows
    if table.write.by_event_time:
        no_time = F.col(OPERATION).isNotNull() & F.col(CHANGED_AT).isNull()
        why = F.when(no_time & F.col("_raw").isNull(), F.lit(NO_TIME))
        changes = changes.withColumn(REASON, F.coalesce(REASON, why))
    known = None if whole or events.lacking is None else known_versions(frames, batch)
    rows, shapes = _judged(changes, batch, _Lacks(frames, events, known))
    rows = rows.withColumn("_reasons", reasons_of(F.col("_reasons"), table.key))
    order = (*events.order, HASH)
    return Typed(_bare(rows, F.col(EVENT)), order, events.kind, shapes, events.lacking)


def contract_of(table: Table) -> Contract:
    """The table's schema contract."""
    if table.schema is None:
        raise DefinitionError(f"{table.name}: a table that merges needs a schema contract.")
    return table.schema


def window_rows(session: SparkSession, batch: Batch) -> DataFrame:
    """The upstream's rows in the batch's windows."""
    by_window: dict[tuple[int, int], list[Any]] = {}
    for work in batch.work.days.values():
        window = work.windows[0]
        low = 0 if batch.work.mode == "rebuild" else window.low
        by_window.setdefault((low, window.high), []).append(work.day)
    condition = " OR ".join(
        f"(_day IN ({sql_days(days)}) AND _batch > {low} AND _batch <= {high})"
        for (low, high), days in by_window.items()
    )

    def may_be_new(file: DataFile) -> bool:
        return any(
            file.partition["_day"] in days and file.may_hold_batches(low, high)
            for (low, high), days in by_window.items()
        )

    upstream = batch.table.upstreams[0].table.name
    path = f"{batch.settings.lake}/{upstream}"
    return read_version(session, path, batch.versions[upstream], may_be_new).where(condition)


def replayed_rows(frames: Frames, batch: Batch, lines: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The upstream's rows that are some lines of the batch's days, and the lines that are there.

    `lines` have `_day`, `_landing_day`, `_file` and `row`; rows that were never read stay out.
    """
    read = {day: work.windows[0].high for day, work in batch.work.days.items()}
    where = " OR ".join(f"(_day = DATE'{day}' AND _batch <= {high})" for day, high in read.items())

    def of_these_days(file: DataFile) -> bool:
        return file.partition["_day"] in read

    path, version = _upstream(batch)
    rows = read_version(frames.session, path, version, of_these_days).where(where)
    rows = rows.withColumn("row", decodable_stored(_line(F.col("payload"))))
    same = [F.col(f"a.{n}").eqNullSafe(F.col(f"b.{n}")) for n in lines.columns]
    landed = frames.cache(rows.alias("a").join(lines.alias("b"), same, "left_semi"))
    return landed.drop("row"), landed.select(*lines.columns).distinct()


def all_rows(session: SparkSession, batch: Batch, published: Collection[date]) -> DataFrame:
    """The upstream's rows of every day of the table, as far as each day was judged.

    Days of the batch that are `published` are read up to their window, every other day up to where
    the table has published it: later rows were held, or are not judged yet.
    """
    judged = _judged_up_to(batch, published)

    def may_be_judged(file: DataFile) -> bool:
        return (file.first_batch or 0) <= judged.get(file.partition["_day"], 0)

    path, version = _upstream(batch)
    return read_version(session, path, version, may_be_judged).where(_up_to(judged))


def days_as_shown(batch: Batch, published: Collection[date]) -> list[date]:
    """Days not `published` by the batch of which bronze has rows that are not judged yet.

    The rows of a repaired file have the batch number of the repair, so bronze no longer has what
    such a day has published; only the table has it.
    """
    judged = _judged_up_to(batch, published)
    path, version = _upstream(batch)
    newer = {
        file.partition["_day"]
        for file in data_files(path, version)
        if file.may_hold_batches(judged.get(file.partition["_day"], 0), sys.maxsize)
    }
    return sorted((judged.keys() & newer) - set(published))


def _judged_up_to(batch: Batch, published: Collection[date]) -> dict[date, int]:
    upstream = batch.table.upstreams[0].table.name
    history = batch.view.table(batch.table.name)
    judged = {day: history.published_up_to(upstream, day) for day in history.last_published}
    return judged | {day: batch.work.days[day].windows[0].high for day in published}


def _upstream(batch: Batch) -> tuple[str, int]:
    """Where bronze lies, and its version that the batch reads."""
    name = batch.table.upstreams[0].table.name
    return f"{batch.settings.lake}/{name}", batch.versions[name]


def _up_to(judged: Mapping[date, int]) -> str:
    """SQL for the rows of each day up to its batch; of a day that is not named, none.

    The batches are one array, indexed by day: as many conditions as days would cost each row a
    comparison with all of them, and the planner a tree of that size.
    """
    if not judged:
        return "false"
    first = min(judged)
    batches = ",".join(str(judged.get(day, 0)) for day in DayRange(first, max(judged)))
    index = f"datediff(_day, DATE'{first}')"
    return f"_batch <= get(CAST(split('{batches}', ',') AS ARRAY<BIGINT>), {index})"


@dataclass(frozen=True)
class _Lacks:
    """Events that may lack fields which did not change, and what the table knows of their keys."""

    frames: Frames
    events: Events
    known: DataFrame | None


def _judged(
    landed: DataFrame, batch: Batch, lacks: _Lacks | None
) -> tuple[DataFrame, tuple[Shape, ...]]:
    table, session = batch.table, landed.sparkSession
    lacking = lacks.events.lacking if lacks is not None else None
    sampled = _sampled_shapes(landed, batch)
    shapes = tuple(known_shapes(sampled))
    expected = contract_of(table).grown(set[str]().union(*sampled), batch.columns)
    rows = contract_of(table).apply(landed, expected, shapes)
    why, lacked = [*_time_reasons(batch), *_key_reasons(table)], list[str]()
    if lacks is not None and lacking is not None:
        lacked = lacking.columns(list(contract_of(table).columns), table.key)
        rows = _with_lacking(rows, batch, lacks, lacking, lacked)
        why += _lacking_reasons(table, lacking)
    if table.transform is not None:
        rows = _kept(table.transform(rows), rows)
    replaced = batch.work.mode == "rebuild"
    rows = prepared(rows, table.rules, scope_of(session, batch, "_day", replaced=replaced))
    rows = with_reasons(rows, table.rules, why)
    if lacking is not None:
        rows = as_they_came(rows, lacked)
    return rows.withColumn("dt", F.col("_day")), shapes


def _with_lacking(
    rows: DataFrame,
    batch: Batch,
    lacks: _Lacks,
    lacking: Lacking,
    columns: Sequence[str],
) -> DataFrame:
    """Typed events with what they lack, and with the values by which they are judged."""
    has_field = {name: ~F.array_contains(ABSENT, name) for name in columns}
    rows = rows.withColumn(LACKS, lacking.lacked(columns, has_field))
    table, order = batch.table, (*lacks.events.order, HASH)
    return with_values_to_judge(
        lacks.frames,
        rows.withColumn(HASH, F.lit("")),
        lacks.known,
        table.key,
        order,
        columns,
        latest_alone=table.write.keeps_latest,
    )


def _lacking_reasons(table: Table, lacking: Lacking) -> list[Column]:
    """Why an event is quarantined that lacks fields.

    A transform is of rows: it would make columns of a value that is not there.
    """
    if table.transform is not None:
        return [F.when(F.size(LACKS) > 0, F.lit(NOT_TRANSFORMED))]
    if lacking.asks_for_earlier:
        return [F.when(F.col(NO_EARLIER_FLAG), F.lit(NO_EARLIER))]
    return []


def known_versions(frames: Frames, batch: Batch) -> DataFrame | None:
    """What the table and its side table know of its keys, with `_deleted`; None before there is."""
    table = plain_files(batch.path, version_of(batch.path)) if open_table(batch.path) else None
    if table is None or not table.files:
        return None
    rows = read_files(frames.session, table, table.files).withColumn(DELETED, F.lit(False))
    beside = side_rows(frames.session, side_table_of(batch.path))
    return rows if beside is None else rows.unionByName(beside, allowMissingColumns=True)


def _kept(transformed: DataFrame, before: DataFrame) -> DataFrame:
    """Transformed rows; where the transform dropped expected texts, the payload is needed."""
    if {EXPECTED, FURTHER} & set(before.columns) <= set(transformed.columns):
        return transformed
    return transformed.withColumn(FURTHER, F.lit(True))


def _line(payload: Column) -> Column:
    """The landed row as text: of a line that is not JSON, the line itself."""
    return F.coalesce(F.col("_raw"), F.to_json(payload))


def _bare(rows: DataFrame, payload: Column) -> DataFrame:
    """The rows without the columns that only typing needs.

    Of good rows without the landed line, and without the payload but where a field of it may become
    a column.
    """
    is_bad = F.size("_reasons") > 0
    rows = rows.withColumns(
        {
            "_line": F.when(is_bad, _line(payload)),
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
    """Why a row cannot be looked up by its key, whatever severity a rule of that name has.

    An event of a log is asked for its key by `reasons_of`.
    """
    key = () if table.log is not None else table.key
    return [F.when(F.col(quoted(n)).isNull(), F.lit(f"{n}_not_null")) for n in key]


def _time_reasons(batch: Batch) -> list[Column]:
    """Why a row's business day does not belong to the day that judges it."""
    table = batch.table
    if table.day is None:
        return [F.lit(None).cast("string")]
    business = F.col(table.day).cast("date")
    early = (business > F.col("_day")) | (business > F.date_add("_landing_day", 1))
    late: Column = business < F.col("_day")
    lateness = table.allowed_lateness_in(batch.settings.allowed_lateness)
    if lateness is not None:
        late = late | (business < F.date_sub("_landing_day", lateness.days))
    return [
        F.when(business < F.lit(batch.settings.start_date), F.lit("before_start"))
        .when(late, F.lit("too_late"))
        .when(early, F.lit("too_early"))
    ]

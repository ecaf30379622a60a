"""Which rows of bronze a batch of typed rows reads, and the contract that types them.

Of several bronze tables the rows are read together, each with the values that name its table.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.days import DayRange
from incremental_assets.decodable import decodable_stored
from incremental_assets.delta.literals import sql_days
from incremental_assets.delta.read import DataFile, data_files, read_version
from incremental_assets.engine.batch import Batch
from incremental_assets.errors import ConflictError, DefinitionError
from incremental_assets.frames import Frames, quoted, with_columns
from incremental_assets.ledger.entry import Window
from incremental_assets.quality.contract import Contract
from incremental_assets.table import SameDay, Table


def contract_of(table: Table) -> Contract:
    """The table's schema contract, of the fields that a landed row has."""
    if table.of_payload is None:
        raise DefinitionError(f"{table.name}: a table that merges needs a schema contract.")
    return table.of_payload


def window_rows(session: SparkSession, batch: Batch) -> DataFrame:
    """The upstream's rows in the batch's windows."""

    def of_windows(upstream: str) -> _RowsOf:
        by_window: dict[tuple[int, int], list[date]] = defaultdict(list)
        for day, window in _windows(batch, upstream):
            low = 0 if batch.work.mode == "rebuild" else window.low
            by_window[low, window.high].append(day)
        condition = " OR ".join(
            f"(_day IN ({sql_days(days)}) AND _batch > {low} AND _batch <= {high})"
            for (low, high), days in by_window.items()
        )

        def may_be_new(file: DataFile) -> bool:
            return any(
                file.partition["_day"] in days and file.may_hold_batches(low, high)
                for (low, high), days in by_window.items()
            )

        return may_be_new, condition

    return _read(session, batch, of_windows)


def replayed_rows(frames: Frames, batch: Batch, lines: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The upstream's rows that are some lines of the batch's days, and the lines that are there.

    `lines` have `_day`, `_landing_day`, `_file` and `row`; rows that were never read stay out. Of
    equal lines of a file there are as many as in `lines`: the others were published.
    """

    def as_far_as_read(upstream: str) -> _RowsOf:
        read = {day: window.high for day, window in _windows(batch, upstream)}
        where = (f"(_day = DATE'{day}' AND _batch <= {high})" for day, high in read.items())
        return lambda file: file.partition["_day"] in read, " OR ".join(where)

    rows = _read(frames.session, batch, as_far_as_read)
    rows = rows.withColumn("row", decodable_stored(line_of(F.col("payload"))))
    names = lines.columns
    times = lines.groupBy(*names).agg(F.count(F.lit(1)).alias("_of_times"))
    same = [F.col(f"a.{n}").eqNullSafe(F.col(f"b.{n}")) for n in names]
    found = rows.alias("a").join(times.alias("b"), same).select("a.*", "_of_times")
    nth = f"row_number() OVER (PARTITION BY {', '.join(map(quoted, names))} ORDER BY _batch)"
    found = found.withColumn("_of_nth", F.expr(nth)).where("_of_nth <= _of_times")
    landed = frames.cache(found.drop("_of_times", "_of_nth"))
    return landed.drop("row"), landed.select(*names).distinct()


def all_rows(session: SparkSession, batch: Batch, published: Collection[date]) -> DataFrame:
    """The upstream's rows of every day of the table, as far as each day was judged.

    Days of the batch that are `published` are read up to their window, every other day up to where
    the table has published it: later rows were held, or are not judged yet.
    """

    def as_far_as_judged(upstream: str) -> _RowsOf:
        judged = _judged_up_to(batch, upstream, published)

        def may_be_judged(file: DataFile) -> bool:
            return (file.first_batch or 0) <= judged.get(file.partition["_day"], 0)

        return may_be_judged, _up_to(judged)

    return _read(session, batch, as_far_as_judged)


def days_as_shown(batch: Batch, published: Collection[date]) -> list[date]:
    """Days not `published` by the batch of which bronze has rows that are not judged yet.

    The rows of a repaired file have the batch number of the repair, so bronze no longer has what
    such a day has published; only the table has it.
    """
    found: set[date] = set()
    for read in _loaded(batch):
        name = read.table.name
        judged = _judged_up_to(batch, name, published)
        newer = {
            file.partition["_day"]
            for file in data_files(f"{batch.settings.lake}/{name}", batch.versions[name])
            if file.may_hold_batches(judged.get(file.partition["_day"], 0), sys.maxsize)
        }
        found |= judged.keys() & newer
    return sorted(found - set(published))


_RowsOf = tuple[Callable[[DataFile], bool], str]
"""Some rows of a table: the files that may hold them, and SQL for the rows themselves."""


def _read(session: SparkSession, batch: Batch, some_of: Callable[[str], _RowsOf]) -> DataFrame:
    """Some rows of each bronze table that was ever loaded, at its version that the batch reads.

    Raises ConflictError where none is loaded any more: no plan reads it then.
    """
    if not _loaded(batch):
        names = " or ".join(read.table.name for read in batch.table.same_days)
        raise ConflictError(
            f"{batch.table.name}, batch {batch.number}: by the ledger nothing is loaded into "
            f"{names} any more (was it rebuilt meanwhile?). Nothing was published; run again."
        )
    schema, found = batch.table.schema, []
    for read in _loaded(batch):
        name = read.table.name
        may_hold, where = some_of(name)
        path = f"{batch.settings.lake}/{name}"
        rows = read_version(session, path, batch.versions[name], may_hold).where(where)
        values = {
            column: F.lit(value).cast(schema.columns[column].sql)
            for column, value in read.values.items()
            if schema is not None
        }
        if not read.table.has_landed_paths and len(batch.table.same_days) > 1:
            # The paths of a stored source are its own, and a row is found again by its file.
            values["_file"] = F.concat_ws(": ", F.lit(name), "_file")
        found.append(with_columns(rows, values))
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), found)


def _loaded(batch: Batch) -> Sequence[SameDay]:
    return [read for read in batch.table.same_days if read.table.name in batch.versions]


def _windows(batch: Batch, upstream: str) -> Iterator[tuple[date, Window]]:
    """What each day of the batch reads of an upstream."""
    for day, work in batch.work.days.items():
        found = (window for window in work.windows if window.upstream == upstream)
        yield day, next(found, Window(upstream, 0, 0))  # nothing, if it was added since


def _judged_up_to(batch: Batch, upstream: str, published: Collection[date]) -> dict[date, int]:
    history = batch.view.table(batch.table.name)
    judged = {day: history.published_up_to(upstream, day) for day in history.last_published}
    read = {day: window.high for day, window in _windows(batch, upstream)}
    return judged | {day: read[day] for day in published}


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


def line_of(payload: Column) -> Column:
    """The landed row as text: of a line that is not JSON, the line itself."""
    return F.coalesce(F.col("_raw"), F.to_json(payload))

"""Which rows of bronze a batch of typed rows reads, and the contract that types them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.days import DayRange
from incremental_assets.decodable import decodable_stored
from incremental_assets.delta.literals import sql_days
from incremental_assets.delta.read import DataFile, data_files, read_version
from incremental_assets.engine.batch import Batch
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames
from incremental_assets.quality.contract import Contract
from incremental_assets.table import Table


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
    rows = rows.withColumn("row", decodable_stored(line_of(F.col("payload"))))
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


def line_of(payload: Column) -> Column:
    """The landed row as text: of a line that is not JSON, the line itself."""
    return F.coalesce(F.col("_raw"), F.to_json(payload))

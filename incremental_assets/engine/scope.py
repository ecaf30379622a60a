"""The scope of a batch's rules: the other rows and tables that they may read."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from incremental_assets.delta.delta_table import version_of
from incremental_assets.delta.literals import sql_days
from incremental_assets.delta.read import DataFile, read_version
from incremental_assets.engine.batch import Batch
from incremental_assets.quality.rule import Scope


def scope_of(session: SparkSession, batch: Batch, day: str, *, replaced: bool) -> Scope:
    """The scope of a batch's rows; `replaced`: they replace all that their days hold."""

    def read(name: str) -> DataFrame | None:
        if not batch.view.table(name).high:
            return None
        path = f"{batch.settings.lake}/{name}"
        return read_version(session, path, version_of(path))

    def of_these_days(file: DataFile) -> bool:
        return file.partition["dt"] in batch.work.days

    def present() -> DataFrame | None:
        published = batch.view.table(batch.table.name).published_days
        if replaced or not published & set(batch.work.days):
            return None
        rows = read_version(session, batch.path, version_of(batch.path), of_these_days)
        return rows.where(f"dt IN ({sql_days(batch.work.days)})")

    return Scope(day, batch.table.key, read, present)

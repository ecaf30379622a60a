"""The lake that a command works on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING

from incremental_assets.catalog import table_named, tables, tables_named
from incremental_assets.cli.interrupts import end_quietly
from incremental_assets.cli.output import say
from incremental_assets.ledger.ledger import Ledger, ledger_path, no_lake
from incremental_assets.ledger.view import LedgerView
from incremental_assets.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from incremental_assets.lakehouse import Lakehouse
    from incremental_assets.table import Table


def house_and_table(name: str) -> tuple[Table, Lakehouse]:
    """A table of a lake, and the lake, with an embedded or remote Spark once it is needed.

    Raises LakeError where there is no lake.
    """
    house = house_of_all()
    table = table_named(house.tables, name)
    view_of(house.settings)
    return table, house


def house_of_all() -> Lakehouse:
    """The lake with all its tables."""
    from incremental_assets.lakehouse import Lakehouse

    every, settings = tables(), Settings.from_environment()
    return Lakehouse(settings, every, spark_of(settings), lambda: datetime.now(UTC), say)


def spark_of(settings: Settings) -> Callable[[], SparkSession]:
    """Starts the session at the first call. From then on Ctrl-C ends an embedded Spark."""

    @cache
    def spark() -> SparkSession:
        from incremental_assets.spark.session import start_session
        from incremental_assets.spark.start import end_java

        end_quietly(end_java)
        started: Future[SparkSession] = Future()

        def start() -> None:
            try:
                started.set_result(start_session(settings))
            except BaseException as error:  # noqa: BLE001 - a thread has nobody to raise it to
                started.set_exception(error)

        # In the main thread PySpark would answer the interrupt itself, amid a call to Java.
        Thread(target=start, daemon=True).start()
        return started.result()

    return spark


def chosen(names: Sequence[str]) -> list[Table]:
    """The tables of these names, or all. Raises DefinitionError for one that is not there."""
    return tables_named(names)


def view_of(settings: Settings) -> LedgerView:
    """The ledger of the lake as it is now. Raises LakeError where there is none, and makes none."""
    view = Ledger(ledger_path(settings.lake)).view_if_any()
    if view.version is None:
        raise no_lake(settings.lake)
    return view

"""What a command works on: the lakehouse of the environment, its ledger and its Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING

from incremental_assets.cli.interrupts import end_quietly
from incremental_assets.cli.output import log
from incremental_assets.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from incremental_assets.lakehouse import Lakehouse
    from incremental_assets.ledger.view import LedgerView
    from incremental_assets.table import Table


def tables() -> tuple[Table, ...]:
    """All tables, upstreams first. They import PySpark, so the words are checked before."""
    from incremental_assets import catalog

    return catalog.tables()


def table_named(name: str) -> Table:
    """The table of that name."""
    return tables_named((name,))[0]


def tables_named(names: Sequence[str]) -> list[Table]:
    """The tables of these names, upstreams first; all of them where none is named."""
    from incremental_assets import catalog

    return catalog.tables_named(names)


def lakehouse_and_table(name: str) -> tuple[Table, Lakehouse]:
    """A table and the lakehouse that it belongs to, which starts Spark when it first needs one.

    Raises LakeError where there is no lake.
    """
    lakehouse = open_lakehouse()
    table = table_named(name)
    ledger_view(lakehouse.settings)
    return table, lakehouse


def open_lakehouse() -> Lakehouse:
    """The lakehouse of the environment, with all its tables."""
    from incremental_assets.lakehouse import Lakehouse

    every, settings = tables(), Settings.from_environment()
    return Lakehouse(settings, every, lazy_spark(settings), lambda: datetime.now(UTC), log)


def lazy_spark(settings: Settings) -> Callable[[], SparkSession]:
    """A function that starts the session at its first call; Ctrl-C then ends an embedded Spark."""

    @cache
    def spark() -> SparkSession:
        from incremental_assets.spark.session import start_session
        from incremental_assets.spark.start import end_java

        end_quietly(end_java)
        started: Future[SparkSession] = Future()

        def start() -> None:
            try:
                started.set_result(start_session(settings))
            except BaseException as error:  # noqa: BLE001 - a thread has no caller to raise it to
                started.set_exception(error)

        # In the main thread PySpark would answer the interrupt itself, amid a call to Java.
        Thread(target=start, daemon=True).start()
        return started.result()

    return spark


def ledger_view(settings: Settings) -> LedgerView:
    """The ledger of the lake as it is now. Raises LakeError where there is none, and makes none."""
    from incremental_assets.ledger.ledger import Ledger, ledger_path, no_lake

    view = Ledger(ledger_path(settings.lake)).view_if_any()
    if view.version is None:
        raise no_lake(settings.lake)
    return view

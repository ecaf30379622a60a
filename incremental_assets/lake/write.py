"""Writing to Delta: one commit, with the batch number as its transaction.

Everything goes through the SQL and DataFrame API, so it runs on an embedded Spark, over Spark
Connect and on a cluster alike. MERGE takes its transaction from session settings, which every
later Delta write of the session would read too and then silently be skipped: they are set on a
session that belongs to the load, and unset whatever happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date

from pyspark.sql import DataFrame, SparkSession

_APP = "spark.databricks.delta.write.txnAppId"
_VERSION = "spark.databricks.delta.write.txnVersion"
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True, slots=True)
class Transaction:
    """What makes a commit happen once: who writes, the batch number, and a note for healing."""

    app_id: str
    number: int
    note: str


def append(rows: DataFrame, path: str, transaction: Transaction) -> None:
    """Add the rows; new columns are added to the table."""
    _writer(rows, transaction).mode("append").option("mergeSchema", "true").save(path)


def replace_where(rows: DataFrame, path: str, where: str, transaction: Transaction) -> None:
    """Put the rows in the place of those that meet `where`; all of `rows` must meet it."""
    (
        _writer(rows, transaction)
        .mode("overwrite")
        .option("replaceWhere", where)
        .option("mergeSchema", "true")
        .save(path)
    )


def merge(
    session: SparkSession,
    rows: DataFrame,
    path: str,
    on: str,
    newer: str,
    transaction: Transaction,
) -> None:
    """Insert rows whose key is new, and update where `newer` says that the incoming row wins.

    `on` and `newer` are SQL over `t` (the table) and `s` (the incoming rows, one per key).
    """
    rows.createOrReplaceTempView("incoming")
    with _session_transaction(session, transaction):
        session.sql(
            f"MERGE WITH SCHEMA EVOLUTION INTO delta.`{path}` AS t USING incoming AS s ON {on} "
            f"WHEN MATCHED AND {newer} THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()


def replace_keys(
    session: SparkSession,
    rows: DataFrame,
    path: str,
    on: str,
    transaction: Transaction,
) -> None:
    """Make the keys of `rows` just what `rows` says; a row whose `_gone` is true is deleted."""
    rows.createOrReplaceTempView("incoming")
    columns = [name for name in rows.columns if name != "_gone"]
    values = ", ".join(f"s.`{name}`" for name in columns)
    updates = ", ".join(f"t.`{name}` = s.`{name}`" for name in columns)
    with _session_transaction(session, transaction):
        session.sql(
            f"MERGE WITH SCHEMA EVOLUTION INTO delta.`{path}` AS t USING incoming AS s ON {on} "
            f"WHEN MATCHED AND s._gone THEN DELETE WHEN MATCHED THEN UPDATE SET {updates} "
            f"WHEN NOT MATCHED AND NOT s._gone THEN INSERT "
            f"({', '.join(f'`{name}`' for name in columns)}) VALUES ({values})"
        ).collect()


def own_session(spark: SparkSession, *, small: bool = False) -> SparkSession:
    """A session that shares nothing settable with another load: settings and views are its own.

    For a small load expressions are interpreted: compiling them takes longer than the few rows.
    """
    session: SparkSession = (
        spark.cloneSession() if hasattr(spark, "cloneSession") else spark.newSession()
    )
    if small:
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return session


def read_version(session: SparkSession, path: str, version: int) -> DataFrame:
    """A table as it was at a version: over Connect a frame is evaluated anew at each action."""
    return session.read.format("delta").option("versionAsOf", version).load(path)


def sql_days(days: Iterable[date]) -> str:
    """Days as a list of SQL literals."""
    return ", ".join(f"DATE'{day}'" for day in sorted(days))


def sql_strings(values: Sequence[str]) -> str:
    """Strings as a list of SQL literals."""
    return ", ".join("'" + v.replace("\\", "\\\\").replace("'", "\\'") + "'" for v in values)


def _writer(rows: DataFrame, transaction: Transaction):  # type: ignore[no-untyped-def]
    return (
        rows.write.format("delta")
        .option("txnAppId", transaction.app_id)
        .option("txnVersion", transaction.number)
        .option("userMetadata", transaction.note)
    )


@contextmanager
def _session_transaction(session: SparkSession, transaction: Transaction) -> Iterator[None]:
    settings = {
        _APP: transaction.app_id,
        _VERSION: str(transaction.number),
        _NOTE: transaction.note,
    }
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name in settings:
            session.conf.unset(name)

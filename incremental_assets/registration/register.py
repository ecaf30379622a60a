"""Registering the tables of a lake in the catalog that the settings name.

The catalog gets the location of each table and its description. Spark, Trino and others read
columns from the table's log, so that a column is there as soon as a load has added it. The comments
are in the log, too. Spark writes nothing into a table of the lake: it is never asked to create one,
and CREATE TABLE without columns takes the table as it is.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import SparkSession

from incremental_assets.delta.comments import Comments, missing_comments, write_comments
from incremental_assets.delta.delta_table import open_table
from incremental_assets.descriptions import column_descriptions, comment_of
from incremental_assets.errors import (
    CatalogError,
    ConflictError,
    EntryError,
    IncrementalAssetsError,
    LakeError,
    SettingsError,
)
from incremental_assets.ledger.lock import brief_lock
from incremental_assets.locations import local_path
from incremental_assets.registration.answers import ASK_AGAIN_SECONDS, Answers, answers_of
from incremental_assets.registration.entries import (
    enter,
    hint_of_settings,
    not_registered,
    require_lasting,
)
from incremental_assets.registration.statements import catalog_name, statements
from incremental_assets.repeatedly import repeatedly
from incremental_assets.settings import PREFIX, Settings
from incremental_assets.spark.failure import SPARK_ERRORS
from incremental_assets.spark.load_session import statement_session
from incremental_assets.table import Table

_SILENT_SECONDS = 30.0
_LOCK_SECONDS = 1.0  # a load takes longer, and writes the comments itself
RegistrationState = Literal["created", "was there", "not loaded yet"]


@dataclass(frozen=True, slots=True)
class Registered:
    """What was done for a table: its name in the catalog, and how many comments were written."""

    table: str
    name: str
    state: RegistrationState
    comments: int = 0


@dataclass(frozen=True, slots=True)
class Planned:
    """What would be done: the SQL, none for a table that is not loaded yet, and its comments."""

    table: str
    name: str
    sql: tuple[str, ...] = ()
    comments: int = 0


@dataclass
class Registration:
    """Registers tables; the catalog is asked once per process and table in a few minutes.

    `spark` is asked for a session only where the catalog is asked.
    """

    settings: Settings
    spark: Callable[[], SparkSession]
    log: Callable[[str], None] = lambda _: None
    now: Callable[[], float] = time.monotonic

    def register(self, table: Table) -> Registered:
        """Write the comments that the table lacks, and register it if the catalog lacks it.

        No comment is written while the table is loaded, nor in an object store, where that cannot
        be seen; the load writes them. Raises CatalogError where the catalog cannot be used, or has
        something else under the table's name; LakeError for comments that could not be written,
        after the table was registered; SettingsError where no catalog is named.
        """
        require_catalog(self.settings)
        name, comments, failed = str(catalog_name(self.settings, table)), 0, None
        if open_table(self._path(table)) is None:  # Spark would create it
            return Registered(table.name, name, "not loaded yet")
        try:
            comments = self._comments_between_loads(table)
        except (LakeError, ConflictError) as error:
            failed = error
        is_new = self._enter(table)
        if failed is not None:
            raise LakeError(f"{table.name} is registered as {name}. {failed}") from failed
        return Registered(table.name, name, "created" if is_new else "was there", comments)

    def write_comments(self, table: Table) -> None:
        """Write the comments that a loaded table lacks, under its lock; log what fails."""
        if not self.settings.catalog:
            return
        try:
            missing = _missing(self.settings, table)
            if missing:
                write_comments(self._path(table), missing)
        except Exception as error:  # noqa: BLE001 - whatever it is, the table is loaded
            self._log_failure(table, f"has not all of its comments. {error}", error)

    def after_load(self, table: Table) -> None:
        """Register a table that was just loaded, after its lock is free; log what fails.

        The load is done and stays so, however long the catalog takes. One that failed is not asked
        again for a few minutes, whatever the table of that schema.
        """
        if not self.settings.catalog:
            return
        now, answers, name = self.now(), self._answers(table), catalog_name(self.settings, table)
        if answers.has(table.name, now):
            return
        if answers.is_down(now):
            self.log(
                f"{table.name}: it is loaded, and not registered: {name.schema_sql} could not be "
                f"used less than {ASK_AGAIN_SECONDS / 60:.0f} minutes ago. Run "
                f"`incremental-assets register {table.name}`."
            )
            return
        self.log(f"{table.name}: registering as {name}")
        try:
            with repeatedly(lambda: self.log(f"{table.name}: still registering"), _SILENT_SECONDS):
                is_new = self._enter(table)
        except Exception as error:  # noqa: BLE001 - whatever it is, the table is loaded
            others = ""
            if answers.is_down(self.now()):
                minutes = f"{ASK_AGAIN_SECONDS / 60:.0f} minutes"
                others = f" This process does not ask {name.schema_sql} for {minutes}."
            self._log_failure(table, f"not registered. {error}{others}", error)
        else:
            if is_new:
                self.log(f"{table.name}: registered as {name}")

    def _enter(self, table: Table) -> bool:
        """Enter a table, unless the catalog has it; whether the entry is new."""
        answers, hint = self._answers(table), ""
        try:
            with statement_session(self.spark()) as session:
                require_lasting(session, self.settings.catalog)
                hint = hint_of_settings(session, self.settings.catalog)
                is_new = enter(session, self.settings, table)
        except EntryError:  # of this table alone
            answers.answered(self.now(), table.name)
            raise
        except LakeError:  # of its log
            raise
        except SPARK_ERRORS as error:
            answers.failed(self.now())
            raise CatalogError(not_registered(self.settings, table, error, hint)) from error
        except Exception:
            answers.failed(self.now())
            raise
        answers.answered(self.now(), table.name)
        return is_new

    def _comments_between_loads(self, table: Table) -> int:
        """Write the comments that a table lacks, unless a load of it may be in progress."""
        missing = _missing(self.settings, table)
        if not missing:
            return 0
        lake = self.settings.lake
        if local_path(lake) is None:  # no lock shows loads there, and each commit disturbs one
            self.log(f"{table.name}: no comments were written; its next load writes them")
            return 0
        with brief_lock(lake, table.name, "a registration", _LOCK_SECONDS) as is_held:
            if is_held:
                return write_comments(self._path(table), missing)
        self.log(f"{table.name}: no comments were written; the load in progress writes them")
        return 0

    def _log_failure(self, table: Table, what: str, error: Exception) -> None:
        if not isinstance(error, IncrementalAssetsError):
            self.log(f"{table.name}: {traceback.format_exc()}")
        self.log(f"{table.name}: it is loaded, and {what}")

    def _path(self, table: Table) -> str:
        return f"{self.settings.lake}/{table.name}"

    def _answers(self, table: Table) -> Answers:
        """What the schema of the table answered: rights may differ from schema to schema."""
        name = catalog_name(self.settings, table)
        return answers_of(name.schema_sql, self.settings.lake)


def planned(settings: Settings, table: Table) -> Planned:
    """What would be done to register a table that the catalog lacks. Changes nothing."""
    name = str(catalog_name(settings, table))
    missing = _missing(settings, table)
    if missing is None:
        return Planned(table.name, name)
    return Planned(table.name, name, tuple(statements(settings, table)), len(missing))


def require_catalog(settings: Settings) -> None:
    """Raise SettingsError where no catalog is named."""
    if not settings.catalog:
        raise SettingsError(
            f"{PREFIX}CATALOG is not set: name the catalog to register tables in, such as "
            "spark_catalog."
        )


def _missing(settings: Settings, table: Table) -> Comments | None:
    """What the definition of a table has and its log does not; None: there is no table."""
    found = open_table(f"{settings.lake}/{table.name}")
    if found is None:
        return None
    columns = tuple(f.name for f in found.schema().fields)
    described = column_descriptions(table, columns, settings.lake)
    wanted = Comments(
        comment_of(table.description), {name: comment_of(text) for name, text in described.items()}
    )
    return missing_comments(found, wanted)

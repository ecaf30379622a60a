"""Registering the tables of a lake in the catalog that the settings name.

The catalog gets the place of each table and its description; Spark, Trino and others read columns
from the table's log, so that a column is there as soon as a load has added it. The comments are in
the log, too. Spark writes nothing into a table of the lake: it is never asked to create one, and
CREATE TABLE without columns takes the table as it is.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Literal

from pyspark.sql import SparkSession

from incremental_assets.delta.comments import Comments, missing_comments, write_comments
from incremental_assets.delta.delta_table import open_table
from incremental_assets.descriptions import column_descriptions
from incremental_assets.errors import (
    CatalogError,
    EntryError,
    IncrementalAssetsError,
    SettingsError,
)
from incremental_assets.ledger.lock import brief_lock
from incremental_assets.registration.entries import enter, require_lasting, what_is_missing
from incremental_assets.registration.statements import catalog_name, statements
from incremental_assets.settings import PREFIX, Settings
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed
from incremental_assets.spark.load_session import own_session
from incremental_assets.table import Table

State = Literal["created", "was there", "not loaded yet"]


@dataclass(frozen=True, slots=True)
class Registered:
    """What was done for a table: its name in the catalog, and how many comments were written."""

    table: str
    name: str
    state: State
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
    """Registers tables, each of them once as long as its columns and comments stay what they are.

    `spark` is asked for a session only where the catalog has to be looked at.
    """

    settings: Settings
    spark: Callable[[], SparkSession]
    log: Callable[[str], None] = lambda _: None
    _known: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    _is_down: bool = field(default=False, repr=False)

    def register(self, table: Table, *, is_locked: bool = False) -> Registered:
        """Write the comments that the table lacks, and register it if the catalog lacks it.

        With `is_locked` the caller holds the table's lock. Raises CatalogError where the catalog
        cannot be used, or has something else under the table's name; LakeError and ConflictError
        for comments that cannot be written; SettingsError where no catalog is named.
        """
        require_catalog(self.settings)
        name = catalog_name(self.settings, table)
        found = self._commented(table, is_locked=is_locked)
        if found is None:  # Spark would create it
            return Registered(table.name, str(name), "not loaded yet")
        columns, comments = found
        if self._known.get(table.name) == columns:
            return Registered(table.name, str(name), "was there", comments)
        self._is_down, missing = True, ""  # until it has answered
        try:
            with own_session(self.spark(), "tiny") as session:
                require_lasting(session, self.settings.catalog)
                missing = what_is_missing(session, self.settings.catalog)
                created = enter(session, self.settings, table)
        except EntryError:
            self._is_down = False
            raise
        except SPARK_ERRORS as error:
            raise CatalogError(
                f"{table.name} cannot be registered as {name}: {what_failed(error)}.{missing} No "
                f"row of it is concerned. Check the catalog, {PREFIX}CATALOG and "
                f"{PREFIX}CATALOG_SCHEMA; then run `incremental-assets register {table.name}`."
            ) from error
        self._is_down, self._known[table.name] = False, columns
        return Registered(table.name, str(name), "created" if created else "was there", comments)

    def after_load(self, table: Table) -> None:
        """Register a table that was just loaded, under its lock; log what fails.

        The load is done and stays so. A catalog that failed is not asked again for other tables;
        their comments need none.
        """
        if not self.settings.catalog:
            return
        try:
            if self._is_down:
                self._commented(table, is_locked=True)
                return
            done = self.register(table, is_locked=True)
        except Exception as error:  # noqa: BLE001 - whatever it is, the table is loaded
            if not isinstance(error, IncrementalAssetsError):
                self.log(f"{table.name}: {traceback.format_exc()}")
            others = " Nor are the tables that this run loads after it." if self._is_down else ""
            self.log(f"{table.name}: it is loaded, and not registered. {error}{others}")
        else:
            if done.state == "created":
                self.log(f"{table.name}: registered as {done.name}")

    def _commented(self, table: Table, *, is_locked: bool) -> tuple[tuple[str, ...], int] | None:
        """Write the comments that a table lacks; its columns, and how many comments those were.

        None where there is no table yet.
        """
        lake = self.settings.lake
        found = open_table(f"{lake}/{table.name}")
        if found is None:
            return None
        columns = tuple(f.name for f in found.schema().fields)
        wanted = wanted_comments(self.settings, table, columns)
        if not missing_comments(found, wanted):
            return columns, 0
        # Without the lock a commit may make a load decide again; it would be right all the same.
        with nullcontext() if is_locked else brief_lock(lake, table.name, "a registration"):
            return columns, write_comments(f"{lake}/{table.name}", wanted)


def planned(settings: Settings, table: Table) -> Planned:
    """What would be done to register a table that the catalog lacks. Changes nothing."""
    name = str(catalog_name(settings, table))
    found = open_table(f"{settings.lake}/{table.name}")
    if found is None:
        return Planned(table.name, name)
    wanted = wanted_comments(settings, table, tuple(f.name for f in found.schema().fields))
    missing = missing_comments(found, wanted)
    return Planned(table.name, name, tuple(statements(settings, table)), len(missing))


def require_catalog(settings: Settings) -> None:
    """Raise SettingsError where no catalog is named."""
    if not settings.catalog:
        raise SettingsError(
            f"{PREFIX}CATALOG is not set: name the catalog to register tables in, such as "
            "spark_catalog."
        )


def wanted_comments(settings: Settings, table: Table, columns: tuple[str, ...]) -> Comments:
    """What the definition of a table says of it and of its columns."""
    return Comments(table.description, column_descriptions(table, columns, settings.lake))

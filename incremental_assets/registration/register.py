"""Registering the tables of a lake in the catalog that the settings name.

The catalog gets the place of each table and its description; Spark, Trino and others read columns
from the table's log, so that a column is there as soon as a load has added it. The comments are in
the log, too. Spark writes nothing into a table of the lake: it is never asked to create one, and
CREATE TABLE without columns takes the table as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.delta.comments import Comments, missing_comments, write_comments
from incremental_assets.delta.delta_table import open_table
from incremental_assets.descriptions import column_descriptions
from incremental_assets.errors import CatalogError, IncrementalAssetsError, SettingsError
from incremental_assets.ledger.lock import brief_lock
from incremental_assets.locations import local_path
from incremental_assets.registration.statements import CatalogName, catalog_name, statements
from incremental_assets.settings import LAYER, PREFIX, Settings
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed
from incremental_assets.spark.load_session import own_session
from incremental_assets.table import Table

_SESSION_CATALOG = "spark_catalog"
_OF_DELTA = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_DETAILS = "# Detailed Table Information"
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

    `spark` is asked for a session only where the catalog has to be looked at. `is_down` tells that
    the catalog, or Spark, failed altogether.
    """

    settings: Settings
    spark: Callable[[], SparkSession]
    log: Callable[[str], None] = lambda _: None
    _known: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    is_down: bool = False

    def register(self, table: Table, *, is_locked: bool = False) -> Registered:
        """Write the comments that the table lacks, and register it if the catalog lacks it.

        With `is_locked` the caller holds the table's lock. Raises CatalogError where the catalog
        cannot be used, or has something else under the table's name; LakeError and ConflictError
        for comments that cannot be written; SettingsError where no catalog is named.
        """
        require_catalog(self.settings)
        name = catalog_name(self.settings, table)
        path = f"{self.settings.lake}/{table.name}"
        found = open_table(path)
        if found is None:  # Spark would create it
            return Registered(table.name, str(name), "not loaded yet")
        columns = tuple(f.name for f in found.schema().fields)
        comments = self._comment(table, found, columns, is_locked=is_locked)
        if self._known.get(table.name) == columns:
            return Registered(table.name, str(name), "was there", comments)
        try:
            with own_session(self.spark(), "tiny") as session:
                self._require_lasting(session)
                created = self._entered(session, table, name, path)
        except SPARK_ERRORS as error:
            self.is_down = True
            raise CatalogError(
                f"{table.name} cannot be registered as {name}: {what_failed(error)}. No row of it "
                f"is concerned. Check the catalog, and {PREFIX}CATALOG and {PREFIX}CATALOG_SCHEMA; "
                f"then `incremental-assets register {table.name}`."
            ) from error
        self._known[table.name] = columns
        return Registered(table.name, str(name), "created" if created else "was there", comments)

    def after_load(self, table: Table) -> None:
        """Register a table that was just loaded, under its lock; log what fails.

        The load is done and stays so. After a catalog failed, it is not asked again for others.
        """
        if not self.settings.catalog or self.is_down:
            return
        try:
            done = self.register(table, is_locked=True)
        except IncrementalAssetsError as error:
            others = " Nor are the tables that this run loads after it." if self.is_down else ""
            self.log(f"{table.name}: it is loaded, and not registered. {error}{others}")
        else:
            if done.state == "created":
                self.log(f"{table.name}: registered as {done.name}")

    def _comment(
        self, table: Table, found: DeltaTable, columns: tuple[str, ...], *, is_locked: bool
    ) -> int:
        """Write the comments that the table lacks; how many those were."""
        wanted = wanted_comments(self.settings, table, columns)
        if not missing_comments(found, wanted):
            return 0
        lake = self.settings.lake
        # Without the lock a commit may make a load decide again; it would be right all the same.
        with nullcontext() if is_locked else brief_lock(lake, table.name, "a registration"):
            return write_comments(f"{lake}/{table.name}", wanted)

    def _require_lasting(self, session: SparkSession) -> None:
        """Raise CatalogError for a catalog in the memory of this process, which ends with it."""
        if self.settings.catalog != _SESSION_CATALOG or hasattr(session, "cloneSession"):
            return
        own = session.conf.get(f"spark.sql.catalog.{_SESSION_CATALOG}", _OF_DELTA)
        kept_in = session.conf.get("spark.sql.catalogImplementation", "in-memory")
        if own == _OF_DELTA and kept_in == "in-memory":
            raise CatalogError(
                f"{PREFIX}CATALOG is {_SESSION_CATALOG}, which this Spark keeps in its memory, and "
                "it ends with this process: nothing was registered. Have Spark use a metastore "
                "(spark.sql.catalogImplementation=hive and hive.metastore.uris, in the folder of "
                "SPARK_CONF_DIR), a Connect server (SPARK_REMOTE), or name another catalog."
            )

    def _entered(self, session: SparkSession, table: Table, name: CatalogName, path: str) -> bool:
        """Whether the table was not in the catalog and is now.

        Raises CatalogError where it has something else under that name.
        """
        is_new = not session.catalog.tableExists(name.sql)
        if is_new:
            schema, entry = statements(self.settings, table)
            # Who may create tables in a schema need not be allowed to create one.
            if not session.catalog.databaseExists(name.schema_sql):
                session.sql(schema).collect()
            session.sql(entry).collect()  # if another run was faster, it does nothing
        _require_same(details(session, name), table, name, path)
        return is_new


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


def details(session: SparkSession, name: CatalogName) -> Mapping[str, str]:
    """What the catalog says of a table: Type, Location, Provider and so on."""
    rows = session.sql(f"DESCRIBE TABLE EXTENDED {name.sql}").collect()
    words = [(str(row[0]), str(row[1])) for row in rows]
    first = next((at for at, (word, _) in enumerate(words) if word == _DETAILS), len(words))
    return dict(words[first + 1 :])


def _require_same(found: Mapping[str, str], table: Table, name: CatalogName, path: str) -> None:
    """Raise CatalogError where an entry of the catalog is not this table."""
    kind, at = found.get("Type", ""), found.get("Location", "")
    provider = found.get("Provider", "")
    if provider.lower() != "delta" or not at:
        what = " ".join(filter(None, (provider, kind.lower() or "table", at and f"at {at}")))
        raise CatalogError(
            f"{name} is {what}, and not the Delta table {path}: {table.name} was not registered. "
            f"Rename what is there, or set {PREFIX}CATALOG_SCHEMA to another schema, such as "
            f"retail_{LAYER}."
        )
    if _place(at) != _place(path):
        moved = (
            f" If the lake was moved, remove the old entry (DROP TABLE {name.sql}, which leaves an "
            "external table's files where they are) and register again."
        )
        raise CatalogError(
            f"{name} is {kind.lower() or 'a table'} at {at}, and {table.name} is at {path}: it was "
            f"not registered.{moved if kind.upper() == 'EXTERNAL' else ''} If that is another "
            f"lake's, set {PREFIX}CATALOG_SCHEMA to a schema of its own, such as retail_{LAYER}."
        )
    if kind.upper() == "MANAGED":
        raise CatalogError(
            f"{name} is a managed table at {at}: whoever drops it deletes the files of "
            f"{table.name}. Have its entry replaced by that of an external table, by someone who "
            "knows the catalog; do not drop it."
        )


def _place(location: str) -> str:
    """A location in one spelling: without the scheme of a disk, and one scheme for S3."""
    local = local_path(location)
    plain = str(local) if local is not None else location
    if plain.startswith("s3a://"):
        plain = "s3://" + plain.removeprefix("s3a://")
    return unquote(plain).rstrip("/")

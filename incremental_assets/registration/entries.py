"""The entries of a catalog: what it holds of a table, and entering one that it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from pyspark.sql import SparkSession

from incremental_assets.delta.delta_table import open_table
from incremental_assets.errors import CatalogError, EntryError
from incremental_assets.frames import is_remote, literal
from incremental_assets.locations import local_path
from incremental_assets.registration.statements import (
    CatalogName,
    catalog_name,
    statements,
)
from incremental_assets.settings import LAYER, PREFIX, Settings
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed
from incremental_assets.table import Table

_SESSION_CATALOG = "spark_catalog"
_OF_DELTA = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
# Plugins that keep tables of other formats in Spark's own catalog.
_WRAPPERS = (
    _OF_DELTA,
    "org.apache.iceberg.spark.SparkSessionCatalog",
    "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
)
_SCHEMES = {"s3a": "s3", "abfss": "abfs"}
_KINDS = {"VIEW": "a view", "MANAGED": "a managed table", "EXTERNAL": "an external table"}


def require_lasting(session: SparkSession, catalog: str) -> None:
    """Raise CatalogError for a catalog in the memory of this process, which ends with it."""
    if catalog != _SESSION_CATALOG or is_remote(session):
        return
    own = session.conf.get(f"spark.sql.catalog.{_SESSION_CATALOG}", _OF_DELTA)
    kept_in = session.conf.get("spark.sql.catalogImplementation", "in-memory")
    if own in _WRAPPERS and kept_in == "in-memory":
        raise CatalogError(
            f"{PREFIX}CATALOG is {_SESSION_CATALOG}, which this Spark keeps in its memory, and "
            "it ends with this process. Have Spark use a metastore "
            "(spark.sql.catalogImplementation=hive and spark.hadoop.hive.metastore.uris, in the "
            "folder of SPARK_CONF_DIR) or a Connect server (SPARK_REMOTE), or name another catalog."
        )


def hint_of_settings(session: SparkSession, catalog: str) -> str:
    """A sentence where Spark has no setting for a catalog: of some platforms it needs none."""
    setting = f"spark.sql.catalog.{catalog}"
    if catalog == _SESSION_CATALOG or session.conf.get(setting, ""):
        return ""
    return f" This Spark has no setting {setting}, by which it would know the catalog."


def not_registered(settings: Settings, table: Table, error: BaseException, hint: str) -> str:
    """The message of an error of Spark about a table's entry."""
    return (
        f"{table.name} cannot be registered as {catalog_name(settings, table)}: "
        f"{what_failed(error)}.{hint} No row of it is concerned. Check the catalog, the rights "
        f"there, {PREFIX}CATALOG and {PREFIX}CATALOG_SCHEMA; then run "
        f"`incremental-assets register {table.name}`."
    )


def enter(session: SparkSession, settings: Settings, table: Table) -> bool:
    """Enter a table of the lake, unless the catalog has it; whether the entry is new.

    The Delta table has to be there: Spark would create one. Raises EntryError where the catalog
    refuses this table or has something else under its name; errors of Spark where it does not
    answer at all.
    """
    name, path = catalog_name(settings, table), f"{settings.lake}/{table.name}"
    found = _looked_up(session, name)
    is_new = found is None
    if found is None:
        _require_seen(session, path, table, name)
        found = _created(session, settings, table)
    _require_same(found, table, name, path)
    return is_new


def _created(session: SparkSession, settings: Settings, table: Table) -> Mapping[str, str]:
    """The entry of a table that had none; another run may create it at the same time."""
    name = catalog_name(settings, table)
    schema, create = statements(settings, table)
    try:
        # Who may create tables in a schema need not be allowed to create one.
        if not session.catalog.databaseExists(name.schema_sql):
            session.sql(schema).collect()
        session.sql(create).collect()
    except SPARK_ERRORS as error:
        found = _looked_up(session, name)  # raises where the catalog has become unreachable
        if found is None:
            hint = hint_of_settings(session, settings.catalog)
            raise EntryError(not_registered(settings, table, error, hint)) from error
        return found
    found = entry(session, name)
    if found is None:
        raise EntryError(
            f"{table.name}: {name} was created, or was there, and this user cannot list it, so it "
            "is unknown whether it is this table. Get the right to list the tables of "
            f"{name.schema_sql}; then run `incremental-assets register {table.name}`."
        )
    return found


def _looked_up(session: SparkSession, name: CatalogName) -> Mapping[str, str] | None:
    """The entry of a table; None where there is none, or no schema for it."""
    return entry(session, name) if session.catalog.databaseExists(name.schema_sql) else None


def _require_seen(session: SparkSession, path: str, table: Table, name: CatalogName) -> None:
    """Raise EntryError where Spark has no, or another, table at the path: it may run elsewhere."""
    own = open_table(path)
    try:
        found = session.sql(f"DESCRIBE DETAIL delta.`{path}`").select("id").collect()
    except SPARK_ERRORS as error:
        _looked_up(session, name)  # raises where Spark or the catalog has become unreachable
        why = what_failed(error)
    else:
        if own is not None and found and found[0][0] == own.metadata().id:
            return
        why = "there is another one"
    raise EntryError(
        f"{table.name} was not registered: Spark does not find the table {path} where it runs: "
        f"{why}. Have the lake where both this process and Spark reach it under the same path, or "
        f"in an object store; then run `incremental-assets register {table.name}`."
    )


def entry(session: SparkSession, name: CatalogName) -> Mapping[str, str] | None:
    """What the catalog itself has of a table or view (Type, Location, Provider, …); None: nothing.

    DESCRIBE asks the Delta table, too, which may have moved since.
    """
    shown = session.sql(f"SHOW TABLE EXTENDED IN {name.schema_sql} LIKE {literal(name.table)}")
    is_own = f"NOT isTemporary AND lower(tableName) = {literal(name.table.lower())}"
    rows = shown.where(is_own).select("information").collect()  # temporary views are listed, too
    return parsed(rows[0][0]) if rows else None


def parsed(information: str) -> Mapping[str, str]:
    """The lines of an entry by their names.

    A comment of several lines may look like more of them. What the table is stands before it, and
    where it is after it.
    """
    lines = [line.split(": ", 1) for line in information.splitlines() if ": " in line]
    first = {name: value for name, value in reversed(lines) if name in ("Type", "Provider")}
    return {**dict(lines), **first}


def _require_same(found: Mapping[str, str], table: Table, name: CatalogName, path: str) -> None:
    """Raise EntryError where an entry of the catalog is not this table."""
    kind, at = found.get("Type", "").upper(), found.get("Location", "")
    provider = found.get("Provider", "")
    if provider.lower() != "delta" or not at:
        raise EntryError(
            f"{name} is {_KINDS.get(kind, 'a table')}{provider and f' of {provider}'}, and not the "
            f"Delta table {path}: {table.name} was not registered. Rename what is there, or set "
            f"{PREFIX}CATALOG_SCHEMA to another schema, such as retail_{LAYER}."
        )
    if not is_same_location(at, path):
        moved = (
            f" If the lake was moved, remove its old entry (DROP TABLE {name.sql}: that leaves the "
            "files of an external table where they are) and register again."
        )
        raise EntryError(
            f"{name} is {_KINDS.get(kind, 'a table')} at {at}, and {table.name} is at {path}: it "
            f"was not registered.{moved if kind == 'EXTERNAL' else ''} If that is a table of "
            f"others, set {PREFIX}CATALOG_SCHEMA to a schema of your own, such as retail_{LAYER}."
        )
    if kind == "MANAGED":
        raise EntryError(
            f"{name} is a managed table at {at}: whoever drops it deletes the files of "
            f"{table.name}. Have its entry replaced by that of an external table, by someone who "
            "knows the catalog; do not drop it."
        )


def is_same_location(in_catalog: str, ours: str) -> bool:
    """Whether a location as Spark prints it, percent-encoded, is a path or URI of the lake.

    A lake of the default host of HDFS names none; the catalog does.
    """
    (scheme, host, path), (own_scheme, own_host, own_path) = (
        _parts(unquote(in_catalog)),
        _parts(ours),
    )
    return (scheme, path) == (own_scheme, own_path) and own_host in ("", host)


def _parts(location: str) -> tuple[str, str, str]:
    """Scheme, host or bucket, and path, with one scheme for the clients of a store."""
    local = local_path(location)
    if local is not None:
        return "", "", str(local)
    scheme, _, rest = location.partition("://")  # as it is: `?` and `#` are good names of files
    host, _, path = rest.partition("/")
    return _SCHEMES.get(scheme, scheme), host, path.strip("/")

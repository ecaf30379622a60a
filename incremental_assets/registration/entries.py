"""The entries of a catalog: what it says of a table, and entering one that it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from pyspark.sql import SparkSession

from incremental_assets.errors import CatalogError, EntryError
from incremental_assets.locations import local_path
from incremental_assets.registration.statements import (
    CatalogName,
    catalog_name,
    literal,
    statements,
)
from incremental_assets.settings import LAYER, PREFIX, Settings
from incremental_assets.table import Table

_SESSION_CATALOG = "spark_catalog"
_OF_DELTA = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
_KINDS = {"VIEW": "a view", "MANAGED": "a managed table", "EXTERNAL": "an external table"}


def require_lasting(session: SparkSession, catalog: str) -> None:
    """Raise CatalogError for a catalog in the memory of this process, which ends with it."""
    if catalog != _SESSION_CATALOG or hasattr(session, "cloneSession"):
        return
    own = session.conf.get(f"spark.sql.catalog.{_SESSION_CATALOG}", _OF_DELTA)
    kept_in = session.conf.get("spark.sql.catalogImplementation", "in-memory")
    if own == _OF_DELTA and kept_in == "in-memory":
        raise CatalogError(
            f"{PREFIX}CATALOG is {_SESSION_CATALOG}, which this Spark keeps in its memory, and "
            "it ends with this process. Have Spark use a metastore (spark.sql.catalogImplementation"
            "=hive and hive.metastore.uris, in the folder of SPARK_CONF_DIR) or a Connect server "
            "(SPARK_REMOTE), or name another catalog."
        )


def what_is_missing(session: SparkSession, catalog: str) -> str:
    """A sentence where Spark has no setting for a catalog: of some platforms it needs none."""
    setting = f"spark.sql.catalog.{catalog}"
    if catalog == _SESSION_CATALOG or session.conf.get(setting, ""):
        return ""
    return f" This Spark has no setting {setting}, by which it would know the catalog."


def enter(session: SparkSession, settings: Settings, table: Table) -> bool:
    """Whether a table of the lake was not in the catalog; it is then.

    The Delta table has to be there: Spark would create one. Raises EntryError where the catalog
    has something else under its name.
    """
    name, path = catalog_name(settings, table), f"{settings.lake}/{table.name}"
    schema, create = statements(settings, table)
    has_schema = session.catalog.databaseExists(name.schema_sql)
    before = entry(session, name) if has_schema else None
    if not has_schema:  # who may create tables in one need not be allowed to create one
        session.sql(schema).collect()
    if before is None:
        session.sql(create).collect()  # if another run was faster, it does nothing
    _require_same(before or entry(session, name) or {}, table, name, path)
    return before is None


def entry(session: SparkSession, name: CatalogName) -> Mapping[str, str] | None:
    """What the catalog itself says of a table or view (Type, Location, Provider, …); None: nothing.

    DESCRIBE asks the Delta table, too, which need no longer be where the catalog says.
    """
    shown = session.sql(f"SHOW TABLE EXTENDED IN {name.schema_sql} LIKE {literal(name.table)}")
    rows = shown.select("information").collect()
    if not rows:
        return None
    return dict(line.split(": ", 1) for line in rows[0][0].splitlines() if ": " in line)


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
    if _place(at) != _place(path):
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


def _place(location: str) -> str:
    """A location in one spelling: without the scheme of a disk, and one scheme for S3."""
    local = local_path(location)
    plain = str(local) if local is not None else location
    if plain.startswith("s3a://"):
        plain = "s3://" + plain.removeprefix("s3a://")
    return unquote(plain).rstrip("/")

"""What a table is called in the catalog, and the SQL that registers it there.

Names come from settings that are checked, and are quoted; texts are literals. The table is an
external one: the catalog holds its location, and dropping it there removes no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from incremental_assets.descriptions import comment_of
from incremental_assets.frames import literal, quoted
from incremental_assets.settings import LAYER, Settings
from incremental_assets.table import Table


@dataclass(frozen=True, slots=True)
class CatalogName:
    """The name of a table in a catalog."""

    catalog: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.catalog}.{self.schema}.{self.table}"

    @property
    def schema_sql(self) -> str:
        """The schema, quoted."""
        return f"{quoted(self.catalog)}.{quoted(self.schema)}"

    @property
    def sql(self) -> str:
        """The table, quoted."""
        return f"{self.schema_sql}.{quoted(self.table)}"


def catalog_name(settings: Settings, table: Table) -> CatalogName:
    """What the table is called in the catalog of the settings.

    `silver/sales` is the table `sales` of a schema for the layer; in a schema for all layers it is
    `silver_sales`, for two layers may have a table of one name.
    """
    layer, _, name = table.name.partition("/")
    schema = settings.catalog_schema.replace(LAYER, layer)
    table_name = name if LAYER in settings.catalog_schema else f"{layer}_{name}"
    return CatalogName(settings.catalog, schema, table_name)


def statements(settings: Settings, table: Table) -> Sequence[str]:
    """The statements that register the table: of its schema, and of itself."""
    name = catalog_name(settings, table)
    comment = literal(comment_of(table.description))
    location = literal(f"{settings.lake}/{table.name}")
    return (
        f"CREATE SCHEMA IF NOT EXISTS {name.schema_sql}",
        f"CREATE TABLE IF NOT EXISTS {name.sql} USING DELTA COMMENT {comment} LOCATION {location}",
    )

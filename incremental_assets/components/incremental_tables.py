"""The tables of a lake as a component: `defs.yaml` names them and the lake."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import dagster as dg
from pydantic import Field

from incremental_assets.catalog import tables_of
from incremental_assets.components.scaffold import IncrementalTablesScaffolder
from incremental_assets.errors import SettingsError
from incremental_assets.orchestration.build import build_definitions
from incremental_assets.settings import Settings

# YAML has days of its own; as text they are checked with the other settings.
DaySetting: TypeAlias = Annotated[
    date | str | None, dg.Resolver(lambda _, given: given, model_field_type=date | str | None)
]


@dg.scaffold_with(IncrementalTablesScaffolder)
class IncrementalTables(dg.Component, dg.Model, dg.Resolvable):
    """Tables of a lake that are loaded day by day, with their checks, sensors and jobs.

    What is not given is a setting of the environment (INCREMENTAL_ASSETS_…).
    """

    tables: str | None = Field(
        None,
        description="The package whose packages bronze, silver and gold define the tables, such as "
        "shop.tables. By default the folder of this file.",
    )
    lake: str | None = Field(
        None,
        description="Where the tables are stored: a path below the project's root, an absolute "
        "one, or the URI of an object store.",
    )
    landing: str | None = Field(
        None, description="Where the feeds land, <feed>/YYYY-MM-DD/…: a path or a URI like lake."
    )
    start_date: DaySetting = Field(None, description="The first daily partition (UTC).")
    end_date: DaySetting = Field(None, description="The last day that is shown.")
    key_prefix: list[str] | None = Field(None, description="What the asset keys begin with.")
    name_prefix: str | None = Field(
        None,
        description="What the names of jobs, sensors, pools and resources begin with. By default "
        "the key prefix.",
    )
    group_name: str = Field(
        "{layer}",
        description="The group of the assets; {layer} in it is bronze, silver or gold.",
    )
    deps: dict[str, list[str]] = Field(
        {},
        description="The keys of other assets that tables are built on, by table, such as "
        "bronze/orders: [exports/orders].",
    )
    settings: dict[str, Any] = Field(
        {}, description="Any other settings, such as lateness_days: 3; see the README."
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions of the tables.

        Raises DefinitionError or SettingsError, which name the attribute or setting that is wrong.
        """
        package = self.tables or context.defs_relative_module_name(context.path)
        return build_definitions(
            tables_of(package),
            self._settings(package, context.project_root),
            key_prefix=self.key_prefix,
            name_prefix=self.name_prefix,
            group_name=self.group_name,
            deps={table: [key.split("/") for key in keys] for table, keys in self.deps.items()},
        )

    def _settings(self, package: str, root: Path) -> Settings:
        given = {
            "lake": _below(root, self.lake),
            "landing": _below(root, self.landing),
            "start_date": self.start_date,
            "end_date": self.end_date,
        }
        for name in ("tables", *given):
            if name in self.settings:
                raise SettingsError(
                    f"settings: {name} is an attribute of its own; write it once, as {name}: …, "
                    "above settings."
                )
        own = {name: value for name, value in given.items() if value is not None}
        return Settings.from_environment().replace(tables=package, **own, **self.settings)


def _below(root: Path, location: str | None) -> str | None:
    """A location as it is, but a relative path below the root and not below where Dagster runs.

    Empty text stays what it is, and is refused: the root itself is no lake.
    """
    if (
        location is None
        or not location.strip()
        or "://" in location
        or location.startswith(("file:", "~"))
    ):
        return location
    return str(root / location)

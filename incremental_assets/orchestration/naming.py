"""How Dagster names what is made of a set of tables, so that sets can be merged."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

import dagster as dg

from incremental_assets.errors import DefinitionError
from incremental_assets.settings import Settings
from incremental_assets.table import Table

_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LAYER = "{layer}"
# Dagster's jobs of the assets of a code location, which its UI and its backfills launch. Runs and
# GraphQL name them so; no public attribute distinguishes them from other jobs.
_ASSET_JOB = "__ASSET_JOB"


@dataclass(frozen=True)
class Naming:
    """The names of the assets, jobs, sensors and resources of a set of tables.

    Asset keys begin with the parts of `key_prefix`. All other names begin with `name_prefix`, which
    is the key prefix where it is None. `group_name` is the group of the assets; `{layer}` in it is
    bronze, silver or gold. Raises DefinitionError for what Dagster could not use as a name.
    """

    key_prefix: tuple[str, ...] = ()
    group_name: str = _LAYER
    name_prefix: str | None = None

    def __post_init__(self) -> None:
        for what, name in (
            *(("key_prefix", part) for part in self.key_prefix),
            *(("name_prefix", name) for name in (self.name_prefix,) if name),
            ("group_name", self.group_name.replace(_LAYER, "layer")),
        ):
            if not _PART.fullmatch(name):
                layer = f", or {_LAYER}" if what == "group_name" else ""
                raise DefinitionError(
                    f"{name!r} cannot be used in {what}: expected letters, digits and '_'{layer}, "
                    "and no digit first."
                )

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The names of the tables of the environment, which the command line uses."""
        return cls(tuple(filter(None, settings.key_prefix.split("/"))))

    def key(self, table: Table | str) -> dg.AssetKey:
        """`bronze/events`, a table or its name, is ["bronze", "events"] after the prefix."""
        name = table if isinstance(table, str) else table.name
        return dg.AssetKey([*self.key_prefix, *name.split("/")])

    def group(self, layer: str) -> str:
        return self.group_name.replace(_LAYER, layer)

    def own(self, name: str) -> str:
        """The name of a job, an op, a sensor, a schedule or a pool."""
        before = self.key_prefix if self.name_prefix is None else (self.name_prefix,)
        return "_".join([*filter(None, before), name])

    @property
    def spark(self) -> str:
        """The resource that starts Spark."""
        return self.own("incremental_assets_spark")

    @property
    def lakehouse(self) -> str:
        """The resource of the tables and settings."""
        return self.own("incremental_assets_lakehouse")

    @property
    def resources(self) -> set[str]:
        return {self.spark, self.lakehouse}

    @property
    def load_days(self) -> str:
        """The job of all tables."""
        return self.own("load_days")

    def loads(self, run: dg.DagsterRun, table: Table) -> bool:
        """Whether a run loads the table, as far as its record shows."""
        if run.asset_selection:
            return self.key(table) in run.asset_selection
        return run.job_name == self.load_days or is_asset_job(run)


# The only set of its code location: its names are those of the tables.
ALONE = Naming()


def is_asset_job(run: dg.DagsterRun) -> bool:
    """Whether a run is of Dagster's own job of every asset of a code location."""
    return run.job_name.startswith(_ASSET_JOB)

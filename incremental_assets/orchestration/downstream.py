"""What is built on the tables of a lake without being one of them, such as reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import dagster as dg

from incremental_assets.orchestration.naming import Naming
from incremental_assets.settings import Settings
from incremental_assets.table import Table


@dataclass(frozen=True)
class LakeAssets:
    """The assets of a lake's tables, as what is built on them has to know them.

    `naming` gives their keys and the names of what goes with them; `partitions` are their days.
    """

    tables: tuple[Table, ...]
    settings: Settings
    naming: Naming
    partitions: dg.PartitionsDefinition[str]


# Makes the definitions that are built on a lake; none where they need other tables.
Downstream: TypeAlias = Callable[[LakeAssets], dg.Definitions]

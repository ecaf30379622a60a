"""Incremental loading on Spark and Delta Lake under Dagster, day by day and exactly once.

What a table is written with, and what a source, a detector or a write of one's own needs, is
imported from here; each name is looked up when it is first used, so the loaders and the command
line start without Dagster.
"""

from __future__ import annotations

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from incremental_assets.as_of import join_as_of
    from incremental_assets.catalog import tables_of
    from incremental_assets.changes import (
        ChangeLog,
        Detector,
        Files,
        Offsets,
        Sequence,
        SnapshotDiff,
        Timestamp,
        Upserts,
    )
    from incremental_assets.delta.staged_write import StagedWrite
    from incremental_assets.errors import NothingThereError
    from incremental_assets.frames import Frames
    from incremental_assets.lakehouse import Lakehouse
    from incremental_assets.loaders import (
        CDCLoader,
        DeltaDiffLoader,
        SequenceBasedLoader,
        TimestampBasedLoader,
        local_session,
    )
    from incremental_assets.orchestration.build import build_definitions, code_location
    from incremental_assets.quality.contract import Contract
    from incremental_assets.quality.rules import (
        DayCounts,
        DayRule,
        RowRule,
        Verdict,
        at_least,
        between,
        check,
        distinct_count,
        fail,
        fresh,
        matches,
        no_empty_files,
        not_in_future,
        not_null,
        null_share,
        one_of,
        quarantine,
        quarantined_share,
        reconciles,
        reconciles_with,
        references,
        row_count,
        rows_delivered,
        satisfies,
        unique,
        usual_row_count,
        warn,
    )
    from incremental_assets.quality.types import Decimal, Instant, Integer, Text
    from incremental_assets.settings import Settings
    from incremental_assets.sources.csv_format import Csv
    from incremental_assets.sources.jdbc import Jdbc
    from incremental_assets.sources.kafka import Kafka
    from incremental_assets.sources.landed_files import LandedFiles
    from incremental_assets.sources.rows import all_readable
    from incremental_assets.sources.source import FixedSource, Source
    from incremental_assets.sources.source_file import SourceFile
    from incremental_assets.sources.stored import Stored
    from incremental_assets.sources.xml_documents import Xml
    from incremental_assets.table import AsOf, SameDay, Sums, Table
    from incremental_assets.writes import (
        SCD2,
        Append,
        DeleteInsert,
        Merge,
        OverwriteDays,
        RecomputeKeys,
        ReplaceDay,
        WriteStrategy,
    )
    from incremental_assets.writes.destination import ChangeSet, Destination

_MODULES = {
    "as_of": ("join_as_of",),
    "catalog": ("tables_of",),
    "changes": (
        *("ChangeLog", "Detector", "Files", "Offsets", "Sequence", "SnapshotDiff", "Timestamp"),
        "Upserts",
    ),
    "definitions": ("defs",),
    "delta.staged_write": ("StagedWrite",),
    "errors": ("NothingThereError",),
    "frames": ("Frames",),
    "writes": (
        *("Append", "DeleteInsert", "Merge", "OverwriteDays"),
        *("RecomputeKeys", "ReplaceDay", "SCD2", "WriteStrategy"),
    ),
    "lakehouse": ("Lakehouse",),
    "loaders": (
        *("CDCLoader", "DeltaDiffLoader", "SequenceBasedLoader", "TimestampBasedLoader"),
        "local_session",
    ),
    "orchestration.build": ("build_definitions", "code_location"),
    "quality.contract": ("Contract",),
    "quality.rules": (
        *("DayCounts", "DayRule", "RowRule", "Verdict"),
        *("at_least", "between", "check", "distinct_count", "fail", "fresh", "matches"),
        *("no_empty_files", "not_in_future", "not_null", "null_share", "one_of", "quarantine"),
        *("quarantined_share", "reconciles", "reconciles_with", "references", "row_count"),
        *("rows_delivered", "satisfies", "unique", "usual_row_count", "warn"),
    ),
    "quality.types": ("Decimal", "Instant", "Integer", "Text"),
    "settings": ("Settings",),
    "sources.csv_format": ("Csv",),
    "sources.jdbc": ("Jdbc",),
    "sources.kafka": ("Kafka",),
    "sources.landed_files": ("LandedFiles",),
    "sources.rows": ("all_readable",),
    "sources.source": ("FixedSource", "Source"),
    "sources.source_file": ("SourceFile",),
    "sources.stored": ("Stored",),
    "sources.xml_documents": ("Xml",),
    "table": ("AsOf", "SameDay", "Sums", "Table"),
    "writes.destination": ("ChangeSet", "Destination"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

# Without `defs`, which are of all tables: a file of a table may import what is here.
__all__ = [
    "SCD2",
    "Append",
    "AsOf",
    "CDCLoader",
    "ChangeLog",
    "ChangeSet",
    "Contract",
    "Csv",
    "DayCounts",
    "DayRule",
    "Decimal",
    "DeleteInsert",
    "DeltaDiffLoader",
    "Destination",
    "Detector",
    "Files",
    "FixedSource",
    "Frames",
    "Instant",
    "Integer",
    "Jdbc",
    "Kafka",
    "Lakehouse",
    "LandedFiles",
    "Merge",
    "NothingThereError",
    "Offsets",
    "OverwriteDays",
    "RecomputeKeys",
    "ReplaceDay",
    "RowRule",
    "SameDay",
    "Sequence",
    "SequenceBasedLoader",
    "Settings",
    "SnapshotDiff",
    "Source",
    "SourceFile",
    "StagedWrite",
    "Stored",
    "Sums",
    "Table",
    "Text",
    "Timestamp",
    "TimestampBasedLoader",
    "Upserts",
    "Verdict",
    "WriteStrategy",
    "Xml",
    "all_readable",
    "at_least",
    "between",
    "build_definitions",
    "check",
    "code_location",
    "distinct_count",
    "fail",
    "fresh",
    "join_as_of",
    "local_session",
    "matches",
    "no_empty_files",
    "not_in_future",
    "not_null",
    "null_share",
    "one_of",
    "quarantine",
    "quarantined_share",
    "reconciles",
    "reconciles_with",
    "references",
    "row_count",
    "rows_delivered",
    "satisfies",
    "tables_of",
    "unique",
    "usual_row_count",
    "warn",
]


def __getattr__(name: str) -> Any:
    """Import a name from where it is defined, once.

    `defs` are the definitions of the environment's tables. A setting that cannot be used is named
    where they are used, not by the import of the package.
    """
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "defs":
        # What is imported stays until the process ends: the collector need not look through it,
        # neither amid further imports nor at the exit, which is half a second of a run.
        gc.freeze()
    found = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    if name == "defs":
        gc.freeze()
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The names of the package, `defs` among them, which Dagster looks for in this list."""
    return sorted({*globals(), "defs"})

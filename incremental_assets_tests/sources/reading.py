"""What the tests of stored sources share: files to read, and rows to compare."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.frames import Frames
from incremental_assets.sources.source import FixedSource
from incremental_assets.sources.stored import FixedFiles, fixed_at
from incremental_assets.sources.stored_delta import FixedDelta
from incremental_assets.sources.stored_files import Format

FACTS = ("_file", "_raw", "_unreadable")


def put(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@dataclass(frozen=True)
class Table:
    """Rows that were read: own columns with their types, and each row as a mapping."""

    types: Mapping[str, str]
    rows: list[dict[str, Any]]

    @property
    def own(self) -> dict[str, str]:
        return {name: kind for name, kind in self.types.items() if name not in FACTS}

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.rows]


def fix(path: Path | str, source_format: Format | None = None) -> FixedDelta | FixedFiles:
    return fixed_at(str(path), source_format)


def read(
    spark: SparkSession,
    path: Path | FixedSource,
    known: Mapping[str, DataType] | None = None,
    only: Collection[str] | None = None,
) -> Table:
    source = fix(path) if isinstance(path, Path) else path
    with Frames.over(spark) as frames:
        rows = source.rows(frames, known or {}, only)
        types = {field.name: field.dataType.simpleString() for field in rows.schema}
        return Table(types, [row.asDict() for row in rows.collect()])


def lines(spark: SparkSession, folder: Path, *texts: str | bytes, **known: DataType) -> Table:
    """Lines of JSON, read as columns; `known` are the types of those that the target has."""
    data = b"".join((t.encode() if isinstance(t, str) else t) + b"\n" for t in texts)
    put(folder / "a.json", data)
    return read(spark, folder, known)


def payloads(
    spark: SparkSession, path: Path, only: Collection[str] | None = None
) -> list[tuple[str | None, str | None, str | None]]:
    """The payload and key as JSON, and the raw text."""
    with Frames.over(spark) as frames:
        rows = fix(path).payloads(frames, only)
        assert rows.columns == ["payload", "_key", "_raw", "_file"]
        found = rows.select(F.to_json("payload"), F.to_json("_key"), "_raw").collect()
        return [(row[0], row[1], row[2]) for row in found]

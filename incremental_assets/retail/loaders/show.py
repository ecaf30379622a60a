"""What the demo's loads did, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.table import Table
from rich.text import Text

from incremental_assets.loaders.result import LoadResult
from incremental_assets.loaders.watermarks import read_watermarks
from incremental_assets.query import query
from incremental_assets.retail.loaders.scenes import Scene, ScenePaths
from incremental_assets.screen import Screen

_COUNTS = ("read", "inserted", "updated", "deleted", "quarantined")


def show_scene(scene: Scene, paths: ScenePaths, results: Sequence[LoadResult], out: Screen) -> None:
    """A row per load, what was noted, and the rows of the target."""
    out.print(Text(f"\n{scene.table}: {scene.loader}", "bold"))
    out.print(scene.change)
    out.print(_loads(results))
    for result in results:
        for note in result.notes:
            out.print(f"  note: {note}")
    out.print(_target(scene, paths))


def show_watermarks(spark: SparkSession, watermarks: Path, out: Screen) -> None:
    """The classic table of watermarks, as `read_watermarks` gives it."""
    grid = Table(title="read_watermarks", title_justify="left", header_style="bold")
    rows = read_watermarks(spark, watermarks).selectExpr(
        "table_name",
        "watermark_value",
        "date_format(last_updated, \"yyyy-MM-dd'T'HH:mm:ss'Z'\") AS last_updated",
    )
    for name in rows.columns:
        grid.add_column(name)
    for row in rows.orderBy("table_name").collect():
        grid.add_row(*row)
    out.print()
    out.print(grid)


def _loads(results: Sequence[LoadResult]) -> Table:
    grid = Table(header_style="bold")
    grid.add_column("load")
    for name in _COUNTS:
        grid.add_column(name, justify="right")
    grid.add_column("watermark")
    grid.add_column("seconds", justify="right")
    for number, result in enumerate(results, start=1):
        before, after = _short(result.watermark_before), _short(result.watermark_after)
        counts = [str(getattr(result, f"records_{name}")) for name in _COUNTS]
        seconds = f"{result.duration_seconds:.1f}"
        grid.add_row(str(number), *counts, f"{before} → {after}", seconds)
    return grid


def _target(scene: Scene, paths: ScenePaths) -> Table:
    grid = Table(title="the target now", title_justify="left", header_style="bold")
    for name in scene.columns:
        grid.add_column(name)
    found = query(DeltaTable(str(paths.target)), ", ".join(scene.columns))
    for row in found.sort(scene.columns[0]).rows():
        grid.add_row(*map(_text, row))
    return grid


def _short(watermark: str | None) -> str:
    """A watermark without microseconds where there are none."""
    return "none" if watermark is None else watermark.replace(".000000Z", "Z")


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return "" if value is None else str(value)

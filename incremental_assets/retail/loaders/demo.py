"""`python -m incremental_assets.loaders`: the four loaders on sample data, each loaded twice.

Everything is in a temporary folder, which is removed afterwards.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pyspark.sql import SparkSession
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.loaders.result import LoadResult
from incremental_assets.loaders.session import local_session
from incremental_assets.retail.loaders.data import MOMENTS
from incremental_assets.retail.loaders.scenes import SCENES, Scene, ScenePaths
from incremental_assets.retail.loaders.show import show_scene, show_watermarks
from incremental_assets.screen import Screen, labelled, printable

_LOG = logging.getLogger("incremental_assets")
_WIDTH = 120  # where there is no terminal with a width
_LOADS = len(SCENES) * len(MOMENTS)


@dataclass(frozen=True, slots=True)
class SceneProgress:
    """Where progress goes: `begin` names a step, `log` takes a line about it, `end` counts it."""

    begin: Callable[[str], None]
    log: Callable[[str], None]
    end: Callable[[], None]


def run(spark: SparkSession, folder: Path, out: Screen) -> None:
    """Load every scene twice below `folder`, and show what happened."""
    shown: list[tuple[Scene, ScenePaths, list[LoadResult]]] = []
    with _steps(out) as steps:
        for scene in SCENES:
            paths = ScenePaths(folder, scene.table)
            shown.append((scene, paths, _play(spark, scene, paths, steps)))
    for each in shown:
        show_scene(*each, out)
    show_watermarks(spark, shown[0][1].watermarks, out)


def main(out: Screen | None = None) -> int:
    """Start Spark, run the demo in a temporary folder, clean up; the exit status."""
    out = out or Screen(width=None if sys.stdout.isatty() else _WIDTH)
    try:
        with (
            nullcontext() if out.is_terminal else _log_on_stderr(),
            tempfile.TemporaryDirectory(prefix="incremental-assets-") as name,
            _spark(Path(name) / "spark.log", out) as spark,
        ):
            run(spark, Path(name), out)
    except IncrementalAssetsError as error:
        message = " ".join(str(error).split())
        Screen(stderr=True).print(labelled("Error:", "bold red", message), soft_wrap=True)
        return 1
    return 0


def _play(
    spark: SparkSession, scene: Scene, paths: ScenePaths, steps: SceneProgress
) -> list[LoadResult]:
    results = []
    for delivery, moment in MOMENTS.items():
        steps.begin(f"{scene.table}, load {delivery}")
        scene.land(paths.source, delivery)
        results.append(scene.load(spark, paths, _always(moment), steps.log))
        steps.end()
    return results


def _always(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


@contextmanager
def _steps(out: Screen) -> Iterator[SceneProgress]:
    """A bar on a terminal, lines of the log elsewhere."""
    if not out.is_terminal:
        yield SceneProgress(_LOG.info, _LOG.info, lambda: None)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
    )
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task("", total=_LOADS)
        yield SceneProgress(
            lambda name: bar.update(task, description=name),
            bar.console.print,
            lambda: bar.advance(task),
        )


@contextmanager
def _spark(log: Path, out: Screen) -> Iterator[SparkSession]:
    """A session, stopped at the end; what the JVM prints goes to `log`."""
    _LOG.info("starting Spark")
    with out.status("Starting Spark …") if out.is_terminal else nullcontext(), _stderr_to(log):
        spark = local_session()
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """A process that is started meanwhile has `log` as its standard error, for good."""
    own = os.dup(2)
    try:
        with open(log, "wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))


@contextmanager
def _log_on_stderr() -> Iterator[None]:
    handler, level = logging.StreamHandler(), _LOG.level
    handler.setFormatter(_Lines("%(asctime)s %(message)s", "%H:%M:%S"))
    _LOG.addHandler(handler)
    _LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        _LOG.removeHandler(handler)
        _LOG.setLevel(level)

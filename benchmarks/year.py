"""Measure a first load of a year against one plain Spark job: `python -m benchmarks.year`.

    make bench-year DAYS=365

The first days of the demo's events and users. The project loads the script's five tables in one
run over the range; the job (`benchmarks.plain_year`) reads all files and writes the same tables
once. Whole processes on fresh lakes, in turns; a ratio is the median of the ratios turn by turn.
The figures go to the terminal and to `benchmarks/results/year.md`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from statistics import median

from benchmarks.big import made
from benchmarks.process import CommandError, Run, adopt_orphans
from benchmarks.quick import SCRIPT_TABLES, Bench, environment, median_ratio, selected
from benchmarks.report import Row, Table, machine, show, write
from incremental_assets.settings import PREFIX, PROJECT_ROOT, Settings

FIRST = date(2017, 1, 1)
PLAIN, PROJECT = "a plain job", "incremental_assets"
GOAL = 1.3
WHAT = ("what", "runs", "wall s", "min", "max", "processor s", "peak MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a first load of a year.")
    parser.add_argument("--days", type=int, default=365, help="from 2017-01-01 on (default 365)")
    parser.add_argument("--runs", type=int, default=2, help="turns (default 2)")
    asked = parser.parse_args()
    adopt_orphans()
    first, last = str(FIRST), str(FIRST + timedelta(days=asked.days - 1))
    with tempfile.TemporaryDirectory(prefix="bench-year-") as folder:
        bench = Bench(Path(folder), Path(folder) / "landing")
        _log(f"Landing {first} to {last} …")
        try:
            bench.land(first, last, feeds=("events", "users"))
            for turn in range(asked.runs):
                _log(f"Turn {turn + 1} of {asked.runs}")
                lakes = {PLAIN: by_job(bench), PROJECT: by_project(bench, first, last)}
        except CommandError as error:
            sys.exit(f"A measured command failed, so there is nothing to report.\n{error}")
        tables = [_figures(bench, asked.days), made(f"The sales mart of {asked.days} days", lakes)]
    show(tables)
    target = write("year", "A year", f"`make bench-year DAYS={asked.days}`", tables, machine())
    _log(f"Written to {target}")


def by_job(bench: Bench) -> Path:
    """All landed days by one job; its lake."""
    lake = bench.root / f"plain{len(bench.runs[PLAIN])}"
    jars = Settings.from_environment().cache / "jars"
    command: list[str | Path] = [sys.executable, "-m", "benchmarks.plain_year", "--jars", jars]
    command += ["--landing", bench.landing, "--lake", lake]
    bench.measure(PLAIN, command, environment() | {"PYTHONPATH": str(PROJECT_ROOT)})
    return lake


def by_project(bench: Bench, first: str, last: str) -> Path:
    """The same tables of the whole range in one run; its lake."""
    days = ("--partition-range", f"{first}...{last}")
    env = bench.materialize(PROJECT, selected(SCRIPT_TABLES), *days)
    return Path(env[f"{PREFIX}LAKE"])


def _figures(bench: Bench, days: int) -> Table:
    table = Table(
        f"The first {days} days of the demo, five tables, whole processes",
        (*WHAT, "against the job, wall", "processor", "goal of wall", "met"),
    )
    own, plain = bench.runs[PROJECT], bench.runs[PLAIN]
    wall = median_ratio([run.wall for run in own], [run.wall for run in plain])
    used = median_ratio([run.cpu for run in own], [run.cpu for run in plain])
    verdict = [f"{wall:.2f}", f"{used:.2f}", f"≤ {GOAL}", "yes" if wall <= GOAL else "no"]
    table.rows.append(Row([PLAIN, *_measured(plain)]))
    table.rows.append(Row([PROJECT, *_measured(own), *verdict]))
    return table


def _measured(runs: Sequence[Run]) -> list[str]:
    walls = [run.wall for run in runs]
    return [
        str(len(walls)),
        *(f"{of(walls):.1f}" for of in (median, min, max)),
        f"{median(run.cpu for run in runs):.1f}",
        f"{max(run.peak for run in runs):,.0f}",
    ]


def _log(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()

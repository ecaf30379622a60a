"""Measure a day and a month against the script that tutorials show: `python -m benchmarks.quick`.

Whole processes, from start to exit, each on a fresh lake and a fresh Dagster home; the contenders
take turns, and a ratio is the median of the ratios turn by turn. Nothing is asserted: the goals
stand next to the figures. The figures go to the terminal and to `benchmarks/results/quick.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import polars as pl

from benchmarks.process import CommandError, Run, adopt_orphans, run
from benchmarks.report import Row, Table, machine, show, write
from incremental_assets.orchestration.instance import CONFIG
from incremental_assets.settings import PREFIX, PROJECT_ROOT, Settings

DAY = "2017-01-05"
MONTH = ("2017-01-01", "2017-01-31")
SCRIPT_TABLES = (
    "bronze/events",
    "bronze/users",
    "silver/sales",
    "silver/users",
    "gold/sales_mart",
)
SALES_TABLES = (*SCRIPT_TABLES, "gold/daily_product_sales")
DAY_GOAL, WARM_GOAL, MONTH_GOAL = 0.50, 0.15, 3.0
BIN = Path(sys.executable).parent

SCRIPT = "the tutorial script, one day"
DAY_ALL = "one day, the tables of sales"
DAY_SAME = "one day, the script's tables"
DAY_WARM = "the same over a warm Spark Connect server (processor: client)"
DAY_EVERY = "one day, all fifteen tables"
MONTH_ALL = "a month in one run, the tables of sales"
UP_TO_DATE = "nothing to do"
SPARK = "starting Spark alone, as the project does"

_START_SPARK = (
    "from incremental_assets.settings import Settings;"
    "from incremental_assets.spark.session import start_session;"
    "start_session(Settings.from_environment()).range(1).count()"
)


@dataclass
class Bench:
    """The temporary folder of one benchmark, and what was measured so far."""

    root: Path
    landing: Path
    runs: dict[str, list[Run]] = field(default_factory=lambda: defaultdict(list))
    lakes: int = 0

    def fresh(self) -> dict[str, str]:
        """The environment of a new lake and a new Dagster home."""
        self.lakes += 1
        home = self.root / f"home{self.lakes}"
        home.mkdir()
        shutil.copy(CONFIG, home)
        lake = self.root / f"lake{self.lakes}"
        return environment() | {
            f"{PREFIX}LAKE": str(lake),
            f"{PREFIX}LANDING": str(self.landing),
            "DAGSTER_HOME": str(home),
        }

    def land(
        self, first: str, last: str, landing: Path | None = None, feeds: Sequence[str] = ()
    ) -> None:
        """Land days of the demo: these feeds, or all of them."""
        command: list[str | Path] = [BIN / "incremental-assets", "demo", "land"]
        command += ["--from", first, "--to", last, "--landing", landing or self.landing]
        command += [word for feed in feeds for word in ("--feed", feed)]
        run(command, self.fresh(), self.root)

    def measure(self, what: str, command: list[str | Path], env: dict[str, str]) -> Run:
        done = run(command, env, self.root)
        self.runs[what].append(done)
        _log(f"  {what}: {done.wall:.1f} s ({done.cpu:.1f} s of processor)")
        return done

    def walls(self, what: str) -> list[float]:
        return [each.wall for each in self.runs[what]]

    def script(self) -> Path:
        """One day by the script; its lake."""
        lake = self.root / f"script{len(self.runs[SCRIPT])}"
        jars = Settings.from_environment().cache / "jars"
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "benchmarks.tutorial_script",
            "--jars",
            jars,
        ]
        command += ["--landing", self.landing, "--lake", lake, "--day", DAY]
        self.measure(SCRIPT, command, environment() | {"PYTHONPATH": str(PROJECT_ROOT)})
        return lake

    def materialize(self, what: str, select: str, *days: str) -> dict[str, str]:
        """Materialize the selected assets on a fresh lake; its environment."""
        env = self.fresh()
        self.measure(what, materialize_command(select, *days), env)
        return env

    def warm_day(self) -> None:
        """One day over a Spark Connect server of its own, which has loaded that day once."""
        folder = self.root / f"warm{len(self.runs[DAY_WARM])}"
        command: list[str | Path] = [BIN / "incremental-assets", "connect"]
        command += [sys.executable, "-m", "benchmarks.warm_day", folder, self.landing]
        done = run(command, environment() | {"PYTHONPATH": str(PROJECT_ROOT)}, self.root)
        second = json.loads(done.lines[-1][1])
        self.runs[DAY_WARM].append(Run(second["wall"], second["cpu"], ()))
        _log(f"  {DAY_WARM}: {second['wall']:.1f} s ({second['cpu']:.1f} s of processor)")


def materialize_command(select: str, *days: str) -> list[str | Path]:
    command: list[str | Path] = [BIN / "dagster", "asset", "materialize"]
    return [*command, "-m", "incremental_assets", "--select", select, *days]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a day and a month, whole processes.")
    parser.add_argument("--runs", type=int, default=5, help="turns of a day each (default 5)")
    parser.add_argument("--month-runs", type=int, default=3, help="months (default 3)")
    asked = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="bench-quick-") as folder:
        bench = Bench(Path(folder), Path(folder) / "landing")
        try:
            tables = list(_measured(bench, asked.runs, min(asked.month_runs, asked.runs)))
        except CommandError as error:
            sys.exit(f"A measured command failed, so there is nothing to report.\n{error}")
    show(tables)
    facts = machine()
    how = "`make bench-quick`; whole processes on fresh lakes, in turns"
    target = write("quick", "Quick benchmark", how, tables, facts)
    _log(f"Written to {target}")


def _measured(bench: Bench, turns: int, months: int) -> Iterator[Table]:
    first, last = MONTH
    _log(f"Landing {first} to {last} …")
    bench.land(first, last)
    month = {}
    for turn in range(turns):
        _log(f"Turn {turn + 1} of {turns}")
        script_lake = bench.script()
        sales = selected(SALES_TABLES)
        day = bench.materialize(DAY_ALL, sales, "--partition", DAY)
        bench.materialize(DAY_SAME, selected(SCRIPT_TABLES), "--partition", DAY)
        bench.warm_day()
        bench.materialize(DAY_EVERY, "*", "--partition", DAY)
        if turn < months:
            month = bench.materialize(MONTH_ALL, sales, "--partition-range", f"{first}...{last}")
        bench.measure(SPARK, [sys.executable, "-c", _START_SPARK], environment())
    started = _nothing_to_do(bench, month or day, turns)
    yield _whole_processes(bench, started)
    yield _where_a_day_goes(bench)
    yield _what_was_made(script_lake, Path(day[f"{PREFIX}LAKE"]))


def selected(tables: Sequence[str]) -> str:
    return " or ".join(f'key:"{name}"' for name in tables)


def _nothing_to_do(bench: Bench, env: dict[str, str], turns: int) -> int:
    """Measure `run` on a lake that is up to date; how many JVMs were started in all."""
    command: list[str | Path] = [BIN / "incremental-assets", "run"]
    run(command, env, bench.root)
    shim, log = bench.root / "shim" / "bin" / "java", bench.root / "java.log"
    java = shutil.which("java", path=_java_path())
    shim.parent.mkdir(parents=True)
    shim.write_text(f'#!/bin/sh\necho "$@" >> "{log}"\nexec "{java}" "$@"\n')
    shim.chmod(0o755)
    env = env | {"PATH": f"{shim.parent}{os.pathsep}{env['PATH']}"}
    if "JAVA_HOME" in env:
        env["JAVA_HOME"] = str(shim.parent.parent)
    for _ in range(turns):
        bench.measure(UP_TO_DATE, command, env)
    return len(log.read_text().splitlines()) if log.exists() else 0


def _whole_processes(bench: Bench, started: int) -> Table:
    table = Table(
        "Whole processes: wall seconds, and the seconds of one core that they used (processor)",
        ("what", "runs", "median", "min", "max", "ratio", "goal", "met", "processor", "its ratio"),
    )
    against = {
        DAY_ALL: (SCRIPT, DAY_GOAL),
        DAY_SAME: (SCRIPT, DAY_GOAL),
        DAY_WARM: (SCRIPT, WARM_GOAL),
        MONTH_ALL: (DAY_ALL, MONTH_GOAL),
    }
    for what in (SCRIPT, DAY_ALL, DAY_SAME, DAY_WARM, DAY_EVERY, MONTH_ALL, UP_TO_DATE, SPARK):
        walls = bench.walls(what)
        if not walls:
            continue
        cells = [what, str(len(walls)), *(f"{f(walls):.1f}" for f in (median, min, max))]
        used = [each.cpu for each in bench.runs[what]]
        verdict, used_ratio = ["", "", ""], ""
        if what in against:
            other, goal = against[what]
            ratio = median_ratio(walls, bench.walls(other))
            met = "yes" if ratio <= goal else "no"
            verdict = [f"{ratio:.2f} × {other}", f"≤ {goal:.2f}", met]
            used_ratio = f"{median_ratio(used, [each.cpu for each in bench.runs[other]]):.2f}"
        elif what == UP_TO_DATE:
            verdict = [f"{started} JVMs started", "0", "no" if started else "yes"]
        table.rows.append(Row([*cells, *verdict, f"{median(used):.1f}", used_ratio]))
    return table


def median_ratio(own: list[float], others: list[float]) -> float:
    """The median of the ratios turn by turn: what else the machine does then hits both alike."""
    return median(mine / theirs for mine, theirs in zip(own, others, strict=False))


def _where_a_day_goes(bench: Bench) -> Table:
    """The last day of the tables of sales: when each table loaded, some of them at once."""
    last = bench.runs[DAY_ALL][-1]
    columns = ("what", "from second", "to second", "seconds")
    table = Table("Where a day goes (the last one, the tables of sales)", columns)
    loads = []
    for name in SALES_TABLES:
        begun = [at for at, text in last.lines if f" {name}: " in text]
        ended = (at for at, text in last.lines if f" {name}: " in text and " read, " in text)
        loads.append((begun[0], next(ended), name))
    loads.sort()
    table.add("process start to the first table's first line", 0.0, loads[0][0], loads[0][0])
    for begun, ended_at, name in loads:
        table.add(name, begun, ended_at, ended_at - begun)
    end = max(ended_at for _, ended_at, _ in loads)
    table.add("the last table's end to the exit", end, last.wall, last.wall - end)
    return table


def _what_was_made(script_lake: Path, lake: Path) -> Table:
    """Both make the mart of the same day; the script keeps negative prices."""
    table = Table(f"The sales mart of {DAY}", ("made by", "rows", "sum of total_price"))
    for who, where in (("the script", script_lake), ("incremental_assets", lake)):
        made = pl.scan_delta(str(where / "gold" / "sales_mart")).filter(
            pl.col("dt").cast(pl.String) == DAY
        )
        rows, total = made.select(pl.len(), pl.col("total_price").sum()).collect().row(0)
        table.rows.append(Row([who, str(rows), str(total)]))
    return table


def environment() -> dict[str, str]:
    """The caller's environment without what would change the measured processes."""
    ours = (PREFIX, "DAGSTER_", "SPARK_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {f"{PREFIX}CACHE": str(Settings.from_environment().cache)}


def _java_path() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin" if home else os.environ.get("PATH", os.defpath)


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

"""Measure a day of millions of rows against the same day by hand: `python -m benchmarks.big`.

    make bench-big ROWS=3000000

Whole processes on fresh lakes, in turns: the tutorial script, a careful one, and the project, each
with the same five tables of one day. Events are lines of JSON as the demo's are, made up from their
number; a row in a hundred comes twice. A further run of the project counts what Spark did for each
table. The figures go to the terminal and to `benchmarks/results/big.md`; the seconds of a million
rows and more also to `benchmarks/results/big.json`, from which `docs/pictures/speed-big.svg` is
drawn.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import polars as pl

from benchmarks.big_picture import FIGURES, PICTURE, keep
from benchmarks.process import CommandError, Run, adopt_orphans
from benchmarks.quick import DAY, SCRIPT_TABLES, Bench, environment, materialize_command, selected
from benchmarks.report import Row, Table, machine, show, write
from benchmarks.spark_work import logging_to, work_by_table
from incremental_assets.settings import PROJECT_ROOT, Settings

TUTORIAL, CAREFUL, PROJECT = "the tutorial script", "a careful script", "incremental_assets"
WITH_EVENT_LOG = "incremental_assets, with Spark's event log"
SCRIPTS = {TUTORIAL: "benchmarks.tutorial_script", CAREFUL: "benchmarks.careful_script"}
GOALS = {1_000_000: {TUTORIAL: 0.7, CAREFUL: 0.9}}
GOAL = {CAREFUL: 0.9}
USERS, PRODUCTS, STORES = 20_000, 40_000, 300
A_FILE = 250_000
_LOADED = re.compile(r"(\S+): [\d,]+ rows? read, .* ([\d.]+) s$")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a big day, whole processes.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="events (default a million)")
    parser.add_argument("--runs", type=int, default=3, help="turns (default 3)")
    asked = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="bench-big-") as folder:
        bench = Bench(Path(folder), Path(folder) / "landing")
        _log(f"Landing {asked.rows:,} events …")
        land(bench.landing, asked.rows)
        try:
            for turn in range(asked.runs):
                _log(f"Turn {turn + 1} of {asked.runs}")
                lakes = {who: by_hand(bench, who) for who in SCRIPTS}
                lakes[PROJECT] = by_project(bench)
            _log("A further run, with Spark's event log, which no ratio counts")
            work = with_event_log(bench)
        except CommandError as error:
            sys.exit(f"A measured command failed, so there is nothing to report.\n{error}")
        mart = made(f"The sales mart of {asked.rows:,} events", lakes)
        tables = [*_figures(bench, asked.rows), work, mart]
        seconds = {who: median(bench.walls(who)) for who in (*SCRIPTS, PROJECT)}
    show(tables)
    target = write("big", "A big day", f"`make bench-big ROWS={asked.rows}`", tables, machine())
    _log(f"Written to {target}")
    if keep(asked.rows, seconds):
        _log(f"Kept in {FIGURES}, drawn in {PICTURE}")


def land(landing: Path, rows: int) -> None:
    """Events of one day in files of 250,000 lines, and the users as the log's first events."""
    events = landing / "events" / DAY
    events.mkdir(parents=True)
    for part, first in enumerate(range(0, rows, A_FILE)):
        numbers = pl.int_range(first, min(first + A_FILE, rows), eager=True).alias("n")
        events_of_day(pl.DataFrame(numbers)).write_ndjson(events / f"part-{part:04}.jsonl")
    users = landing / "users" / DAY
    users.mkdir(parents=True)
    with (users / "part-0.jsonl").open("w") as file:
        file.writelines(json.dumps(_user(n)) + "\n" for n in range(USERS))


def events_of_day(numbers: pl.DataFrame) -> pl.DataFrame:
    n = pl.col("n")
    same = n - (n % 100 == 99).cast(pl.Int64)  # each hundredth line is the one before, sent again
    second = (same * 7919) % 86_400
    moment = pl.datetime(2017, 1, 5) + pl.duration(seconds=second)
    written = "%Y-%m-%dT%H:%M:%SZ"
    return numbers.select(
        order_id=pl.format("{}-{}", 31_198_570_044 + same // 5, same % 5 + 1_095_275),
        user_id=(same % USERS).cast(pl.String),
        store_id=(same % STORES).cast(pl.String),
        product_id=((same * 31) % PRODUCTS).cast(pl.String),
        basket_id=(31_198_570_044 + same // 5).cast(pl.String),
        qty=same % 5 + 1,
        unit_price=(same % 1000) / 100 + 0.5,
        retail_disc=pl.lit(0.0),
        coupon_disc=pl.lit(0.0),
        coupon_match_disc=pl.lit(0.0),
        event_ts=moment.dt.strftime(written),
        arrival_ts=(moment + pl.duration(seconds=190) + pl.duration(seconds=n - same)).dt.strftime(
            written
        ),
    )


def _user(number: int) -> dict[str, object]:
    row = {
        "user_id": str(number),
        "age": "55-64",
        "income": "Under 15K",
        "home_ownership": None,
        "marital_status": "Unmarried",
        "household_size": "1",
        "household_comp": "1 Adult No Kids",
        "kids_count": "0",
        "updated_at": "2017-01-01T00:00:00Z",
    }
    at = 1_483_228_800_000
    source = {"connector": "postgresql", "name": "shop", "ts_ms": at, "snapshot": "false"}
    source |= {"db": "shop", "schema": "public", "table": "users", "txId": number, "lsn": number}
    return {"before": None, "after": row, "source": source, "op": "c", "ts_ms": at + 400}


def by_hand(bench: Bench, who: str) -> Path:
    lake = bench.root / f"{SCRIPTS[who]}-{len(bench.runs[who])}"
    jars = Settings.from_environment().cache / "jars"
    command: list[str | Path] = [sys.executable, "-m", SCRIPTS[who], "--jars", jars]
    command += ["--landing", bench.landing, "--lake", lake, "--day", DAY]
    bench.measure(who, command, environment() | {"PYTHONPATH": str(PROJECT_ROOT)})
    return lake


def by_project(bench: Bench) -> Path:
    env = bench.materialize(PROJECT, selected(SCRIPT_TABLES), "--partition", DAY)
    return Path(env["INCREMENTAL_ASSETS_LAKE"])


def with_event_log(bench: Bench) -> Table:
    """What Spark did for each table, in a run of the project that only counts it."""
    folder = bench.root / "events-of-spark"
    env = bench.fresh() | logging_to(folder)
    command = materialize_command(selected(SCRIPT_TABLES), "--partition", DAY)
    started = time.time()
    done = bench.measure(WITH_EVENT_LOG, command, env)
    found = ((started + at, _LOADED.search(line)) for at, line in done.lines)
    return work_by_table(folder, [(at, match[1]) for at, match in found if match])


def _figures(bench: Bench, rows: int) -> list[Table]:
    title = f"{rows:,} events in a day, five tables, whole processes"
    columns = ("what", "wall s", "min", "max", "processor s", "rows/s", "peak MiB")
    table = Table(title, (*columns, *(f"against {who}" for who in SCRIPTS)))
    for who in (*SCRIPTS, PROJECT):
        runs = bench.runs[who]
        walls = [run.wall for run in runs]
        ratios = [_ratio(runs, bench.runs[other]) for other in SCRIPTS if who == PROJECT]
        table.rows.append(
            Row(
                [
                    who,
                    *(f"{of(walls):.1f}" for of in (median, min, max)),
                    f"{median(run.cpu for run in runs):.1f}",
                    f"{rows / median(walls):,.0f}",
                    f"{max(run.peak for run in runs):,.0f}",
                    *(f"{ratio:.2f}" for ratio in ratios),
                ]
            )
        )
    goals = GOALS.get(rows, GOAL)
    wanted = [f"≤ {goals[who]}" if who in goals else "" for who in SCRIPTS]
    table.rows.append(Row(["goal", *[""] * (len(columns) - 1), *wanted]))
    steps = Table("Where the last one's time went", ("table", "s"))
    for _, line in bench.runs[PROJECT][-1].lines:
        if found := _LOADED.search(line):
            steps.rows.append(Row([found[1], found[2]]))
    return [table, steps]


def _ratio(own: Sequence[Run], others: Sequence[Run]) -> float:
    """The median of the ratios turn by turn."""
    return median(mine.wall / theirs.wall for mine, theirs in zip(own, others, strict=True))


def made(title: str, lakes: Mapping[str, Path]) -> Table:
    """All make the same mart."""
    table = Table(title, ("made by", "rows", "sum of total_price"))
    for who, lake in lakes.items():
        mart = pl.scan_delta(str(lake / "gold" / "sales_mart"))
        count, total = mart.select(pl.len(), pl.col("total_price").sum()).collect().row(0)
        table.rows.append(Row([who, f"{count:,}", str(total)]))
    return table


def _log(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()

"""Measure the ticks of the sensors over a long landing: `python -m benchmarks.ticks`.

A feed of many small files in ten years of day folders, all of them loaded, and the days of all
tables built on it. A tick is called as the code server calls it, in one process; what a daemon and
a code server add for the call itself is not in the figures. Nothing is asserted: the goal stands
next to the figures; the CPU time of the process is what another load of the machine changes least.
They go to the terminal and to `benchmarks/results/ticks.md`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import median

import dagster as dg
from deltalake import write_deltalake

from benchmarks.report import Row, Table, machine, show, write
from incremental_assets.catalog import tables
from incremental_assets.days import ONE_DAY, chunks
from incremental_assets.ledger.entry import Entry, FileEntry, Touched, Window, to_frame
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.load_days import load_days_job
from incremental_assets.orchestration.sensors import stale_days_sensors
from incremental_assets.orchestration.source_sensors import source_sensors
from incremental_assets.plan.batches import DAYS_PER_BATCH
from incremental_assets.settings import Settings
from incremental_assets.table import Table as LakeTable

FEED, EVENTS = "events", "bronze/events"
GOAL_SECONDS = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the ticks of the sensors.")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--days", type=int, default=3_650)
    parser.add_argument("--ticks", type=int, default=15, help="later ticks (default 15)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-ticks-") as folder:
        first = datetime.now(UTC).date() - asked.days * ONE_DAY
        days = [first + number * ONE_DAY for number in range(asked.days)]
        settings = Settings.from_environment().replace(
            lake=f"{folder}/lake",
            landing=f"{folder}/landing",
            start_date=first,
        )
        _log(f"{asked.files} files in {asked.days} day folders …")
        _land(Path(settings.landing), days, asked.files)
        _write_ledger(settings, days)
        table = _measured(settings, days[-1], asked.files, asked.days, asked.ticks)
    show([table])
    _log(f"Written to {write('ticks', 'Ticks', '`make bench-ticks`', [table], machine())}")


def _land(landing: Path, days: Sequence[date], files: int) -> None:
    for number, day in enumerate(days):
        folder = landing / FEED / str(day)
        folder.mkdir(parents=True)
        for file in range(files // len(days) + (number < files % len(days))):
            (folder / f"part-{file:05d}.jsonl").write_text("{}\n")


def _write_ledger(settings: Settings, days: Sequence[date]) -> None:
    """Every day of every table loaded once, the files of the feed as they lie there."""
    path = ledger_path(settings.lake)
    Ledger(path).view()
    for table in tables():
        batches = enumerate(chunks(days, DAYS_PER_BATCH), start=1)
        entries = [e for number, some in batches for e in _batch(table, number, some, settings)]
        write_deltalake(path, to_frame(entries), mode="append")


def _batch(
    table: LakeTable, number: int, days: Sequence[date], settings: Settings
) -> Iterator[Entry]:
    for day in days:
        entry = _entry(table, number, day, settings)
        yield replace(entry, state="claimed", touched=())
        yield entry


def _entry(table: LakeTable, number: int, day: date, settings: Settings) -> Entry:
    return Entry(
        table=table.name,
        batch=number,
        day=day,
        state="committed",
        kind="advance",
        mode="append",
        detector="files",
        recorded_at=datetime.now(UTC),
        windows=tuple(Window(read.table.name, 0, 1_000) for read in table.upstreams),
        files=tuple(_files(settings, day)) if table.name == EVENTS else (),
        touched=(Touched(day, 27),),
        affects=(),
        rows_counted=27,
        seconds=1.0,
    )


def _files(settings: Settings, day: date) -> Iterator[FileEntry]:
    for file in sorted((Path(settings.landing) / FEED / str(day)).iterdir()):
        stat = file.stat()
        path = f"{FEED}/{day}/{file.name}"
        yield FileEntry(path, stat.st_size, f"{hash(path):032x}", str(stat.st_mtime_ns))


def _measured(settings: Settings, last: date, files: int, days: int, ticks: int) -> Table:
    table = Table(
        f"{files:,} files in {days:,} day folders, all loaded; seconds",
        ("a tick", "median", "slowest", "CPU, median", "goal", "met"),
    )
    job = load_days_job(tables(), executor_for(settings))
    made = [
        *source_sensors(tables(), settings, job),
        *stale_days_sensors(tables(), settings, job),
    ]
    sensors = {sensor.name: sensor for sensor in made}
    ledger, by_name = Ledger(ledger_path(settings.lake)), {t.name: t for t in tables()}
    with dg.DagsterInstance.ephemeral() as instance:
        for name in ("new_in_events", "stale_days"):

            def tick(sensor: dg.SensorDefinition = sensors[name]) -> tuple[float, float]:
                started, worked = time.perf_counter(), time.process_time()
                sensor(dg.build_sensor_context(instance=instance))
                return time.perf_counter() - started, time.process_time() - worked

            # The sensors of a code server share what they have read; the first one reads it.
            _row(table, f"{name}, the first one", [tick()])
            _row(
                table, f"{name}, later, nothing to find", [tick() for _ in range(ticks)], goal=True
            )
            after = []
            for number in range(5):
                users = _entry(by_name["bronze/users"], 1_000 + number, last, settings)
                _append(ledger, replace(users, touched=()))
                after.append(tick())
            _row(table, f"{name}, after another table was loaded", after, goal=True)
            if name == "new_in_events":
                (Path(settings.landing) / FEED / str(last) / "new.jsonl").write_text("{}\n")
                _row(table, f"{name}, one new file", [tick() for _ in range(5)])
                _append(ledger, _entry(by_name[EVENTS], 2_000, last, settings))
                _row(table, f"{name}, after it was loaded", [tick()])
    return table


def _append(ledger: Ledger, entry: Entry) -> None:
    ledger.transact_on(entry.table, lambda _: [entry])


def _row(
    table: Table, what: str, took: Sequence[tuple[float, float]], *, goal: bool = False
) -> None:
    middle, slowest = median(wall for wall, _ in took), max(wall for wall, _ in took)
    cells = [what, f"{middle:.2f}", f"{slowest:.2f}", f"{median(cpu for _, cpu in took):.2f}"]
    if goal:
        cells += [f"< {GOAL_SECONDS:.0f}", "yes" if middle < GOAL_SECONDS else "no"]
    table.rows.append(Row(cells))
    _log("  " + " | ".join(cells))


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

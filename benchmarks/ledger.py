"""Measure the ledger after many batches: `python -m benchmarks.ledger`.

A table loaded every quarter of an hour and two daily ones below it, each batch claimed and then
committed. Most of it is written in large commits, because a hundred thousand batches one by one
take an hour or two; the last ones go through the ledger itself, and `--appended` says how many.
Nothing is asserted: the goals stand next to the figures. The figures go to the terminal and to
`benchmarks/results/ledger.md`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from deltalake import DeltaTable, write_deltalake

from benchmarks.report import Row, Table, machine, show, write
from incremental_assets.ledger.entry import Entry, Touched, Window, to_frame
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.watermarks import watermark_rows

BRONZE, SILVER, GOLD = "bronze/orders", "silver/orders", "gold/orders"
FIRST = datetime(2017, 1, 1, tzinfo=UTC)
A_DAY = 96
GOAL_MS = 50.0
LOOKS = 200

_FIRST_LOOK = """
import sys, time
from incremental_assets.ledger.ledger import Ledger
started = time.perf_counter()
Ledger(sys.argv[1]).tail(sys.argv[2])
print(time.perf_counter() - started)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the ledger after many batches.")
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--appended", type=int, default=2_000, help="one by one (default 2000)")
    parser.add_argument("--keep", type=Path, help="make the ledger here, and leave it there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-ledger-") as folder:
        path = str(asked.keep or Path(folder) / "_ledger")
        made = list(_batches(asked.batches))
        tables = [_made(path, made, min(asked.appended, len(made)))]
        tables += [_looked_up(path, made), _long_log(path, Path(folder), 2 * asked.batches)]
    show(tables)
    target = write("ledger", "Ledger benchmark", "`make bench-ledger`", tables, machine())
    _log(f"Written to {target}")


def _batches(many: int) -> Iterator[Entry]:
    """Committed entries in the order of their batches: 96 of bronze, then one each below."""
    quarters, days = 0, 0
    for number in range(many):
        if number % (A_DAY + 2) < A_DAY:
            quarters += 1
            yield _entry(BRONZE, quarters, FIRST + timedelta(minutes=15 * quarters))
        else:
            days += number % (A_DAY + 2) == A_DAY
            table, upstream = (SILVER, BRONZE) if number % (A_DAY + 2) == A_DAY else (GOLD, SILVER)
            high = quarters if upstream == BRONZE else days
            window = Window(upstream, max(0, high - A_DAY), high)
            at = FIRST + timedelta(days=days - 1)
            yield replace(_entry(table, days, at), windows=(window,), low="", high="", position="")


def _entry(table: str, batch: int, at: datetime) -> Entry:
    high = f"{at:%Y-%m-%dT%H:%M:%S}.{batch % 10**6:06d}Z"
    return Entry(
        table=table,
        batch=batch,
        day=at.date(),
        state="committed",
        kind="advance",
        mode="merge",
        detector="timestamp",
        recorded_at=at + timedelta(minutes=1),
        touched=(Touched(at.date(), batch % 977),),
        rows_read=batch % 977,
        rows_inserted=batch % 701,
        rows_counted=batch % 977,
        bytes=batch * 7919 % 1_000_003,
        seconds=batch % 1_009 / 100,
        target_version=batch,
        run_id=f"{batch * 2654435761 % 2**64:016x}",
        who="etl",
        low=f"{at - timedelta(minutes=15):%Y-%m-%dT%H:%M:%S}.{(batch - 1) % 10**6:06d}Z",
        high=high,
        position=f'{{"detector": "timestamp", "column": "updated_at", "high": "{high}"}}',
    )


def _claimed(entry: Entry) -> Entry:
    return replace(entry, state="claimed", target_version=None, rows_read=0, seconds=0.0)


def _made(path: str, made: Sequence[Entry], appended: int) -> Table:
    ledger = Ledger(path)
    bulk, single = made[: len(made) - appended], made[len(made) - appended :]
    _log(f"{len(bulk)} batches in large commits …")
    ledger.view()
    for some in _parts(bulk, 10_000):
        write_deltalake(path, to_frame([e for b in some for e in (_claimed(b), b)]), mode="append")
    _log(f"{appended} batches one by one …")
    table = Table(
        f"An append (open, decide, commit; {2 * appended} of them), ms",
        ("after batches", "median", "p95", "max"),
    )
    for some in _parts(single, -(-appended // 4)):
        took = [
            _timed(partial(_append, ledger, entry))
            for batch in some
            for entry in (_claimed(batch), batch)
        ]
        done = len(bulk) + single.index(some[-1]) + 1
        table.rows.append(Row([f"{done:,}", *_figures(took)]))
        _log("  " + " | ".join(table.rows[-1].cells))
    return table


def _append(ledger: Ledger, entry: Entry) -> None:
    ledger.transact_on(entry.table, lambda _: [entry])


def _looked_up(path: str, made: Sequence[Entry]) -> Table:
    opened = DeltaTable(path)
    log = os.listdir(Path(path) / "_delta_log")
    on_disk = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    rows = sum(view.height for view in Ledger(path).snapshot().rows(Ledger(path).snapshot().files))
    table = Table(
        f"{len(made):,} batches, {rows:,} rows: {len(opened.file_uris())} files, {len(log)} in the "
        f"log of version {opened.version():,}, {on_disk / 2**20:.1f} MiB on disk; ms",
        ("what", "median", "p95", "max", "goal", "met"),
    )
    days = sorted({entry.day for entry in made})
    some = [days[at * (len(days) - 1) // (LOOKS - 1)] for at in range(LOOKS)]
    kept = Ledger(path)
    kept.tail(BRONZE)
    _row(table, "opening the Delta table", [_timed(lambda: DeltaTable(path)) for _ in some])
    looks: list[tuple[str, Callable[[date], object]]] = [
        ("a table's tail", lambda _: Ledger(path).tail(BRONZE)),
        ("a table's tail, asked again of the same Ledger", lambda _: kept.tail(BRONZE)),
        ("a rare table's tail", lambda _: Ledger(path).tail(GOLD)),
        ("a day's watermark", lambda day: Ledger(path).watermark(SILVER, BRONZE, day)),
        ("a day's watermark, of 96 batches a day", lambda d: Ledger(path).watermark(BRONZE, "", d)),
        ("watermark_rows", lambda _: watermark_rows(Ledger(path))),
    ]
    for what, look in looks:
        _row(table, what, [_timed(partial(look, day)) for day in some], GOAL_MS)
    first = [sys.executable, "-c", _FIRST_LOOK, path, BRONZE]
    printed = [subprocess.run(first, capture_output=True, text=True, check=True) for _ in range(7)]
    _row(table, "a tail, the first look of a process", [float(s.stdout) for s in printed], GOAL_MS)
    _row(table, "a view, as a load or a plan takes it", [_timed(Ledger(path).view) for _ in some])
    planned = [_timed(partial(_asked, path, day)) for day in some]
    _row(table, "a view, and what a load asks of a day", planned)
    last = [_timed(partial(_asked, path, days[-1])) for _ in some]
    _row(table, "a view, and what a load asks of the last day", last)
    _row(
        table, "a view, and which days of silver are stale", [_timed(_stale_of(path)) for _ in some]
    )
    whole = [_timed(lambda: Ledger(path).view().table(BRONZE).entries) for _ in range(3)]
    _row(table, "the whole history of the largest table", whole)
    return table


def _asked(path: str, day: date) -> None:
    """What a load of silver asks of a day, and one of bronze."""
    view = Ledger(path).view()
    silver, bronze = view.table(SILVER), view.table(BRONZE)
    bronze.held.get(day), bronze.files(day), silver.held.get(day), silver.last_committed.get(day)
    bronze.changes(day, silver.watermark(BRONZE, day)), list(silver.since_rebuilt(day))


def _stale_of(path: str) -> Callable[[], object]:
    def stale() -> list[date]:
        view = Ledger(path).view()
        silver, bronze = view.table(SILVER), view.table(BRONZE)
        days = sorted({*bronze.touching, *silver.last_committed})
        return [day for day in days if bronze.changes(day, silver.watermark(BRONZE, day))]

    return stale


def _long_log(path: str, folder: Path, commits: int) -> Table:
    """What the log alone costs: the same ledger after commits that changed nothing."""
    table = Table("Opening, by the length of the log folder; ms", ("what", "median", "p95", "max"))
    copy = folder / "long"
    shutil.copytree(path, copy)
    log = copy / "_delta_log"
    first, empty = DeltaTable(copy).version() + 1, '{"commitInfo":{"operation":"WRITE"}}\n'
    hour_ago = time.time() - 3600
    for version in range(first, first + commits):
        commit = log / f"{version:020d}.json"
        commit.write_text(empty)
        os.utime(commit, (hour_ago, hour_ago))
    DeltaTable(copy).create_checkpoint()
    for file in log.glob("*.checkpoint.parquet"):
        os.utime(file, (hour_ago, hour_ago))
    for what, act in (
        ("as they are", DeltaTable(copy).version),
        ("after cleanup_metadata", DeltaTable(copy).cleanup_metadata),
    ):
        took = 1000 * _timed(act)
        opened = [_timed(lambda: DeltaTable(copy)) for _ in range(20)]
        name = f"{len(os.listdir(log)):,} files, {what} (took {took:.0f} ms)"
        table.rows.append(Row([name, *_figures(opened)]))
    return table


def _parts(entries: Sequence[Entry], size: int) -> Iterator[Sequence[Entry]]:
    for start in range(0, len(entries), max(1, size)):
        yield entries[start : start + size]


def _row(table: Table, what: str, took: Sequence[float], goal: float | None = None) -> None:
    cells = [what, *_figures(took)]
    if goal is not None:
        p95 = float(cells[2])
        cells += [f"< {goal:.0f}", "yes" if p95 < goal else "no"]
    table.rows.append(Row(cells))
    _log("  " + " | ".join(cells))


def _figures(took: Sequence[float]) -> list[str]:
    p95 = quantiles(took, n=20, method="inclusive")[-1] if len(took) > 1 else took[0]
    return [f"{1000 * seconds:.1f}" for seconds in (median(took), p95, max(took))]


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

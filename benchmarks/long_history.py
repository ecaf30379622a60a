"""Measure a day of the demo on a lake with a long history: `python -m benchmarks.long_history`.

The same day of 4,000 events, the script's five tables, is loaded on a lake whose ledger has ten
batches and on one with 100,000 batches of all tables over ten years, whose landing has as many
files in a folder a day. The project itself loads the day before, so that every table is there;
then the histories are written in large commits and compacted. Whole processes on copies of the
lakes, in turns. At last `plan` and `stale` are measured on the long lake, where nothing is left to
do. The figures go to the terminal and to `benchmarks/results/long_history.md`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import median

from deltalake import write_deltalake

from benchmarks.process import CommandError, adopt_orphans, run
from benchmarks.quick import (
    BIN,
    DAY,
    SCRIPT_TABLES,
    Bench,
    environment,
    materialize_command,
    median_ratio,
    selected,
)
from benchmarks.report import Row, Table, machine, show, write
from incremental_assets.catalog import tables
from incremental_assets.cli.run import NOTHING_DUE
from incremental_assets.days import ONE_DAY
from incremental_assets.ledger.entry import Entry, FileEntry, Touched, Window, to_frame
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.instance import CONFIG
from incremental_assets.settings import PREFIX
from incremental_assets.table import Table as LakeTable

EVENTS = "bronze/events"
BEFORE = date.fromisoformat(DAY) - ONE_DAY
SHORT, LONG = "a short history", "a long history"
GOAL, GOAL_SECONDS = 1.10, 1.0
A_COMMIT = 10_000
COMMANDS = ("plan", "stale")
JUDGED = ("ratio", "of processor", "goal", "met")

# The command is called on the short lake first, which imports all that it needs.
_AFTER_IMPORTS = """
import json, os, sys, time
from incremental_assets.cli import main

for environment in json.loads(sys.argv[2]):
    os.environ.update(environment)
    started = time.perf_counter()
    try:
        main.main([sys.argv[1]])
    except SystemExit as ended:
        assert not ended.code
    seconds = time.perf_counter() - started
print(f"took {seconds}")
"""


@dataclass(frozen=True)
class History:
    """What a ledger holds before the last two days: a batch a day of each table, more of events."""

    tables: Sequence[LakeTable]
    days: int
    batches: int
    files: int

    @property
    def first(self) -> date:
        return BEFORE - self.days * ONE_DAY

    @property
    def of_events(self) -> int:
        """Batches of bronze/events: all that the other tables leave, and at least one a day."""
        return max(self.days, self.batches - (len(self.tables) - 1) * self.days)

    @property
    def total(self) -> int:
        return self.of_events + (len(self.tables) - 1) * self.days

    def batches_on(self, number: int) -> range:
        """The batches of bronze/events on a day, by their numbers."""
        first, after = (at * self.of_events // self.days for at in (number, number + 1))
        return range(first + 1, after + 1)

    def files_of(self, batch: int) -> range:
        first, after = (at * self.files // self.of_events for at in (batch - 1, batch))
        return range(first, after)


@dataclass(frozen=True)
class Lake:
    """A lake that is copied for each turn, and the landing that its copies share."""

    name: str
    folder: Path
    history: History

    @property
    def landing(self) -> Path:
        return self.folder / "landing"

    def env(self, copy: str) -> dict[str, str]:
        """The environment of a copy of this lake, with a Dagster home of its own."""
        lake, home = self.folder / copy, self.folder / f"home-{copy}"
        if not home.exists():
            home.mkdir()
            shutil.copy(CONFIG, home)
        return environment() | {
            f"{PREFIX}LAKE": str(lake),
            f"{PREFIX}LANDING": str(self.landing),
            f"{PREFIX}START_DATE": str(self.history.first),
            "DAGSTER_HOME": str(home),
        }

    def copied(self, turn: int) -> dict[str, str]:
        copy = f"lake{turn}"
        shutil.copytree(self.folder / "lake", self.folder / copy)
        return self.env(copy)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure a day on a lake with a long history.")
    parser.add_argument("--days", type=int, default=3_650, help="of history (default 3650)")
    parser.add_argument("--batches", type=int, default=100_000, help="default 100,000")
    parser.add_argument("--files", type=int, default=100_000, help="landed (default 100,000)")
    parser.add_argument("--runs", type=int, default=5, help="turns (default 5)")
    asked = parser.parse_args()
    adopt_orphans()
    every = tables()
    five = [table for table in every if table.name in SCRIPT_TABLES]
    histories = {
        SHORT: History(five, days=2, batches=10, files=10),
        LONG: History(every, asked.days, asked.batches, asked.files),
    }
    with tempfile.TemporaryDirectory(prefix="bench-history-") as folder:
        bench = Bench(Path(folder), Path(folder) / "landing")
        try:
            lakes = [made(bench, name, history) for name, history in histories.items()]
            for turn in range(asked.runs):
                _log(f"Turn {turn + 1} of {asked.runs}")
                envs = [loaded(bench, lake, turn) for lake in lakes]
            figures = [_loads(bench, lakes), commands(bench, envs, asked.runs)]
        except CommandError as error:
            sys.exit(f"A measured command failed, so there is nothing to report.\n{error}")
    show(figures)
    target = write("long_history", "A long history", "`make bench-history`", figures, machine())
    _log(f"Written to {target}")


def made(bench: Bench, name: str, history: History) -> Lake:
    """A lake with this history and landing, on which the day before is loaded."""
    _log(f"{name}: {history.total:,} batches, {history.files:,} files, {history.days:,} days …")
    lake = Lake(name, bench.root / name.replace(" ", "-"), history)
    land(lake)
    bench.land(str(BEFORE), DAY, lake.landing)
    run(materialize_command("*", "--partition", str(BEFORE)), lake.env("lake"), bench.root)
    write_ledger(lake)
    return lake


def land(lake: Lake) -> None:
    """The files of the history: a line each, in a folder a day."""
    for number in range(lake.history.days):
        folder = lake.landing / "events" / str(lake.history.first + number * ONE_DAY)
        folder.mkdir(parents=True)
        for batch in lake.history.batches_on(number):
            for file in lake.history.files_of(batch):
                (folder / f"part-{file:06}.jsonl").write_text("{}\n")


def write_ledger(lake: Lake) -> None:
    """Append the history to the ledger, as if it had been loaded after the day before."""
    path = ledger_path(str(lake.folder / "lake"))
    ledger = Ledger(path)
    rows = list(_entries(lake, ledger))
    for start in range(0, len(rows), A_COMMIT):
        some = rows[start : start + A_COMMIT]
        both = [e for entry in some for e in (replace(entry, state="claimed", touched=()), entry)]
        write_deltalake(path, to_frame(both), mode="append")
    ledger.compact()


def _entries(lake: Lake, ledger: Ledger) -> Iterator[Entry]:
    """What was loaded, day by day; a table has read all that its upstreams have of a day."""
    names = [table.name for table in lake.history.tables]
    real = {name: tail.committed[-1] for name, tail in ledger.tails(names).items()}
    for number in range(lake.history.days):
        day = lake.history.first + number * ONE_DAY
        of_events = lake.history.batches_on(number)
        for name in names:
            for batch in of_events if name == EVENTS else (number + 1,):
                entry = _entry(real[name], batch, day, of_events[-1])
                files = _files(lake, batch, day) if name == EVENTS else ()
                yield replace(entry, files=tuple(files))


def _entry(real: Entry, batch: int, day: date, last_of_events: int) -> Entry:
    """A batch like the table's real one, which is its first, of another day.

    It is in no log, so the ledger and the table are consistent; and no later day looks its rows up.
    """
    highs = {w.upstream: last_of_events if w.upstream == EVENTS else batch for w in real.windows}
    return replace(
        real,
        batch=batch + 1,
        day=day,
        recorded_at=datetime(day.year, day.month, day.day, 23, tzinfo=UTC),
        windows=tuple(Window(name, 0, high + 1) for name, high in highs.items()),
        touched=(Touched(day, 27),),
        affects=(),
        target_version=None,
    )


def _files(lake: Lake, batch: int, day: date) -> Iterator[FileEntry]:
    for file in lake.history.files_of(batch):
        path = f"events/{day}/part-{file:06}.jsonl"
        stat = (lake.landing / path).stat()
        yield FileEntry(path, stat.st_size, f"{file:032x}", str(stat.st_mtime_ns))


def loaded(bench: Bench, lake: Lake, turn: int) -> dict[str, str]:
    """The day, loaded on a copy of the lake; the environment of that copy."""
    env = lake.copied(turn)
    command = materialize_command(selected(SCRIPT_TABLES), "--partition", DAY)
    bench.measure(lake.name, command, env)
    return env


def _loads(bench: Bench, lakes: Sequence[Lake]) -> Table:
    table = Table(
        f"The day {DAY}, five tables, whole processes",
        (*("lake", "batches", "files", "days", "wall s", "min", "max", "processor s"), *JUDGED),
    )
    for lake in lakes:
        history, walls = lake.history, bench.walls(lake.name)
        used = [each.cpu for each in bench.runs[lake.name]]
        counts = [f"{n:,}" for n in (history.total, history.files, history.days)]
        seconds = [*(f"{of(walls):.1f}" for of in (median, min, max)), f"{median(used):.1f}"]
        table.rows.append(Row([lake.name, *counts, *seconds, *_verdict(bench, lake)]))
    return table


def _verdict(bench: Bench, lake: Lake) -> list[str]:
    if lake.name == SHORT:
        return []
    ratio = median_ratio(bench.walls(LONG), bench.walls(SHORT))
    used = [[each.cpu for each in bench.runs[name]] for name in (LONG, SHORT)]
    met = "yes" if ratio <= GOAL else "no"
    return [f"{ratio:.2f}", f"{median_ratio(*used):.2f}", f"≤ {GOAL:.2f}", met]


def commands(bench: Bench, envs: Sequence[dict[str, str]], runs: int) -> Table:
    """`plan` and `stale` on the long lake, after `run` has loaded all that is left."""
    long = envs[-1]
    run([BIN / "incremental-assets", "run"], long, bench.root)
    table = Table(
        "Commands on the long lake with nothing to do, seconds",
        ("command", "median", "min", "max", "processor s", "goal", "met"),
    )
    for name in COMMANDS:
        command: list[str | Path] = [BIN / "incremental-assets", name]
        done = [bench.measure(name, command, long) for _ in range(runs)]
        if name == "plan" and not any(NOTHING_DUE in text for _, text in done[-1].lines):
            _log("  plan found something to do:\n" + "\n".join(t for _, t in done[-1].lines[:20]))
        walls = [each.wall for each in done]
        used = f"{median(each.cpu for each in done):.2f}"
        table.rows.append(_row(f"{name}, whole process", walls, used))
        after = [_after_imports(name, envs, bench.root) for _ in range(runs)]
        table.rows.append(_row(f"{name}, after its imports", after, ""))
    return table


def _after_imports(name: str, envs: Sequence[dict[str, str]], cwd: Path) -> float:
    own = [{n: v for n, v in env.items() if n.startswith(PREFIX)} for env in envs]
    command = [sys.executable, "-c", _AFTER_IMPORTS, name, json.dumps(own)]
    printed = subprocess.run(
        command, env=envs[-1], cwd=cwd, capture_output=True, text=True, check=True
    )
    return float(printed.stdout.split()[-1])


def _row(what: str, seconds: Sequence[float], used: str) -> Row:
    cells = [what, *(f"{of(seconds):.2f}" for of in (median, min, max)), used]
    met = "yes" if median(seconds) < GOAL_SECONDS else "no"
    return Row([*cells, f"< {GOAL_SECONDS:.0f}", met])


def _log(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()

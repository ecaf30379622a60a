"""A plan and a load read of the ledger what their days need, however long its history is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incremental_assets.changes import ChangeLog
from incremental_assets.changes.position import parsed
from incremental_assets.delta.delta_log import put_fence
from incremental_assets.delta.delta_table import ensure_table
from incremental_assets.engine.bronze import COLUMNS, PARTITIONS
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.day_summary import DaySummary
from incremental_assets.ledger.entry import Entry, FileEntry, Touched, Window
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.plan import derived, plan_table, stale_days, stored
from incremental_assets.plan.forecast import forecast
from incremental_assets.plan.work import file_entries
from incremental_assets.settings import Settings
from incremental_assets.sources import day_files
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored import Stored
from incremental_assets.table import Table
from incremental_assets.writes import Append
from incremental_assets_tests.ledger.long import A_FILE, filled, read
from incremental_assets_tests.plan.ledgers import EVENTS, MART, SALES, USERS, did

__all__ = ["read"]

TABLES = (EVENTS, USERS, SALES, MART)
FIRST = date(2017, 1, 1)
A_DAY = 8


def history(days: int, landing: str) -> Iterator[Entry]:
    """So many days, each with eight files of events that landed, and what is built on them."""
    for at in range(days):
        landed = land(landing, at, [f"{nth}.jsonl" for nth in range(A_DAY)])
        for nth, file in enumerate(file_entries(landed)):
            for entry in _batch(EVENTS.name, at * A_DAY + nth + 1, at):
                yield replace(entry, files=(file,))
        events = Window(EVENTS.name, 0, (at + 1) * A_DAY)
        for table in (USERS, SALES):
            yield from _batch(table.name, at + 1, at, events)
        yield from _batch(
            MART.name,
            at + 1,
            at,
            Window(SALES.name, 0, at + 1),
            Window(USERS.name, 0, at + 1),
        )


def land(landing: str, at: int, names: Sequence[str], text: str = "{}\n") -> list[SourceFile]:
    """Put files into a day's folder; they as they are listed."""
    day = FIRST + timedelta(days=at)
    folder = Path(landing) / "events" / str(day)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(text)
    return LandedFiles("events").files(landing, day)


def _batch(table: str, batch: int, at: int, *read: Window) -> Iterator[Entry]:
    day = FIRST + timedelta(days=at)
    done = replace(
        did(EVENTS, batch, 1, affects=()),
        table=table,
        day=day,
        touched=(Touched(day, 5),),
        windows=read,
        rows_counted=5,
        seconds=1.0,
    )
    yield replace(done, state="claimed")
    yield done


def test_a_plan_and_a_load_read_as_much_of_a_history_ten_times_as_long(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: list[int]
) -> None:
    for bound in ("expected_seconds.MOST_ENTRIES", "expected.LAST_ENTRIES"):
        monkeypatch.setattr(f"incremental_assets.plan.{bound}", 10)
    found = {}
    for days in (10, 100):
        there = settings.replace(
            lake=str(tmp_path / f"lake {days}"), landing=str(tmp_path / f"{days}")
        )
        new = FIRST + timedelta(days=days)
        now = datetime(new.year, new.month, new.day, 12, tzinfo=UTC)
        land(there.landing, days, ["new.jsonl"])
        entries = list(history(days, there.landing))
        entries.sort(key=lambda e: (e.table, e.batch, e.state != "claimed"))
        filled(ledger_path(there.lake), entries, monkeypatch)
        # A table whose log knows of the ledger's last batch.
        path = f"{there.lake}/{EVENTS.name}"
        ensure_table(path, EVENTS.name, COLUMNS, PARTITIONS)
        assert put_fence(path, EVENTS.name, days * A_DAY)

        def no_spark() -> SparkSession:
            raise AssertionError("an empty file needs no Spark")

        lakehouse = Lakehouse(there, TABLES, no_spark, lambda now=now: now)  # type: ignore[misc]
        read.clear()
        plan = forecast(TABLES, lakehouse.ledger.view(), there, None, now)
        planned = len(read), sum(read)
        land(there.landing, days, ["new.jsonl"], "")  # which needs no Spark
        lakehouse = Lakehouse(there, TABLES, no_spark, lambda now=now: now)  # type: ignore[misc]
        read.clear()
        result = lakehouse.load(EVENTS, [new])
        found[days] = planned, (len(read), sum(read))

        assert {(d.table, d.day) for d in plan.days} == {(t.name, new) for t in TABLES}
        assert {day: r.state for day, r in result.days.items()} == {new: "committed"}

    (plan_files, plan_rows), (load_files, load_rows) = found[10]
    (more_plan_files, more_plan_rows), (more_load_files, more_load_rows) = found[100]
    assert (more_plan_files <= plan_files, more_load_files <= load_files) == (True, True)
    # The last file of a table may be fuller or emptier.
    assert more_plan_rows <= plan_rows + A_FILE * len(TABLES)
    assert more_load_rows <= load_rows + A_FILE


def test_of_days_that_are_loaded_a_plan_compares_numbers_however_many_they_are(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = counted(monkeypatch)
    found = {}
    for days in (10, 100):
        there = settings.replace(
            lake=str(tmp_path / f"lake {days}"), landing=str(tmp_path / f"{days}")
        )
        last = FIRST + timedelta(days=days - 1)
        now = datetime(last.year, last.month, last.day, 12, tzinfo=UTC)
        filled(ledger_path(there.lake), list(history(days, there.landing)), monkeypatch)
        view = Ledger(ledger_path(there.lake)).view()
        counts.clear()

        plan = forecast(TABLES, view, there, None, now)
        stale = [stale_days(table, view, FIRST, last) for table in TABLES if table.upstreams]

        assert (plan.days, plan.skipped, stale) == ((), (), [{}, {}, {}])
        assert counts.pop("compared") == days * A_DAY  # each file once
        found[days] = dict(counts)

    assert found[100] == found[10]
    assert sum(found[100].values()) < A_DAY


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many summaries of days and files are made, days are asked for, and files compared."""
    counts: Counter[str] = Counter()
    for where, name, what in (
        (DaySummary, "__init__", "summaries"),
        (SourceFile, "__init__", "files"),
        (FileEntry, "__init__", "entries of files"),
        (derived, "_day_work", "days"),
        (day_files, "file_fingerprint", "compared"),
    ):
        real = getattr(where, name)

        def counting(*args: Any, real: Any = real, what: str = what, **named: Any) -> Any:
            counts[what] += 1
            return real(*args, **named)

        monkeypatch.setattr(where, name, counting)
    return counts


def test_a_plan_of_a_day_of_a_dated_log_reads_as_much_of_a_history_ten_times_as_long(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: list[int]
) -> None:
    log = Stored("log", "json", day="at")
    table = Table(
        "bronze/log", "What a log says.", reads=(log,), changes=ChangeLog(), write=Append()
    )
    place = Path(settings.landing) / "log"
    place.mkdir()
    (place / "new.json").write_text('{"operation":"INSERT","sequence_num":1,"id":1,"at":"2017"}\n')
    states: list[str] = []
    monkeypatch.setattr(stored, "parsed", lambda text: states.append(text) or parsed(text))
    found = []
    for days in (30, 300):
        there = settings.replace(lake=str(tmp_path / f"lake {days}"))
        entries = [
            replace(each, files=(FileEntry(f"old {at}.json", 10, "t", 1),))
            for at in range(days)
            for each in _batch(table.name, at + 1, at, Window(str(place), 0, 0))
        ]
        filled(ledger_path(there.lake), entries, monkeypatch)
        last = FIRST + timedelta(days=days - 1)
        read.clear()
        now = datetime(last.year, last.month, last.day, 23, tzinfo=UTC)
        view = Ledger(ledger_path(there.lake)).view()
        plan = plan_table(table, [last], view, there, last, now=now)
        assert plan.work
        found.append(sum(read))
        states.clear()
        every = [FIRST + timedelta(days=at) for at in range(days)]
        assert plan_table(table, every, view, there, last, now=now).days == tuple(every)
        assert states == [""]  # the position of all of them

    assert found[1] <= found[0] + A_FILE

"""What a run would do, read from the ledger and a listing: whole rounds, with nothing touched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from shutil import rmtree

import polars as pl
import pytest

from incremental_assets.changes import Sequence, Timestamp
from incremental_assets.days import ONE_DAY, DayRange
from incremental_assets.errors import DayError, SourceError
from incremental_assets.ledger.entry import Entry, FileEntry, Window
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import batches as batches_of_days
from incremental_assets.plan.due import Due
from incremental_assets.plan.forecast import Forecast, PlannedDay, forecast
from incremental_assets.plan.plan import plan_table
from incremental_assets.plan.plan_inspector import PlanInspector
from incremental_assets.plan.rounds import Left, Unreadable, due_runs
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source import FixedSource, Source
from incremental_assets.sources.stored import Stored
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Append
from incremental_assets_tests.plan.ledgers import (
    EMPTY,
    EVENTS,
    MART,
    SALES,
    USERS,
    did,
    jan,
    ledger,
)

TABLES = (EVENTS, USERS, SALES, MART)
NOW = datetime(2017, 2, 28, 12, tzinfo=UTC)


def test_files_that_wait_are_named_where_nothing_else_is_new(settings: Settings) -> None:
    waiting = replace(EVENTS, reads=(LandedFiles("events", marker="DONE"),))
    deliver(settings, jan(1))
    noted: list[str] = []

    def due() -> list[Due]:
        return [
            *due_runs((waiting,), settings, None, lambda: NOW, lambda: EMPTY, note=noted.append)
        ]

    found = forecast((waiting,), EMPTY, settings, None, NOW)

    assert (found.days, due()) == ((), [])
    assert [note.partition(" (")[2] for note in (*found.notes, *noted)] == [
        "there is no DONE in its folder)."
    ] * 2
    assert all(note.startswith(f"{EVENTS.name}: 1 file waits: events/") for note in found.notes)


@dataclass(frozen=True)
class OwnSource(Source):
    path: str = "colours"

    def fix(self) -> FixedSource:
        raise KeyError("colour")


def plan(settings: Settings, view: LedgerView = EMPTY, days: DayRange | None = None) -> Forecast:
    return forecast(TABLES, view, settings, days, NOW)


def deliver(
    settings: Settings,
    day: date,
    content: str = "{}\n",
    feed: str = "events",
    name: str = "a.jsonl",
) -> None:
    folder = Path(settings.landing) / feed / str(day)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content)


def test_loaded_files_that_are_no_longer_landed_are_noted(settings: Settings) -> None:
    paths = [f"events/{jan(day)}/{name}.jsonl" for day in (5, 6, 7) for name in "abc"]
    entries = [
        replace(did(EVENTS, 1, n), files=tuple(file(p) for p in paths if str(jan(n)) in p))
        for n in (5, 6, 7)
    ]
    for name in "abc":
        path = Path(settings.landing, "events", str(jan(5)), f"{name}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    deliver(settings, jan(6))

    note = "bronze/events: 2 files that were loaded are no longer in landing (2017-01-06). "
    assert any(message.startswith(note) for message in plan(settings, ledger(*entries)).notes)
    outside = plan(settings, ledger(*entries), DayRange(jan(5), jan(5)))
    assert not any("no longer" in message for message in outside.notes)


def file(path: str) -> FileEntry:
    return FileEntry(path, 3, "tag", "")


def days_of_batches(found: Forecast) -> dict[tuple[int, str, int], list[int]]:
    """Run, table and batch → days."""
    rows: dict[tuple[int, str, int], list[int]] = {}
    for day in found.days:
        rows.setdefault((day.run, day.table, day.batch), []).append(day.day.timetuple().tm_yday)
    return rows


def of(found: Forecast, table: str) -> PlannedDay:
    return next(day for day in found.days if day.table == table)


def test_what_stands_below_a_landing_day_is_planned_with_it_in_the_order_of_the_runs(
    settings: Settings,
) -> None:
    for day in (1, 2, 4):
        deliver(settings, jan(day))

    found = plan(settings)

    names = [table.name for table in TABLES]
    assert days_of_batches(found) == {
        **{(1, name, 1): [1, 2] for name in names},
        **{(2, name, 2): [4] for name in names},
    }
    assert of(found, MART.name).windows == (Window(SALES.name, 0, 1), Window(USERS.name, 0, 1))
    assert [day.mode for day in found.days if day.table == USERS.name] == [
        *("append", "append", "merge")
    ]
    assert found.skipped == ()


def test_a_long_range_is_planned_in_the_batches_in_which_it_is_loaded(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches_of_days, "SMALL_ROWS", -1)  # no day is small
    for day in DayRange(jan(1), date(2017, 2, 10)):
        deliver(settings, day)

    batches = days_of_batches(plan(settings))

    assert [len(days) for (_, name, _), days in batches.items() if name == SALES.name] == [31, 10]


def test_to_plan_leaves_no_trace(settings: Settings) -> None:
    deliver(settings, jan(1))
    before = sorted(Path(settings.landing).parent.rglob("*"))

    view = Ledger(ledger_path(settings.lake)).view_if_any()
    assert plan(settings, view).days

    assert sorted(Path(settings.landing).parent.rglob("*")) == before
    assert not Path(settings.lake).exists()


def test_the_run_asks_for_what_the_plan_lists_and_tries_what_failed_only_once(
    settings: Settings,
) -> None:
    deliver(settings, jan(1))
    stale = did(EVENTS, 1, 5, touched=[5])

    due = list(due_runs(TABLES, settings, None, lambda: NOW, lambda: ledger(stale)))

    # Nothing that is asked for is ever loaded here.
    assert [(each.tables[0].name, each.days) for each in due] == [
        (EVENTS.name, DayRange(jan(1), jan(1))),
        (USERS.name, DayRange(jan(5), jan(5))),
        (SALES.name, DayRange(jan(5), jan(5))),
    ]


def test_landing_folders_outside_the_partitions_are_reported(settings: Settings) -> None:
    for day in (date(2016, 12, 31), jan(1), date(2031, 1, 1)):
        deliver(settings, day)

    found = {(s.first.year, s.table): s.reason for s in plan(settings).skipped}

    assert found == {
        (2016, EVENTS.name): "has landed, but is outside the partitions 2017-01-01...2017-02-28; "
        "INCREMENTAL_ASSETS_START_DATE sets the first day",
        (2031, EVENTS.name): "has landed, but is outside the partitions 2017-01-01...2017-02-28",
    }
    assert plan(settings, days=DayRange(jan(1), jan(2))).skipped == ()


def test_days_outside_the_partitions_and_a_missing_landing_are_errors(settings: Settings) -> None:
    with pytest.raises(DayError, match=r"is outside the partitions 2017-01-01\.\.\.2017-02-28"):
        plan(settings, days=DayRange(jan(1).replace(year=2031), jan(2).replace(year=2031)))
    with pytest.raises(SourceError, match="does not exist"):
        plan(settings.replace(landing="/nowhere"))


def test_a_batch_without_an_outcome_is_reported_and_planned_as_if_it_had_been_given_up(
    settings: Settings,
) -> None:
    events, claim = did(EVENTS, 1, 1, touched=[1]), did(SALES, 1, 1, state="claimed")

    found = plan(settings, ledger(events, claim))

    assert (of(found, SALES.name).batch, of(found, SALES.name).mode) == (2, "append")
    assert found.notes[0].startswith("silver/sales: Batch 1 has no outcome yet. Unless a run")


def test_what_only_reading_tells_is_reported_with_the_tables_that_it_concerns(
    settings: Settings,
) -> None:
    seen = {EVENTS.name: 1, SALES.name: 1, USERS.name: 1}
    view = ledger(*(did(table, 1, 1, touched=[1], read=seen) for table in TABLES))
    deliver(settings, jan(2))

    found = plan(settings, view)

    follow = {day.table: (day.unknown, day.may_follow) for day in found.days}
    assert follow[EVENTS.name][1] == (USERS.name, SALES.name, MART.name)
    assert follow[USERS.name] == (
        "the days of gold/mart whose rows look up what changes are rebuilt",
        (MART.name,),
    )
    assert follow[SALES.name] == follow[MART.name] == ("", ())


def timed(batch: int, day: int, rows: int, seconds: float) -> Entry:
    entry = did(EVENTS, batch, day, touched=[day], mode="append")
    return replace(entry, rows_read=rows, bytes=100 * rows, seconds=seconds)


def test_rows_and_seconds_are_reported_from_the_tables_own_batches(settings: Settings) -> None:
    deliver(settings, jan(9), "x" * 1_000_000)
    same = ledger(timed(1, 1, 100, 2.0), timed(2, 2, 100, 3.0), timed(3, 3, 100, 9.0))
    grows = ledger(timed(1, 1, 1_000, 2.0), timed(2, 2, 5_000, 6.0), timed(3, 3, 9_000, 10.0))

    unknown, alike, line = (of(plan(settings, view), EVENTS.name) for view in (EMPTY, same, grows))

    assert (unknown.rows, unknown.seconds, unknown.bytes) == (None, None, 1_000_000)
    assert (alike.rows, alike.is_estimate, alike.bytes) == (10_000, True, 1_000_000)
    assert alike.seconds == 3.0  # batches alike do not tell what a row costs
    assert line.seconds == pytest.approx(11.0)


def test_while_a_plan_is_made_nothing_is_listed_twice(settings: Settings) -> None:
    deliver(settings, jan(1))
    look = PlanInspector()
    first = plan_table(EVENTS, [jan(1)], EMPTY, settings, jan(31), look)
    deliver(settings, jan(2))
    (Path(settings.landing) / "events" / str(jan(1)) / "b.jsonl").write_text("{}\n")

    again = plan_table(EVENTS, [jan(1), jan(2)], EMPTY, settings, jan(31), look)

    assert first.work[0].days[jan(1)] == again.work[0].days[jan(1)]
    assert again.days == (jan(1), jan(2))


def test_all_that_is_stale_is_done_however_many_rounds_that_takes(settings: Settings) -> None:
    feeds = [replace(EVENTS, name=f"bronze/events_{n}") for n in range(20)]
    facts = [
        replace(SALES, name=f"silver/sales_{n}", reads=(SameDay(feed),))
        for n, feed in enumerate(feeds)
    ]
    view = ledger(*(did(feed, 1, 5, touched=[5]) for feed in feeds))

    found = forecast((*feeds, *facts), view, settings, None, NOW)

    assert [day.table for day in found.days] == [fact.name for fact in facts]


def test_what_stays_due_after_it_was_tried_is_reported_at_the_end(settings: Settings) -> None:
    deliver(settings, jan(1))
    stale = did(EVENTS, 1, 5, touched=[5])
    left: list[Left] = []

    for due in due_runs(
        TABLES, settings, None, lambda: NOW, lambda: ledger(stale), left=left.append
    ):
        if due.days.first == jan(1):
            continue
        more = Path(settings.landing) / "events" / str(jan(1)) / "b.jsonl"
        more.write_text("{}\n")  # while the last run is under way

    due_still = [
        (each.due.tables[0].name, each.due.days.first.day, each.came_later) for each in left
    ]
    assert due_still == [(EVENTS.name, 1, True), (USERS.name, 5, False), (SALES.name, 5, False)]


def test_a_bad_day_is_found_by_halves_and_does_not_keep_the_others_back(
    settings: Settings,
) -> None:
    def runs(last: int, bad: set[int], *tables: Table) -> tuple[list[str], list[str]]:
        """The days of each run and those that are left; a run with a bad day loads no events."""
        for day in DayRange(jan(1), jan(last)):
            for table in tables:
                Path(settings.landing, table.name[7:], str(day)).mkdir(parents=True, exist_ok=True)
                Path(settings.landing, table.name[7:], str(day), "a.jsonl").write_text("{}\n")
        given: list[str] = []
        left: list[Left] = []
        for due in due_runs(
            tables, settings, None, lambda: NOW, lambda: EMPTY, left=left.append, in_halves=True
        ):
            given.append("-".join(str(day.day) for day in sorted({due.days.first, due.days.last})))
            for table in due.tables:
                for day in due.days:
                    if table is not EVENTS or not any(jan(n) in due.days for n in bad):
                        rmtree(Path(settings.landing, table.name[7:], str(day)), ignore_errors=True)
        assert not any(each.came_later for each in left)
        return given, [str(each.due.days) for each in left]

    stock = replace(EVENTS, name="bronze/stock", reads=(LandedFiles("stock"),))
    sixth = ["1-8", "1-4", "5-8", "5-6", "7-8", "5", "6"], ["2017-01-06"]
    assert runs(8, {6}, EVENTS) == sixth
    assert runs(8, {6}, EVENTS, stock) == sixth  # what is loaded already is not due any more
    two, left = runs(8, {4, 5}, EVENTS)
    assert (two[:7], len(two), left) == (
        ["1-8", "1-4", "5-8", "1-2", "3-4", "5-6", "7-8"],
        *(13, ["2017-01-04...2017-01-05"]),
    )
    none, left = runs(31, set(range(1, 32)), EVENTS)
    assert (len(none), left) == (1 + 2 + 4 + 8, ["2017-01-01...2017-01-31"])


def test_stale_days_are_given_in_halves_too_and_a_plan_gives_none(settings: Settings) -> None:
    entries = [did(EVENTS, 1, day, touched=[day]) for day in (1, 2, 3)]

    def runs(in_halves: bool) -> list[tuple[int, int]]:
        done = list(entries)
        rounds = due_runs(
            (EVENTS, SALES), settings, None, lambda: NOW, lambda: ledger(*done), in_halves=in_halves
        )
        given = []
        for due in rounds:
            given.append((due.days.first.day, due.days.last.day))
            if jan(2) not in due.days:
                done.extend(did(SALES, 1, day.day, read={EVENTS.name: 1}) for day in due.days)
        return given

    assert runs(in_halves=True) == [(1, 3), (1, 1), (2, 3), (2, 2), (3, 3)]
    assert runs(in_halves=False) == [(1, 3)]


@pytest.mark.parametrize(
    ("asked", "given", "then"),
    [
        pytest.param(None, [NOW.date(), NOW.date() + ONE_DAY], "", id="loaded as of the new day"),
        pytest.param(
            DayRange(jan(1), NOW.date()),
            [NOW.date()],
            " That day is not asked for: the next run loads it.",
            id="left to the next run",
        ),
    ],
)
def test_what_is_new_in_a_source_without_days_is_of_the_new_day_after_midnight(
    settings: Settings, asked: DayRange | None, given: list[date], then: str
) -> None:
    path, new_day = Path(settings.landing, "stock", "all.parquet"), NOW.date() + ONE_DAY
    path.parent.mkdir(parents=True)
    pl.DataFrame({"id": [1]}).write_parquet(path)
    by_id, source = Sequence("id"), Stored("stock", "parquet")
    stock = Table("bronze/stock", "", (source,), changes=by_id, write=Append())
    times = iter([NOW])
    left: list[Left] = []
    noted: list[str] = []
    found = []

    for due in due_runs(
        (stock,),
        settings,
        asked,
        lambda: next(times, NOW + ONE_DAY),
        lambda: EMPTY,
        left=left.append,
        note=noted.append,
    ):
        found.append(due.days)
        if new_day in due.days:  # the load of the day before began after midnight
            rmtree(path.parent)

    assert found == [DayRange(day, day) for day in given]
    assert left == []
    note, *_ = noted
    assert note.startswith(f"bronze/stock: {NOW.date()} (UTC) ended during this run, and")
    assert note.endswith(f"what is new in it is of {new_day}.{then}")


def test_a_source_that_cannot_be_inspected_does_not_keep_the_others_back(
    settings: Settings,
) -> None:
    stock = Table(
        "bronze/stock", "", (Stored("stock"),), changes=Timestamp("counted_at"), write=Append()
    )
    broken = Path(settings.landing) / "stock" / "_delta_log" / f"{0:020}.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("no commit")
    deliver(settings, jan(1))
    refused: list[Unreadable] = []

    def due(*tables: Table, view: LedgerView = EMPTY) -> list[Due]:
        rounds = due_runs(
            tables, settings, None, lambda: NOW, lambda: view, unreadable=refused.append
        )
        return list(rounds)

    other = replace(stock, name="bronze/other", reads=(OwnSource(),))
    by_name = LandedFiles("moved", layout="of_%Y-%m-%d.jsonl")
    moved = replace(EVENTS, name="bronze/moved", reads=(by_name,))
    again = "moved/of_2017-01-02.jsonl"  # which another layout has read as of the first
    deliver(settings, jan(2), feed="moved", name="of_2017-01-02.jsonl")
    Path(settings.landing, "moved", str(jan(2)), again[6:]).rename(Path(settings.landing, again))
    loaded = replace(did(moved, 1, 1), files=(file(again),))

    (events,) = due(stock, other, moved, EVENTS, view=ledger(loaded))
    assert (events.tables, events.days) == ((EVENTS,), DayRange(jan(1), jan(1)))
    assert [each.table for each in refused] == [stock, other, moved]
    assert "fix() of OwnSource raised KeyError: 'colour'" in str(refused[1].error)
    assert "its rows would be loaded twice" in str(refused[2].error)
    with pytest.raises(SourceError, match="stock"):
        due(stock)
    by_arrival = replace(EVENTS, name="bronze/late", reads=(LandedFiles("late", layout="till*/"),))
    Path(settings.landing, "late/till1").mkdir(parents=True)
    Path(settings.landing, "late/till1/gone.jsonl").symlink_to("nowhere")
    found = forecast([stock, by_arrival, EVENTS], EMPTY, settings, None, NOW)
    assert [(day.table, day.day) for day in found.days] == [(EVENTS.name, jan(1))]
    assert [each.table for each in found.unplanned] == [stock, by_arrival]

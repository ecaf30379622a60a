"""What lies in the landing root and is read by no table is named: nothing is passed over silently."""

from __future__ import annotations

import gzip
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from incremental_assets.catalog import tables
from incremental_assets.plan.rounds import due_runs
from incremental_assets.plan.unread import unread
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.stored import Stored
from incremental_assets_tests.feeds.test_timestamp import tables as tables_by_timestamp
from incremental_assets_tests.plan.ledgers import EMPTY, EVENTS, planned

NOW = datetime(2017, 2, 28, 12, tzinfo=UTC)
READ = "a feed is a folder of its name: events, products, users"


def put(settings: Settings, *paths: str, content: bytes = b'{"a": 1}\n') -> None:
    for path in paths:
        file = Path(settings.landing) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def test_nothing_is_said_of_feeds_of_days_and_of_what_is_not_data(settings: Settings) -> None:
    put(settings, "events/2017-01-05/a.csv", "events/_SUCCESS", "orders/part.csv", ".tmp/a.csv")

    assert unread(tables(), settings) == []
    assert unread(tables(), settings.replace(landing="/nowhere")) == []


def test_folders_of_no_table_and_folders_that_are_no_days_are_named(settings: Settings) -> None:
    put(settings, "events/dt=2024-01-01/a.jsonl", "events/a.jsonl", "payments/2017-01-05/a.jsonl")
    put(settings, *(f"sales{n}.csv" for n in range(6)))

    some, days = unread(tables(), settings)

    assert some == (
        "No table reads payments, sales0.csv, sales1.csv, sales2.csv, sales3.csv and 2 more in "
        f"{settings.landing}; {READ}."
    )
    assert days == (
        f"bronze/events does not read a.jsonl, dt=2024-01-01 in {settings.landing}/events: its "
        "files lie in a folder for each day, named as 2017-01-31."
    )


def test_what_another_table_or_the_lake_itself_has_there_is_read(settings: Settings) -> None:
    put(settings, "events/reference/a.csv", "stock/a.csv", "lake/a.parquet")
    bronze, _ = tables_by_timestamp()
    stored = [
        replace(bronze, name=f"bronze/t{n}", reads=(Stored(path),))
        for n, path in enumerate(("events/reference", f"{settings.landing}/stock"))
    ]

    here = settings.replace(lake=f"{settings.landing}/lake")

    assert unread([EVENTS, *stored], here) == []


def test_a_name_that_cannot_be_printed_is_shown_escaped(settings: Settings) -> None:
    put(settings, "a\n- All is well/b", "caf\udce9.csv")

    (note,) = unread([EVENTS], settings)

    assert "No table reads a\\n- All is well, caf\\udce9.csv in" in note


@pytest.mark.parametrize(
    ("name", "noted"),
    [("a.csv", True), ("a.CSV.gz", True), ("a.parquet", True), ("a.jsonl", False)],
)
def test_files_that_are_no_json_lines_by_their_name_are_named_before_they_are_read(
    settings: Settings, name: str, noted: bool
) -> None:
    put(settings, f"events/2017-01-05/{name}")

    notes = planned(EVENTS, [5], EMPTY, settings).notes

    assert [note.partition(":")[0] for note in notes] == (
        [f"events/2017-01-05/{name}"] if noted else []
    )


@pytest.mark.parametrize(
    ("content", "noted"),
    [
        (b"a,b\n1,2\n", 'is like CSV … format="csv")'),
        (b"\xef\xbb\xbf\n \na;b\n1;2\n", "is like CSV … format=Csv(';'))"),
        (b"<orders><order/></orders>", 'is like XML … format=Xml("…"))'),
        (b"NULL\n", "begins with neither { nor [ … format=…)"),
        (b'\xef\xbb\xbf\r\n  {"a": 1}\n', ""),
        (b"[]\n", ""),
        (b"\n" * 10_000 + b"a,b\n", ""),
        (b"", ""),
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ["a.jsonl", "a", "a.json.gz"])
def test_a_file_that_begins_with_no_json_is_named_before_its_lines_are_quarantined(
    settings: Settings, name: str, content: bytes, noted: str
) -> None:
    packed = gzip.compress(content) if name.endswith(".gz") and content else content
    put(settings, f"events/2017-01-05/{name}", content=packed)

    notes = planned(EVENTS, [5], EMPTY, settings).notes

    begins, _, ends = noted.partition(" … ")
    assert len(notes) == bool(noted)
    for note in notes:
        shown = f"events/2017-01-05/{name}: read as lines of JSON, but the first line {begins}: "
        assert note.startswith(shown)
        assert note.endswith(f'LandedFiles("events", {ends}.')


def test_a_run_says_so_before_it_loads_them(settings: Settings) -> None:
    put(settings, "events/2017-01-05/a.jsonl", content=b"a,b\n1,2\n")
    noted: list[str] = []
    due = due_runs((EVENTS,), settings, None, lambda: NOW, lambda: EMPTY, note=noted.append)

    next(due)

    (note,) = noted
    assert note.startswith(f"{EVENTS.name}: events/2017-01-05/a.jsonl: read as lines of JSON, but ")


def test_of_many_files_the_first_and_the_last_ones_are_looked_into(settings: Settings) -> None:
    put(settings, *(f"events/2017-01-0{day}/a.jsonl" for day in range(1, 8)), content=b"a,b\n1,2")

    (note,) = planned(EVENTS, [*range(1, 8)], EMPTY, settings).notes

    named = (f"events/2017-01-0{day}/a.jsonl" for day in (1, 2, 7))
    assert note.startswith(f"{', '.join(named)}: read as lines of JSON")


@pytest.mark.parametrize("name", ["a.jsonl.zst", "a.jsonl.gz"])
def test_a_file_whose_beginning_cannot_be_read_is_left_to_its_load(
    settings: Settings, name: str
) -> None:
    put(settings, f"events/2017-01-05/{name}", content=b"a,b\n")

    assert planned(EVENTS, [5], EMPTY, settings).notes == ()


def test_only_feeds_of_json_lines_begin_with_json(settings: Settings) -> None:
    put(settings, "events/2017-01-05/a.csv", content=b"a,b\n")
    table = replace(EVENTS, reads=(LandedFiles("events", format="csv"),))

    assert planned(table, [5], EMPTY, settings).notes == ()

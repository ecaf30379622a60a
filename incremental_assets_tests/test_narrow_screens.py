"""On a screen of 80 columns days, table names and batch numbers stay whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from io import StringIO

import click
import polars as pl
import pytest
from click.testing import CliRunner

from incremental_assets.catalog import tables
from incremental_assets.cli import main, output
from incremental_assets.cli.run import tables_in_brief
from incremental_assets.days import DayRange
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.retail.feed import show
from incremental_assets.retail.feed.loaded import LoadedDay
from incremental_assets.screen import Screen
from incremental_assets.settings import PREFIX, Settings
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, did

COLUMNS = 80
LONG_NAME = "bronze/inventory_movements"


class Narrow(Screen):
    """A terminal of 80 columns that remembers its lines."""

    def __init__(self) -> None:
        self.seen = StringIO()
        super().__init__(self.seen, width=COLUMNS, force_terminal=True, color_system=None)

    @property
    def lines(self) -> list[str]:
        return self.seen.getvalue().splitlines()


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Narrow:
    screen = Narrow()
    monkeypatch.setattr(output, "OUT", screen)
    return screen


@pytest.fixture
def lake(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A lake in whose ledger one day of two tables is loaded, and one day is held."""
    ledger = Ledger(ledger_path(settings.lake))
    held = replace(did(SALES, 2, 6, state="held"), held_by="quarantined_share: 6 % of the rows")
    for entry in (did(EVENTS, 1, 5), did(SALES, 1, 5), held):
        ledger.transact_on(entry.table, lambda _, e=entry: [e])  # type: ignore[misc]
    monkeypatch.setenv(f"{PREFIX}LAKE", settings.lake)
    monkeypatch.setenv(f"{PREFIX}LANDING", settings.landing)
    return settings


def batches(name: str) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "table": [name],
            "batch": [12345],
            "day": [date(2017, 1, 5)],
            "state": ["committed"],
            "mode": ["incremental"],
            "quarantined": [1],
            "why": ["bronze/events batch 1, and a file that was repaired"],
        }
    )


def test_days_names_and_numbers_of_a_table_are_whole(screen: Narrow) -> None:
    output.show_on(screen, batches(LONG_NAME), "Batches", ("mode", "quarantined"))

    (row,) = [line for line in screen.lines if line.startswith("bronze/i")]
    assert row.split()[:4] == [LONG_NAME, "12345", "2017-01-05", "committed"]
    assert max(map(len, screen.lines)) <= COLUMNS
    assert screen.lines[-1] == "The screen is too narrow for: mode, quarantined."


@pytest.mark.parametrize("width", [COLUMNS, 30], ids=["a table", "records"])
def test_counts_have_separators_and_numbers_of_batches_have_none(width: int) -> None:
    rows = pl.DataFrame({"table": ["t"], "rows": [300_000], "seconds": [1234.5], "batch": [12345]})
    rows = rows.with_columns(
        file=pl.lit("x" * 25), first_batch=pl.lit(1000), same=pl.lit(value=True)
    )
    seen = StringIO()

    output.show_on(Screen(seen, width=width, force_terminal=True, color_system=None), rows, "x")

    found = set(seen.getvalue().split())
    assert {"300,000", "1,234.5", "12345", "1000", "True"} <= found


def test_columns_are_left_out_only_where_there_is_no_room(screen: Narrow) -> None:
    output.show_on(screen, batches("gold/days"), "Batches", ("mode", "quarantined"))

    assert "quarantined" in screen.lines[1]
    assert screen.lines[-1] == "The screen is too narrow for: mode."


def test_a_long_table_name_is_whole_where_long_text_is_folded(screen: Narrow) -> None:
    name = "quarantine/silver_inventory_movements"
    rows = pl.DataFrame({"table": [name], "left": ["one day after the other " * 4]})

    output.show_on(screen, rows, "Done")

    assert [line for line in screen.lines if line.startswith(name)]
    assert max(map(len, screen.lines)) <= COLUMNS


def test_rows_that_fit_no_table_are_records_of_a_few_lines(screen: Narrow) -> None:
    landed = '{"order_id":null,"product_id":"1094955","qty":1,"unit_price":1.31}' * 3
    rows = pl.DataFrame(
        {
            "batch": [1],
            "day": [date(2017, 1, 2)],
            "file": ["events/2017-01-02/part-0.jsonl"],
            "row": [landed],
            "reasons": [["order_id_not_null", "qty_unreadable"]],
            "details": [None],
            "first_seen": ["2017-01-02 10:00"],
        },
        schema_overrides={"details": pl.List(pl.String)},
    )

    output.show_on(screen, rows, "1 row of silver/sales")

    shown = [line.strip() for line in screen.lines]
    assert "batch 1  day 2017-01-02  file events/2017-01-02/part-0.jsonl" in shown
    assert landed in "".join(shown)
    assert not [line for line in shown if "details" in line]
    assert max(map(len, screen.lines)) <= COLUMNS


def groups(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of a command that has others, and of each of these."""
    if isinstance(command, click.Group):
        yield words
        for name in command.list_commands(click.Context(command)):
            of = command.get_command(click.Context(command), name)
            assert of is not None
            yield from groups(of, (*words, name))


@pytest.mark.parametrize("words", list(groups(main)), ids=" ".join)
def test_the_summary_of_each_command_is_whole(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*words, "--help"], terminal_width=COLUMNS)

    _, _, commands = done.output.partition("Commands:")
    assert commands
    assert "..." not in commands


@pytest.mark.parametrize("words", [("batches",), ("watermarks", "show"), ("demo", "show")], ids=str)
def test_no_line_ends_with_spaces(lake: Settings, words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, words)

    assert len(done.output.splitlines()) > 2
    assert [line for line in done.output.splitlines() if line != line.rstrip()] == []


def test_a_text_that_is_folded_does_not_end_its_lines_with_spaces(screen: Narrow) -> None:
    screen.print("a text of some words " * 10)

    assert len(screen.lines) > 2
    assert [line for line in screen.lines if line != line.rstrip()] == []


def test_records_on_a_narrow_screen_do_not_end_with_spaces(screen: Narrow) -> None:
    rows = pl.DataFrame({f"field_{n}": ["a text of some words " * 2] for n in range(5)})

    output.show_on(screen, rows, "Rows")

    assert [line for line in screen.lines if line != line.rstrip()] == []


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        (("batches",), ["silver/sales", "2017-01-06", "held"]),
        (("watermarks", "show"), [LONG_NAME, "gold/daily_product_sales", "2017-01-05"]),
        (("watermarks", "history", "bronze/events"), ["2017-01-05"]),
    ],
    ids=str,
)
def test_a_command_keeps_them_whole(
    screen: Narrow, lake: Settings, words: tuple[str, ...], whole: list[str]
) -> None:
    done = CliRunner().invoke(main, words)

    assert done.exit_code == 0, done.exception
    found = {word for line in screen.lines for word in line.split()}
    assert set(whole) <= found
    assert max(map(len, screen.lines)) <= COLUMNS


def test_the_demo_shows_days_and_tables_whole(screen: Narrow, lake: Settings) -> None:
    show.show(lake, tables(), None, screen, each_day=True)

    lines = screen.lines
    assert lines[3].split() == [
        "day,",
        "table",
        "rows",
        "in",
        "rows",
        "out",
        "quarantined",
        "late",
        "state",
    ]
    day = lines.index(next(line for line in lines if line.strip() == "2017-01-05"))
    assert [line.split()[0] for line in lines[day + 1 : day + 3]] == [
        "bronze/events",
        "silver/sales",
    ]
    assert max(len(line) for line in lines if "incremental-assets" not in line) <= COLUMNS


def test_the_demo_shows_each_table_once_and_what_is_held(screen: Narrow, lake: Settings) -> None:
    show.show(lake, tables(), None, screen)

    shown = {line.split()[0]: line for line in screen.lines if line.strip()}
    assert "1 day held" in shown["silver/sales"]
    assert "gate accept silver/sales 2017-01-06" in "".join(screen.lines)
    assert max(len(line) for line in screen.lines if "incremental-assets" not in line) <= COLUMNS


@pytest.mark.parametrize("each_day", [True, False])
def test_the_demo_begins_with_its_result_in_a_line(
    screen: Narrow, lake: Settings, *, each_day: bool
) -> None:
    ledger = Ledger(ledger_path(lake.lake))
    for day, rows in ((7, 1_000), (8, 234)):
        landed = replace(did(EVENTS, day, day), rows_read=rows)
        ledger.transact_on(EVENTS.name, lambda _, e=landed: [e])  # type: ignore[misc]

    show.show(lake, tables(), None, screen, each_day=each_day)

    first, blank, title, *_ = screen.lines
    assert first == ("In short: 2 tables, 4 days, 1,234 rows landed, 0 in quarantine, 1 day held.")
    assert (blank, title.partition(":")[0].partition(",")[0]) == ("", "What was loaded")


def test_the_demo_says_in_short_that_nothing_is_held(screen: Narrow, settings: Settings) -> None:
    show.show(settings, tables(), None, screen)

    assert screen.lines[0] == (
        "In short: 0 tables, 0 days, 0 rows landed, 0 in quarantine, nothing held."
    )


@pytest.mark.parametrize(
    ("rows_in", "rows_out", "state"),
    [(5, 4, "ok"), (0, 4, "ok"), (5, 0, "ok, no change"), (0, 0, "ok, no rows")],
)
@pytest.mark.parametrize("each_day", [True, False])
def test_the_demo_says_why_nothing_came_out(
    screen: Narrow, monkeypatch: pytest.MonkeyPatch, lake: Settings, rows_in: int, rows_out: int,
    state: str, *, each_day: bool,
) -> None:  # fmt: skip
    loaded = LoadedDay(date(2017, 1, 5), SALES.name, rows_in, rows_out, 0, 0, 1.0, "committed")
    monkeypatch.setattr(show, "loaded_days", lambda *_: [loaded])

    show.show(lake, tables(), DayRange(loaded.day, loaded.day), screen, each_day=each_day)

    (row,) = [line for line in screen.lines if line.split()[:1] == [SALES.name]]
    assert re.split(r" {2,}", row.strip())[-1] == state


def test_a_value_above_all_others_flattens_no_bar() -> None:
    assert show.bars([900.0, 100.0, 50.0, 0.0], 12) == ["█" * 10 + " »", "█" * 4, "█" * 2, ""]
    assert show.bars([4.0, 2.0], 4) == ["████", "██"]
    assert show.bars([7.0], 4) == ["████"]
    assert show.bars([0.0], 4) == [""]


@pytest.mark.parametrize("printed", ["batches", "demo"])
def test_a_pipe_has_room_for_all_columns(
    lake: Settings, printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    done = CliRunner().invoke(main, [printed] if printed == "batches" else ["demo", "show"])

    assert done.exit_code == 0, done.exception
    headers = [set(line.split()) for line in done.output.splitlines() if line.startswith("table")]
    assert [header for header in headers if {"table", "quarantined", "state"} <= header]
    assert "The screen is too narrow" not in done.output


@pytest.mark.parametrize(
    ("count", "line"),
    [
        (1, "t0"),
        (4, "t0, t1, t2, t3"),
        (5, "t0, t1, t2 and 2 more"),
        (15, "all 15 tables"),
    ],
)
def test_a_run_of_many_tables_does_not_name_them_all(count: int, line: str) -> None:
    assert tables_in_brief([f"t{number}" for number in range(count)], 15) == line


@pytest.mark.parametrize("width", range(78, 130, 3))
def test_a_folded_text_loses_nothing_at_any_width(width: int) -> None:
    reasons = [
        "gold/sales_mart batch 2",
        "silver/sales batch 3; a day of 4,037 rows is rebuilt as fast as it is merged into",
    ]
    rows = pl.DataFrame(
        {"table": [LONG_NAME, "gold/sales"], "day": ["2017-01-03"] * 2, "why": reasons}
    )
    seen = StringIO()
    output.show_on(Screen(seen, width=width, force_terminal=True, color_system=None), rows, "x")

    shown = seen.getvalue()
    letters = sum(map(str.isalnum, "".join(reasons)))
    others = "x" + "tabledaywhy" + LONG_NAME + "gold/sales" + "2017-01-03" * 2
    assert sum(map(str.isalnum, shown)) == letters + sum(map(str.isalnum, others))
    assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize("force", [{}, {"FORCE_COLOR": "1"}, {"TTY_COMPATIBLE": "1"}], ids=str)
def test_in_a_pipe_a_row_is_one_line_however_long(
    monkeypatch: pytest.MonkeyPatch, force: dict[str, str]
) -> None:
    for name, value in force.items():
        monkeypatch.setenv(name, value)
    pipe = StringIO()
    monkeypatch.setattr(output, "OUT", Screen(pipe))
    row = {"reason": "why " * 100, "row": '{"a": ' + "1" * 300 + "}"}

    output.show(pl.DataFrame([row, row]), "Rows", as_json=False)

    lines = pipe.getvalue().splitlines()
    assert sum(row["row"] in line and row["reason"].strip() in line for line in lines) == 2


def test_held_days_are_shown_where_other_columns_are_left_out(
    lake: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    screen = Narrow()
    monkeypatch.setattr("incremental_assets.cli.output.OUT", screen)

    CliRunner().invoke(main, ["watermarks", "show", "bronze/events", "silver/sales"])

    assert any("held_days" in line for line in screen.lines)

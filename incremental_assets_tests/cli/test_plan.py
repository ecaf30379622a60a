"""What `plan` prints: days that are alike are one row, with their sums and with units."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from incremental_assets.catalog import tables
from incremental_assets.cli import output
from incremental_assets.cli.plan import _COLUMNS, _alike, _line, _show
from incremental_assets.days import ONE_DAY
from incremental_assets.ledger.entry import Window
from incremental_assets.plan.forecast import Forecast, PlannedDay
from incremental_assets.screen import Screen
from incremental_assets.settings import Settings
from incremental_assets_tests.cli.conftest import Command


def land(settings: Settings, day: int, files: int) -> None:
    for number in range(files):
        file = Path(settings.landing) / f"events/2017-01-{day:02d}/{number}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x" * 1499 + "\n")


def cells(printed: str) -> list[list[str]]:
    """The rows of the table of a plan, split where columns are two spaces apart."""
    return [
        [cell.strip() for cell in line.split("  ") if cell.strip()]
        for line in printed.splitlines()
        if re.match(r" +\d  ", line)
    ]


def test_days_that_are_alike_are_one_row_with_their_sums(
    settings: Settings, command: Command
) -> None:
    for day, files in ((2, 1), (3, 2), (4, 1), (7, 3)):
        land(settings, day, files)

    done = command("plan", "bronze/events", "silver/sales")

    assert cells(done.stdout) == [
        ["1", "bronze/events", "2017-01-02...2017-01-04", "append", "4 files", "6.0 kB", "first load of these days (4 files)"],
        ["1", "silver/sales", "2017-01-02...2017-01-04", "append", "bronze/events 0..1", "first load of these days (bronze/events batch 1)"],
        ["2", "bronze/events", "2017-01-07", "append", "3 files", "4.5 kB", "first load of this day (3 files)"],
        ["2", "silver/sales", "2017-01-07", "append", "bronze/events 0..2", "first load of this day (bronze/events batch 2)"],
    ]  # fmt: skip


def test_a_table_that_cannot_be_planned_is_named_below_the_plan_of_the_others(
    settings: Settings, command: Command
) -> None:
    land(settings, 2, 1)
    broken = Path(settings.landing, "orders/_delta_log", f"{0:020}.json")
    broken.parent.mkdir(parents=True)
    broken.write_text("no commit")

    done = command("plan", "bronze/events", "bronze/orders")

    assert done.exit_code == 1
    assert [row[1] for row in cells(done.stdout)] == ["bronze/events"]
    assert done.stderr.count("Error:") == 1
    assert "bronze/orders" in done.stderr


def planned(day: int, reason: str, rows: int | None = 1) -> PlannedDay:
    return PlannedDay(
        run=1, batch=1, table="bronze/events", day=date(2017, 1, day), mode="append", kind="advance",
        windows=(), files=1, rows=rows, bytes=5, is_estimate=True, seconds=None, reason=reason,
        may_follow=(), unknown="",
    )  # fmt: skip


def test_reasons_that_somebody_gave_stay_apart_and_what_is_not_known_is_no_sum() -> None:
    days = [
        planned(1, "1 file again: rewound by ann: ticket 7"),
        planned(2, "2 files again: rewound by ann: ticket 7", None),
        planned(3, "1 file again: rewound by ann: ticket 9"),
    ]

    ranges = list(_alike(days))

    assert [[day.day.day for day in some] for some in ranges] == [[1, 2], [3]]
    line = _line(ranges[0])
    assert (line["rows"], line["bytes"]) == ("≥~1", "10 B")
    assert line["reason"] == (
        "1 file again: rewound by ann: ticket 7 … 2 files again: rewound by ann: ticket 7"
    )


def test_the_json_has_a_row_for_each_day(settings: Settings, command: Command) -> None:
    for day in (2, 3):
        land(settings, day, 1)

    done = command("plan", "bronze/events", "--json")

    assert done.stdout.count('"table":"bronze/events"') == 2


def test_batches_of_the_days_of_a_range_are_its_first_and_its_last() -> None:
    reasons = ("batch 1", "batch 2", "2 batches up to 12")
    first = [planned(n, f"first load of this day (bronze/t {r})") for n, r in enumerate(reasons, 1)]
    later = [planned(n, f"bronze/t has changed (batch {n}{n})") for n in (1, 2)]

    ((few,), (many,)) = (
        [_line(some)["reason"] for some in _alike(days)] for days in (later, first)
    )

    assert few == "bronze/t has changed (batch 11 … 22)"
    assert many == (
        "first load of these days (bronze/t batch 1) … "
        "first load of this day (bronze/t 2 batches up to 12)"
    )


def longest() -> Forecast:
    """A range of days of each retail table with an upstream, with the figures of a large shop."""
    days = []
    for table in (table for table in tables() if table.upstreams):
        windows = tuple(Window(read.table.name, 98, 101) for read in table.upstreams)
        why = ", ".join(f"{window.upstream} has changed (batch 101)" for window in windows)
        one = replace(planned(1, why, 1_234_567), table=table.name, mode="rebuild", files=0)
        one = replace(one, windows=windows, bytes=123_456_789, seconds=1234.5)
        days += [one, replace(one, day=one.day + ONE_DAY)]
    return Forecast(tuple(days), (), ())


def printed(found: Forecast, width: int | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a plan, on a terminal of a width or in a pipe."""
    seen = StringIO()
    terminal: dict[str, Any] = {"width": width, "force_terminal": True, "color_system": None}
    screen = Screen(seen, **(terminal if width else {}))
    monkeypatch.setattr(output, "OUT", screen)
    monkeypatch.setattr("incremental_assets.cli.plan.OUT", screen)
    _show(found, 0, [])
    return seen.getvalue().splitlines()


def squeezed(text: object) -> str:
    return "".join(str(text).split())


def rows_of(lines: list[str]) -> list[dict[str, str]]:
    """The rows of a table that is printed, with what is folded in one piece again."""
    header = lines[1]
    begins = [match.start() for match in re.finditer(r"\S+", header)]
    found: list[dict[str, str]] = []
    for line in lines[3:]:
        if not line.startswith("  "):
            break
        cells = [line[slice(*ends)] for ends in pairwise([*begins, len(line) + 120])]
        row = dict(zip(header.split(), map(squeezed, cells), strict=True))
        if row["run"]:
            found.append(row)
        else:
            found[-1] = {name: found[-1][name] + more for name, more in row.items()}
    return found


@pytest.mark.parametrize("width", [120, 160])
def test_it_fits_120_columns_with_all_columns_and_the_longest_names(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = longest()

    lines = printed(found, width, monkeypatch)

    expected = [_line(some) for some in _alike(found.days)]
    assert {"silver/inventory_movements", "gold/daily_product_sales"} <= {
        line["table"] for line in expected
    }
    assert rows_of(lines) == [{n: squeezed(v) for n, v in line.items()} for line in expected]
    assert lines[1].split() == list(_COLUMNS)
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [80, 100, None])
def test_nothing_is_cut_on_a_narrow_screen_and_in_a_pipe(
    width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = longest()

    lines = printed(found, width, monkeypatch)

    shown = squeezed("".join(lines))
    values = [value for some in _alike(found.days) for value in _line(some).values()]
    assert [value for value in values if squeezed(value) not in shown] == []


def test_days_are_whole_where_only_long_texts_have_to_be_folded(
    settings: Settings, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 32):
        land(settings, day, 1)
    terminal = Screen(StringIO(), width=120, force_terminal=True, color_system=None)
    monkeypatch.setattr(output, "OUT", terminal)

    command("plan")

    assert isinstance(terminal.file, StringIO)
    _, header, _, *rows = terminal.file.getvalue().splitlines()
    assert header.split() == list(_COLUMNS)
    assert sum("2017-01-01...2017-01-31" in row for row in rows) == 5  # events and what is above
    assert max(len(row.rstrip()) for row in rows if row.startswith("  1")) <= 120

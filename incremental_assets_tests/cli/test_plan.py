"""What `plan` prints: days that are alike are one row, with their sums and with units."""

from __future__ import annotations

import re
from datetime import date
from io import StringIO
from pathlib import Path

import pytest

from incremental_assets.cli import output
from incremental_assets.cli.plan import _alike, _line
from incremental_assets.plan.forecast import PlannedDay
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
        ["1", "bronze/events", "2017-01-02...2017-01-04", "append", "4 files", "6.0 kB", "4 new files"],
        ["1", "silver/sales", "2017-01-02...2017-01-04", "append", "bronze/events 0..1", "bronze/events batch 1"],
        ["2", "bronze/events", "2017-01-07", "append", "3 files", "4.5 kB", "3 new files"],
        ["2", "silver/sales", "2017-01-07", "append", "bronze/events 0..2", "bronze/events batch 2"],
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


def test_it_fits_120_columns_with_all_that_decides(
    settings: Settings, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 32):
        land(settings, day, 1)
    seen = StringIO()
    terminal = Screen(seen, width=120, force_terminal=True, color_system=None)
    monkeypatch.setattr(output, "OUT", terminal)

    command("plan")

    _, header, _, *rows = seen.getvalue().splitlines()
    assert {"run", "table", "days", "mode", "reason"} <= set(header.split())
    assert sum("2017-01-01...2017-01-31" in row for row in rows) == 5  # events and what is above
    assert max(len(row.rstrip()) for row in rows if row.startswith("  1")) <= 120

"""The exit status of `run`, and what it says, where something is still due at its end."""

from __future__ import annotations

import json
from datetime import date

import pytest
from click.testing import CliRunner, Result

from incremental_assets.cli import main
from incremental_assets.days import DayRange
from incremental_assets.orchestration import runs
from incremental_assets.orchestration.runs import RunReport
from incremental_assets.plan.due import Due
from incremental_assets.plan.rounds import Left
from incremental_assets_tests.plan.ledgers import SALES

DAYS = DayRange(date(2017, 1, 5), date(2017, 1, 6))


def ended(monkeypatch: pytest.MonkeyPatch, *words: str, came_later: bool) -> Result:
    """How the command ends where sales are due at the end of its runs."""
    left = Left(Due((SALES,), DAYS, "batch 7 is not read"), came_later)
    monkeypatch.setattr(runs, "run_what_is_due", lambda *_: RunReport(left=[left]))
    return CliRunner().invoke(main, ["run", *words])


def test_what_was_run_and_is_due_still_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    done = ended(monkeypatch, came_later=False)

    assert done.exit_code == 1
    assert (
        f"left silver/sales {DAYS}: batch 7 is not read. It was run and is still due" in done.output
    )
    told = json.loads(ended(monkeypatch, "--json", came_later=False).stdout)
    assert told["left"] == [
        {
            "table": "silver/sales",
            "first_day": "2017-01-05",
            "last_day": "2017-01-06",
            "why": "batch 7 is not read",
            "came_later": False,
        }
    ]


def test_what_came_meanwhile_is_named_and_left_to_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = ended(monkeypatch, came_later=True)

    assert done.exit_code == 0
    assert (
        f"silver/sales {DAYS}: batch 7 is not read. It landed during this run: run" in done.output
    )

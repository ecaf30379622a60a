"""The exit status of `run`, and what it says, where something is still due at its end."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date

import pytest
from click.testing import CliRunner, Result

from incremental_assets.cli import main
from incremental_assets.days import DayRange
from incremental_assets.operations.run_report import Ran, RunReport
from incremental_assets.orchestration import runs
from incremental_assets.plan.due import Due
from incremental_assets.plan.rounds import Left
from incremental_assets_tests.plan.ledgers import SALES, did

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
    shown = json.loads(ended(monkeypatch, "--json", came_later=False).stdout)
    assert shown["left"] == [
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


@pytest.mark.parametrize(("run_id", "status"), [("this run", 1), ("a run before", 3)])
def test_a_day_that_was_held_before_is_told_apart_from_one_that_is_held_now(
    monkeypatch: pytest.MonkeyPatch, run_id: str, status: int
) -> None:
    entry = replace(did(SALES, 2, 6, state="held"), run_id=run_id, held_by="row_count: 0 rows")
    ran = Ran("this run", Due((SALES,), DAYS, "new"), success=False)
    said = "silver/sales: 2017-01-06 not published."
    report = RunReport(runs=[ran], held=[entry])
    if status == 1:
        report.failed, report.by_gates = [said], {said}
    monkeypatch.setattr(runs, "run_what_is_due", lambda *_: report)

    done = CliRunner().invoke(main, ["run"])

    assert done.exit_code == status
    assert "held silver/sales 2017-01-06 by batch 2: row_count: 0 rows. Repair" in done.output
    assert said not in done.output  # once is enough
    assert CliRunner().invoke(main, ["run", "--held-ok"]).exit_code == 0


def test_a_failure_that_is_not_of_a_held_day_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    report = RunReport(failed=["silver/sales: 2017-01-06 not published."])
    monkeypatch.setattr(runs, "run_what_is_due", lambda *_: report)

    for words in (["run"], ["run", "--held-ok"]):
        done = CliRunner().invoke(main, words)

        assert (done.exit_code, "failed silver/sales" in done.output) == (1, True)

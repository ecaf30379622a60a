"""Everything that is due, loaded without Dagster: what is loaded, what the report and its status are."""

from __future__ import annotations

from dataclasses import replace

from incremental_assets.operations.load_due import run_in_this_process
from incremental_assets.operations.run_report import FAILED, HELD_BEFORE, RunReport
from incremental_assets.plan.due import Due
from incremental_assets.quality.rules import fail, one_of, quarantine, quarantined_share
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_rules import DAY, booking, bookings, landed, per_train
from incremental_assets_tests.feeds.world import Lake

NEXT = "2017-01-06"
RULES = (*quarantine(one_of("train", ("t1", "t2"))), *fail(quarantined_share(0.1)))


def run(station: Lake, begun: list[Due]) -> RunReport:
    return run_in_this_process(station.lakehouse, list(station.tables.values()), None, begun.append)


def test_a_held_day_is_reported_once_as_new_and_what_is_built_on_it_waits(lake: Lakes) -> None:
    station = lake(landed("bookings"), bookings(*RULES), per_train())
    station.land("bookings", DAY, "1.jsonl", [booking("a", "1"), booking("b", "2", "nowhere")])
    station.land("bookings", NEXT, "1.jsonl", [booking("c", "3", at=f"{NEXT}T10:00")])
    begun: list[Due] = []

    first = run(station, begun)

    assert station.rows("gold/per_train", "train", "seats") == [("t1", 1)]
    assert (first.status, first.only_held, len(first.failed)) == (FAILED, True, 1)
    assert "silver/bookings: 2017-01-05 not published." in first.failed[0]
    assert [(entry.table, str(entry.day)) for entry in first.held] == [("silver/bookings", DAY)]
    assert {entry.run_id for entry in first.loaded} <= {each.run_id for each in first.runs}
    assert [each.due for each in first.runs] == begun
    again = run(station, [])
    assert (again.status, again.runs, again.failed, again.loaded) == (HELD_BEFORE, [], [], [])

    station.land("bookings", DAY, "1.jsonl", [booking("a", "1"), booking("b", "2")])
    assert run(station, []).status == 0
    assert station.rows("gold/per_train", "train", "seats") == [("t1", 1), ("t1", 2)]


def test_a_table_that_ends_in_an_unforeseen_error_does_not_keep_the_others_back(
    lake: Lakes,
) -> None:
    broken = replace(bookings(), name="silver/broken", transform=lambda rows: {}[rows])
    station = lake(landed("bookings"), broken, bookings(), per_train())
    station.land("bookings", DAY, "1.jsonl", [booking("a", "1")])

    report = run(station, [])

    assert station.rows("gold/per_train", "train", "seats") == [("t1", 1)]
    assert report.status == FAILED
    (failed,) = report.failed
    assert failed.startswith("silver/broken: KeyError: ")

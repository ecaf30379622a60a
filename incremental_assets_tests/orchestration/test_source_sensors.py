"""The sensors of the sources: what they ask for, once, how often again, and what they say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import IO

import dagster as dg
import pytest

from incremental_assets.days import DayRange
from incremental_assets.errors import SourceError
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START
from incremental_assets.orchestration.requests import ASKED_FOR
from incremental_assets.settings import Settings
from incremental_assets.storage import open_file
from incremental_assets_tests.orchestration.ticks import LATE, Ticks, land, spans
from incremental_assets_tests.plan.ledgers import EVENTS, MART, SALES, USERS, did, jan


@pytest.fixture
def events(settings: Settings, instance: dg.DagsterInstance) -> Ticks:
    return Ticks(settings, instance, EVENTS, USERS, SALES, MART)


def test_days_with_new_files_are_asked_for_in_ranges_with_all_that_is_built_on_them(
    events: Ticks,
) -> None:
    assert events.skipped() == "Nothing is new."
    for day in (2, 3, 7):
        land(events.settings, jan(day))

    first, second = events.requests()

    assert spans([first, second]) == ["2017-01-02...2017-01-03", "2017-01-07"]
    assert [key.to_user_string() for key in first.asset_selection or ()] == [
        "bronze/events",
        "silver/users",
        "silver/sales",
        "gold/mart",
    ]
    assert (first.run_key or "").startswith("bronze/events 2017-01-02...2017-01-03:")
    assert (first.run_key or "").endswith(":1")
    events.load(2, 3)
    (left,) = events.requests()
    assert left.run_key == second.run_key


def test_the_same_state_has_the_same_key_and_another_state_another(events: Ticks) -> None:
    file = land(events.settings, jan(2))
    (first,) = events.requests()
    (same,) = events.requests()
    land(events.settings, jan(2), "b.jsonl")
    (more,) = events.requests()
    file.write_text("{ }\n")
    (changed,) = events.requests()

    keys = [request.run_key for request in (first, same, more, changed)]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3


def test_the_same_landing_is_asked_for_by_each_lake_that_it_is_loaded_into(
    settings: Settings, instance: dg.DagsterInstance
) -> None:
    land(settings, jan(2))
    for number in range(4):
        lake = Ticks(settings.replace(lake=f"{settings.lake}{number}"), instance, EVENTS)

        request = lake.ran_only(dg.DagsterRunStatus.SUCCESS)

        assert (request.run_key or "").endswith(":1")  # what another lake has loaded is no attempt
        lake.load(2)
        assert lake.skipped() == "Nothing is new."


def test_a_day_that_a_run_under_way_has_is_left_to_it_and_asked_for_after_that(
    events: Ticks,
) -> None:
    land(events.settings, jan(2))
    (request,) = events.requests()
    run = events.ran(request, dg.DagsterRunStatus.STARTED)
    land(events.settings, jan(2), "b.jsonl")
    land(events.settings, jan(5))

    (other,) = events.requests()
    assert spans([other]) == ["2017-01-05"]
    events.instance.report_run_failed(run)

    assert spans(events.requests()) == ["2017-01-02", "2017-01-05"]


@pytest.mark.parametrize(
    ("tags", "covers"),
    [
        ({"dagster/partition": "2017-01-02"}, True),
        ({RANGE_START: "2017-01-01", RANGE_END: "2017-01-09"}, True),
        ({"dagster/partition": "2017-01-03"}, False),
        ({"dagster/partition": "not a day"}, False),
        ({}, False),
    ],
    ids=["its day", "a range", "another day", "another partition", "no partition"],
)
def test_runs_and_backfills_from_the_ui_count_as_under_way(
    events: Ticks, tags: dict[str, str], covers: bool
) -> None:
    land(events.settings, jan(2))
    starting = dg.DagsterRun("load_days", tags=tags, status=dg.DagsterRunStatus.STARTING)
    events.instance.add_run(starting)

    if covers:
        assert events.skipped() == "bronze/events: A run over 2017-01-02 is in progress."
    else:
        assert spans(events.requests()) == ["2017-01-02"]


@pytest.mark.parametrize(
    ("job", "assets"),
    [("load_days", frozenset([dg.AssetKey(["silver", "sales"])])), ("their_daily_job", None)],
    ids=["of other tables", "of another job"],
)
def test_a_run_that_does_not_load_the_table_keeps_nothing_back(
    events: Ticks, job: str, assets: frozenset[dg.AssetKey] | None
) -> None:
    land(events.settings, jan(2))
    other = dg.DagsterRun(
        job,
        tags={"dagster/partition": "2017-01-02"},
        status=dg.DagsterRunStatus.STARTED,
        asset_selection=assets,
    )
    events.instance.add_run(other)

    assert spans(events.requests()) == ["2017-01-02"]


def test_a_run_that_died_is_asked_for_three_times_and_then_when_its_input_changes(
    events: Ticks,
) -> None:
    land(events.settings, jan(2))
    keys = []
    for _ in range(3):
        request = events.ran_only()
        keys.append(request.run_key)

    assert [key[-2:] for key in keys if key] == [":1", ":2", ":3"]
    assert "bronze/events: 2017-01-02 was tried 3 times and is not done" in events.skipped()
    land(events.settings, jan(2), "b.jsonl")
    (again,) = events.requests()
    assert again.tags[ASKED_FOR] != request.tags[ASKED_FOR]


def test_the_last_attempt_takes_the_days_apart_so_that_one_keeps_no_other_back(
    events: Ticks,
) -> None:
    for day in (2, 3, 4):
        land(events.settings, jan(day))
    for _ in range(2):
        assert spans([events.ran_only()]) == ["2017-01-02...2017-01-04"]

    apart = events.requests()
    assert spans(apart) == ["2017-01-02", "2017-01-03", "2017-01-04"]
    events.load(2, 4)
    events.ran(apart[1])

    assert "2017-01-03 was tried 3 times" in events.skipped()
    land(events.settings, jan(4), "b.jsonl")
    assert spans(events.requests()) == ["2017-01-04"]


def test_a_bad_day_is_tried_three_times_though_files_of_the_day_after_it_keep_landing(
    events: Ticks,
) -> None:
    land(events.settings, jan(2))
    keys = set()
    for number in range(2):
        land(events.settings, jan(3), f"{number}.jsonl")
        request = events.ran_only()
        assert spans([request]) == ["2017-01-02...2017-01-03"]
        keys.add(request.run_key)
    land(events.settings, jan(3), "2.jsonl")

    bad, good = events.requests()

    assert spans([bad, good]) == ["2017-01-02", "2017-01-03"]
    assert len({*keys, bad.run_key, good.run_key}) == 4
    events.ran(bad)
    events.load(3)
    land(events.settings, jan(3), "3.jsonl")
    assert spans(events.requests()) == ["2017-01-03"]


def test_many_days_become_ranges_of_a_set_size(events: Ticks) -> None:
    days = list(DayRange(date(2017, 1, 1), date(2017, 3, 10)))
    for day in days:
        land(events.settings, day)
    events.now = datetime(2017, 3, 31, tzinfo=UTC)

    assert spans(events.requests()) == [
        "2017-01-01...2017-01-31",
        "2017-02-01...2017-03-03",
        "2017-03-04...2017-03-10",
    ]


def test_a_held_day_is_asked_for_only_when_its_input_changes_or_somebody_accepts_it(
    events: Ticks,
) -> None:
    file = land(events.settings, jan(2))
    (request,) = events.requests()
    events.load(2, state="held")
    events.ran(request)
    assert events.skipped() == "Nothing is new."

    file.write_text("{ }\n")
    (repaired,) = events.requests()
    assert repaired.run_key != request.run_key

    file.write_text("{}\n")
    assert events.skipped() == "Nothing is new."
    events.write(replace(did(EVENTS, 2, 2), state="accepted", held_by="row_count"))
    (accepted,) = events.requests()
    assert accepted.run_key not in (request.run_key, repaired.run_key)


def test_a_day_that_is_rewound_again_and_again_has_a_key_of_its_own_each_time(
    events: Ticks,
) -> None:
    land(events.settings, jan(2))
    keys = set()
    for _ in range(6):
        keys.add(events.ran_only(dg.DagsterRunStatus.SUCCESS).run_key)
        events.load(2)
        assert events.skipped() == "Nothing is new."
        history = Ledger(ledger_path(events.settings.lake)).view().table(EVENTS.name)
        rewind = did(EVENTS, history.last_batch + 1, 2, kind="rewind")
        events.write(replace(rewind, files=tuple(history.files(jan(2)).values())))

    assert len(keys) == 6


def test_day_folders_outside_the_partitions_are_left_out_and_reported_once(events: Ticks) -> None:
    land(events.settings, date(2016, 12, 30))
    land(events.settings, date(2017, 2, 1))

    message = events.skipped()

    assert "2016-12-30 are before the first partition 2017-01-01" in message
    assert "2017-02-01 are in the future" in message
    assert events.skipped() == "Nothing is new."
    land(events.settings, date(2016, 12, 31))
    assert "2016-12-30...2016-12-31" in events.skipped()
    land(events.settings, jan(2))
    assert spans(events.requests()) == ["2017-01-02"]
    events.now = datetime(2017, 2, 1, tzinfo=UTC)
    assert spans(events.requests()) == ["2017-01-02", "2017-02-01"]


def test_a_source_that_cannot_be_reached_skips_with_the_reason_and_fails_after_half_an_hour(
    events: Ticks,
) -> None:
    land(events.settings, jan(2))
    landing, gone = Path(events.settings.landing), Path(f"{events.settings.landing}.gone")
    landing.rename(gone)

    for minutes in (0, 29):
        events.now = LATE + timedelta(minutes=minutes)
        assert "2017-01-31T12:00:00+00:00: The landing root" in events.skipped()
    events.now = LATE + timedelta(minutes=30)
    with pytest.raises(SourceError, match=r"since 2017-01-31T12.*landing root .* does not exist"):
        events.tick()

    gone.rename(landing)
    assert spans(events.requests()) == ["2017-01-02"]
    landing.rename(gone)
    assert "2017-01-31T12:30:00+00:00: The landing root" in events.skipped()


def test_a_ledger_that_cannot_be_read_is_the_reason_why_nothing_is_asked_for(
    events: Ticks,
) -> None:
    Path(events.settings.lake).write_text("a file where the lake should be")

    assert "lake is not writable" in events.skipped()


def test_a_cursor_of_another_making_is_none(events: Ticks) -> None:
    for text in ("{", "7", "null", '{"older": 1}'):
        events.cursor = text
        assert events.skipped() == "Nothing is new."


def test_a_tick_reads_no_new_file_and_a_loaded_one_once(
    events: Ticks, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = land(events.settings, jan(2))
    events.load(2)
    land(events.settings, jan(3))
    loaded.write_text("{}\n")  # another time, the same content
    opened = []
    real = open_file

    def counting(path: str) -> IO[bytes]:
        opened.append(path)
        return real(path)

    monkeypatch.setattr("incremental_assets.sources.source_file.open_file", counting)

    for _ in range(2):
        assert spans(events.requests()) == ["2017-01-03"]

    assert opened == [str(loaded)]

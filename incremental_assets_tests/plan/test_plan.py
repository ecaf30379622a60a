"""What a load would do, from a landing and from ledgers that are written out by hand."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from incremental_assets.errors import SourceError
from incremental_assets.lake.strategy import Append, Merge, ReplaceDay
from incremental_assets.ledger.entry import Entry, Kind, Mode, State, Touched, Window
from incremental_assets.ledger.view import LedgerView, TableHistory
from incremental_assets.plan import (
    Plan,
    file_entries,
    landing_days_with_news,
    plan_table,
    stale_days,
)
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Text, Timestamp
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import AsOf, ByDay, Table

EVENTS = Table("bronze/events", "", reads=(LandedFiles("events"),), write=Append(), day="at")
USERS = Table(
    "silver/users",
    "",
    reads=(ByDay(EVENTS),),
    key=("user_id",),
    schema=Contract(user_id=Text(), at=Timestamp()),
    write=Merge(),
)
SALES = Table(
    "silver/sales",
    "",
    reads=(ByDay(EVENTS),),
    key=("id",),
    day="at",
    schema=Contract(id=Text(), at=Timestamp()),
    write=Merge(),
)
MART = Table(
    "gold/mart",
    "",
    reads=(ByDay(SALES), AsOf(USERS, key="user_id", at="at", valid_from="at")),
    write=ReplaceDay(),
)


def jan(day: int) -> date:
    return date(2017, 1, day)


def did(
    table: Table,
    batch: int,
    day: int,
    *,
    touched: Sequence[int] = (),
    read: Mapping[str, int] | None = None,
    state: State = "committed",
    kind: Kind = "advance",
    mode: Mode = "merge",
    affects: Sequence[int] | None = (),
) -> Entry:
    """A batch of one day: what it wrote to, and how far it read each upstream."""
    return Entry(
        table=table.name,
        batch=batch,
        day=jan(day),
        state=state,
        kind=kind,
        mode=mode,
        detector="batches",
        recorded_at=datetime(2017, 1, 31, tzinfo=UTC),
        windows=tuple(Window(name, 0, high) for name, high in (read or {}).items()),
        touched=tuple(Touched(jan(d), 1) for d in touched),
        affects=None if affects is None else tuple(jan(d) for d in affects),
        held_by="quarantined_share: 3 of 5" if state == "held" else "",
    )


def ledger(*entries: Entry) -> LedgerView:
    names = {entry.table for entry in entries}
    return LedgerView(
        1, {n: TableHistory(n, tuple(e for e in entries if e.table == n)) for n in names}
    )


EMPTY = ledger()


def by_mode(plan: Plan) -> dict[tuple[Mode, Kind], list[int]]:
    return {(work.mode, work.kind): [day.day for day in work.days] for work in plan.work}


def planned(table: Table, days: Sequence[int], view: LedgerView, settings: Settings) -> Plan:
    return plan_table(table, [jan(day) for day in days], view, settings)


def stale(table: Table, view: LedgerView) -> dict[int, str]:
    return {day.day: why for day, why in stale_days(table, view, jan(1), jan(31)).items()}


# Landed files


def land(settings: Settings, day: int, name: str, content: str = "{}\n") -> Path:
    file = Path(settings.landing) / "events" / str(jan(day)) / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    return file


def loaded(settings: Settings, view: LedgerView, *days: int) -> LedgerView:
    """The ledger after the days' files were loaded, in one batch for each piece of work."""
    number = view.table(EVENTS.name).last_batch
    entries = list(view.table(EVENTS.name).entries)
    for work in planned(EVENTS, days, view, settings).work:
        number += 1
        for day, todo in work.days.items():
            entry = did(EVENTS, number, day.day, kind=work.kind, mode=work.mode)
            entries.append(replace(entry, files=file_entries(todo.files)))
    return ledger(*entries)


def test_new_files_are_appended_and_days_without_files_are_idle(settings: Settings) -> None:
    land(settings, 1, "a.jsonl")
    land(settings, 1, "b.jsonl")
    land(settings, 3, "c.jsonl")

    plan = planned(EVENTS, [1, 2, 3], EMPTY, settings)

    assert by_mode(plan) == {("append", "advance"): [1, 3]}
    assert plan.idle == (jan(2),)
    assert plan.days == (jan(1), jan(3))
    work = plan.work[0].days[jan(1)]
    assert [file.path for file in work.files] == [
        "events/2017-01-01/a.jsonl",
        "events/2017-01-01/b.jsonl",
    ]
    assert all(file.tag for file in work.files)
    assert work.why == "2 new files"


def test_only_the_days_that_are_asked_for_are_planned(settings: Settings) -> None:
    land(settings, 1, "a.jsonl")
    land(settings, 2, "b.jsonl")

    assert planned(EVENTS, [2], EMPTY, settings).days == (jan(2),)


def test_loaded_files_are_idle_even_when_touched_or_archived(settings: Settings) -> None:
    touched, archived = land(settings, 1, "a.jsonl"), land(settings, 1, "b.jsonl")
    view = loaded(settings, EMPTY, 1)
    os.utime(touched, (0, 0))
    archived.unlink()

    plan = planned(EVENTS, [1], view, settings)

    assert (plan.work, plan.idle) == ((), (jan(1),))


def test_a_file_that_came_later_is_appended_alone(settings: Settings) -> None:
    land(settings, 1, "a.jsonl")
    view = loaded(settings, EMPTY, 1)
    land(settings, 1, "b.jsonl")

    plan = planned(EVENTS, [1], view, settings)

    assert by_mode(plan) == {("append", "advance"): [1]}
    assert [f.path for f in plan.work[0].days[jan(1)].files] == ["events/2017-01-01/b.jsonl"]


def test_a_repaired_file_restates_its_day_together_with_what_is_new(settings: Settings) -> None:
    repaired = land(settings, 1, "a.jsonl", "bad\n")
    land(settings, 1, "same.jsonl")
    view = loaded(settings, EMPTY, 1)
    repaired.write_text("{ }\n")
    os.utime(repaired, (0, 0))
    land(settings, 1, "b.jsonl")
    land(settings, 2, "c.jsonl")

    plan = planned(EVENTS, [1, 2], view, settings)

    assert by_mode(plan) == {("append", "advance"): [2], ("rebuild", "restate"): [1]}
    work = plan.work[1].days[jan(1)]
    assert [f.path for f in work.changed] == ["events/2017-01-01/a.jsonl"]
    assert [f.path for f in work.files] == [
        "events/2017-01-01/b.jsonl",
        "events/2017-01-01/a.jsonl",
    ]
    assert work.why == "1 loaded files changed, 1 new"


def test_a_repaired_file_is_known_once_it_was_loaded_again(settings: Settings) -> None:
    repaired = land(settings, 1, "a.jsonl", "bad\n")
    view = loaded(settings, EMPTY, 1)
    repaired.write_text("{ }  \n")
    view = loaded(settings, view, 1)

    assert planned(EVENTS, [1], view, settings).idle == (jan(1),)


def test_planning_without_a_landing_is_an_error(settings: Settings) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        planned(EVENTS, [1], EMPTY, replace(settings, landing="/nowhere"))


def test_landing_days_with_news_are_those_inside_the_partitions(settings: Settings) -> None:
    for day in (1, 2, 3):
        land(settings, day, "a.jsonl")
    view = loaded(settings, EMPTY, 2)

    found = landing_days_with_news(EVENTS, view, settings, jan(2), jan(31))

    assert found == {jan(3): "1 new files"}


def test_a_held_landing_day_is_news_only_when_its_files_change(settings: Settings) -> None:
    file = land(settings, 1, "a.jsonl", "")
    files = file_entries(planned(EVENTS, [1], EMPTY, settings).work[0].days[jan(1)].files)
    view = ledger(replace(did(EVENTS, 1, 1, state="held"), files=files))

    before = landing_days_with_news(EVENTS, view, settings, jan(1), jan(31))
    file.write_text("{}\n")
    after = landing_days_with_news(EVENTS, view, settings, jan(1), jan(31))

    assert (before, after) == ({}, {jan(1): "1 new files"})


# Silver


def test_a_table_whose_upstream_was_never_loaded_is_idle(settings: Settings) -> None:
    plan = planned(SALES, [1, 2], EMPTY, settings)

    assert (plan.work, plan.idle) == ((), (jan(1), jan(2)))


def test_the_first_rows_of_a_day_are_appended(settings: Settings) -> None:
    view = ledger(did(EVENTS, 1, 1, touched=[1, 2]))

    plan = planned(SALES, [1, 2, 3], view, settings)

    assert by_mode(plan) == {("append", "advance"): [1, 2]}
    assert plan.idle == (jan(3),)
    assert plan.work[0].days[jan(1)].windows == (Window(EVENTS.name, 0, 1),)
    assert plan.work[0].days[jan(1)].why == "bronze/events batch 1"


def test_later_rows_of_a_day_are_merged_from_its_watermark_on(settings: Settings) -> None:
    view = ledger(
        did(EVENTS, 1, 1, touched=[1]),
        did(EVENTS, 2, 2, touched=[2, 1]),
        did(EVENTS, 3, 3, touched=[3, 1]),
        did(SALES, 1, 1, touched=[1], read={EVENTS.name: 1}),
    )

    plan = planned(SALES, [1, 2], view, settings)

    assert by_mode(plan) == {("append", "advance"): [2], ("merge", "advance"): [1]}
    merged = plan.work[1].days[jan(1)]
    assert merged.windows == (Window(EVENTS.name, 1, 3),)
    assert merged.why == "bronze/events 2 batches up to 3"


def test_where_a_key_may_lie_in_any_day_only_the_first_load_appends(settings: Settings) -> None:
    first = ledger(did(EVENTS, 1, 1, touched=[1]))
    second = ledger(
        did(EVENTS, 1, 1, touched=[1]),
        did(USERS, 1, 1, touched=[1], read={EVENTS.name: 1}),
        did(EVENTS, 2, 2, touched=[2]),
    )

    assert by_mode(planned(USERS, [1], first, settings)) == {("append", "advance"): [1]}
    assert by_mode(planned(USERS, [2], second, settings)) == {("merge", "advance"): [2]}


def test_a_restated_batch_in_the_window_rebuilds_the_days_that_it_touched(
    settings: Settings,
) -> None:
    view = ledger(
        did(EVENTS, 1, 1, touched=[1, 2]),
        did(SALES, 1, 1, touched=[1, 2], read={EVENTS.name: 1}),
        did(SALES, 1, 2, read={EVENTS.name: 1}),
        did(EVENTS, 2, 1, touched=[1], kind="restate", mode="rebuild"),
        did(EVENTS, 3, 2, touched=[2]),
    )

    plan = planned(SALES, [1, 2], view, settings)

    assert by_mode(plan) == {("merge", "advance"): [2], ("rebuild", "restate"): [1]}


def test_a_restatement_that_was_read_rebuilds_nothing_again(settings: Settings) -> None:
    view = ledger(
        did(EVENTS, 1, 1, touched=[1], kind="restate", mode="rebuild"),
        did(SALES, 1, 1, touched=[1], read={EVENTS.name: 1}),
        did(EVENTS, 2, 1, touched=[1]),
    )

    assert by_mode(planned(SALES, [1], view, settings)) == {("merge", "advance"): [1]}


def test_a_day_that_has_read_everything_is_idle(settings: Settings) -> None:
    view = ledger(
        did(EVENTS, 1, 1, touched=[1]), did(SALES, 1, 1, touched=[1], read={EVENTS.name: 1})
    )

    plan = planned(SALES, [1], view, settings)

    assert (plan.work, plan.idle) == ((), (jan(1),))


def test_a_day_whose_upstream_is_held_is_refused_with_the_reason(settings: Settings) -> None:
    view = ledger(
        did(EVENTS, 1, 1, touched=[1]),
        did(EVENTS, 2, 1, state="held"),
        did(EVENTS, 3, 2, touched=[2]),
    )

    plan = planned(SALES, [1, 2], view, settings)

    assert plan.refused == {
        jan(1): "bronze/events 2017-01-01 is held since batch 2: quarantined_share: 3 of 5. "
        "Repair its input and run that day again"
    }
    assert plan.days == (jan(2),)


def test_an_unfinished_batch_upstream_is_not_there_yet(settings: Settings) -> None:
    view = ledger(did(EVENTS, 1, 1, touched=[1], state="claimed"))

    assert planned(SALES, [1], view, settings).idle == (jan(1),)


# Gold


def test_gold_makes_its_changed_days_anew(settings: Settings) -> None:
    view = ledger(
        did(SALES, 1, 1, touched=[1]), did(SALES, 1, 2, touched=[2]), did(USERS, 4, 1, touched=[1])
    )

    plan = planned(MART, [1, 2], view, settings)

    assert by_mode(plan) == {("rebuild", "advance"): [1, 2]}
    assert plan.work[0].days[jan(1)].windows == (
        Window(SALES.name, 0, 1),
        Window(USERS.name, 0, 4),
    )


def test_a_held_lookup_of_the_same_date_refuses_the_day(settings: Settings) -> None:
    view = ledger(
        did(SALES, 1, 1, touched=[1]), did(SALES, 1, 2, touched=[2]), did(USERS, 1, 1, state="held")
    )

    plan = planned(MART, [1, 2], view, settings)

    assert list(plan.refused) == [jan(1)]
    assert plan.days == (jan(2),)


# Stale days


def test_a_late_row_makes_only_its_own_day_stale() -> None:
    days = range(1, 6)
    view = ledger(
        *(did(EVENTS, day, day, touched=[day]) for day in days),
        *(did(SALES, day, day, touched=[day], read={EVENTS.name: day}) for day in days),
        did(EVENTS, 6, 6, touched=[2]),
    )

    assert stale(SALES, view) == {2: "bronze/events batch 6"}


def test_a_day_that_was_never_loaded_is_stale_and_one_outside_the_partitions_is_not() -> None:
    view = ledger(did(EVENTS, 1, 3, touched=[1, 2, 3]))

    assert list(stale_days(SALES, view, jan(2), jan(2))) == [jan(2)]
    assert list(stale_days(SALES, view, jan(2), jan(31))) == [jan(2), jan(3)]


def test_nothing_is_stale_where_everything_was_read() -> None:
    view = ledger(
        did(EVENTS, 1, 1, touched=[1]), did(SALES, 1, 1, touched=[1], read={EVENTS.name: 1})
    )

    assert stale(SALES, view) == {}
    assert stale(SALES, EMPTY) == {}


def test_a_changed_lookup_makes_just_the_fact_days_stale_that_it_affects() -> None:
    seen = {SALES.name: 1, USERS.name: 1}
    view = ledger(
        *(did(SALES, 1, day, touched=[day]) for day in (1, 2, 3)),
        did(USERS, 1, 1, touched=[1]),
        *(did(MART, 1, day, touched=[day], read=seen) for day in (1, 2, 3)),
        did(USERS, 2, 4, touched=[4], affects=[2]),
    )

    assert stale(MART, view) == {2: "silver/users batch 2"}


def test_a_lookup_of_which_nobody_knows_whom_it_affects_makes_every_fact_day_stale() -> None:
    seen = {SALES.name: 1, USERS.name: 1}
    view = ledger(
        *(did(SALES, 1, day, touched=[day]) for day in (1, 2)),
        did(USERS, 1, 1, touched=[1]),
        *(did(MART, 1, day, touched=[day], read=seen) for day in (1, 2)),
        did(USERS, 2, 4, touched=[4], affects=None),
    )

    assert list(stale(MART, view)) == [1, 2]


def test_a_held_day_is_not_asked_for_again_until_its_input_changes() -> None:
    held = (did(EVENTS, 1, 1, touched=[1]), did(SALES, 1, 1, read={EVENTS.name: 1}, state="held"))
    repaired = did(EVENTS, 2, 1, touched=[1], kind="restate", mode="rebuild")

    assert stale(SALES, ledger(*held)) == {}
    assert stale(SALES, ledger(*held, repaired)) == {1: "bronze/events 2 batches up to 2"}


def test_a_day_whose_upstream_is_held_is_not_stale() -> None:
    view = ledger(did(EVENTS, 1, 1, touched=[1]), did(EVENTS, 2, 1, state="held"))

    assert stale(SALES, view) == {}

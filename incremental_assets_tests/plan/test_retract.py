"""Retracted files in a plan: what is named of a held day, and what is not read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from incremental_assets.changes import Timestamp
from incremental_assets.days import DayRange
from incremental_assets.errors import DefinitionError
from incremental_assets.lakehouse import DayResult
from incremental_assets.ledger.entry import Entry, FileEntry, Kind
from incremental_assets.ledger.view import LedgerView
from incremental_assets.operations.failure_texts import failure_text
from incremental_assets.operations.retract import retractions_of
from incremental_assets.plan.landed import plan_landed
from incremental_assets.plan.retract import missing_below, plan_retraction, retract_hint
from incremental_assets.plan.skipped import skipped
from incremental_assets.settings import Settings
from incremental_assets.sources.stored import Stored
from incremental_assets.table import Table
from incremental_assets.writes import Append
from incremental_assets_tests.plan.ledgers import EVENTS, MART, SALES, did, jan, ledger

A, B, LATER = (f"events/{jan(day)}/{name}.jsonl" for day, name in ((5, "a"), (5, "b"), (6, "c")))


def loaded(batch: int, day: int, *paths: str, kind: Kind = "advance") -> Entry:
    files = tuple(FileEntry(path, 3, "", "1") for path in paths)
    return replace(did(EVENTS, batch, day, touched=[5], kind=kind), files=files)


def held(*more: Entry) -> LedgerView:
    """Sales of the 5th are held; its rows landed on the 5th and the 6th."""
    before = (loaded(1, 5, A, B), loaded(2, 6, LATER), *more)
    return ledger(*before, did(SALES, 1, 5, read={EVENTS.name: 2}, state="held"))


def land(settings: Settings, *paths: str) -> None:
    Path(settings.landing).mkdir(exist_ok=True)
    for path in paths:
        file = Path(settings.landing, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n")


def test_a_held_day_names_the_files_that_are_no_longer_landed_and_what_to_do(
    settings: Settings,
) -> None:
    land(settings, B)
    view = held()

    assert missing_below(SALES, jan(5), view, settings) == [A, LATER]
    assert missing_below(MART, jan(5), view, settings) == [A, LATER]
    assert missing_below(EVENTS, jan(5), view, settings) == []
    hint = (
        "It may have rows of 2 files that are no longer in the landing; to remove the rows of what "
        f"should never have landed: `incremental-assets retract {A} {LATER} --why …`"
    )
    assert retract_hint([A, LATER]) == hint
    span = DayRange(jan(1), jan(9))
    (left,) = skipped([SALES], view, settings, span, jan(9), ())
    assert left.reason.endswith(f"--reason …`. {hint}")
    entry = view.table(SALES.name).held[jan(5)]
    failed = {jan(5): DayResult(jan(5), "held", entry.held_by, (entry,))}
    text = failure_text(SALES, failed, (SALES,), lambda d: missing_below(SALES, d, view, settings))
    assert text.endswith(f"--reason …`, and run it again. {hint}.")

    retracted = held(loaded(3, 5, A, kind="retract"))
    assert missing_below(SALES, jan(5), retracted, settings) == [LATER]


A_RETRACTED, AGAIN = loaded(2, 5, A, kind="retract"), loaded(3, 5, A, B, kind="rewind")


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        pytest.param([A_RETRACTED], [], id="retracted"),
        pytest.param([A_RETRACTED, loaded(3, 5, B, kind="rewind")], [], id="rewound"),
        pytest.param([A_RETRACTED, AGAIN], [A], id="of an older table"),
        pytest.param([A_RETRACTED, AGAIN, loaded(4, 5, B, kind="retract")], [A], id="another one"),
        pytest.param([A_RETRACTED, AGAIN, loaded(4, 5, A, kind="retract")], [], id="repeated"),
        pytest.param([A_RETRACTED, AGAIN, loaded(4, 5, B)], [], id="loaded"),
    ],
)
def test_a_retraction_is_repeated_if_a_rebuilt_ledger_names_its_file_after_it(
    settings: Settings, since: list[Entry], expected: list[str]
) -> None:
    view = ledger(loaded(1, 5, A, B), *since)
    history = view.table(EVENTS.name)

    assert sorted(history.to_retract(jan(5))) == expected
    assert history.days_to_retract == ([jan(5)] if expected else [])
    by_hand = plan_retraction(EVENTS, [A], "by hand", settings, [jan(5)], view).work
    assert [file.path for work in by_hand for file in work.files] == expected


def test_many_files_are_named_in_part_and_odd_names_can_be_pasted_into_a_shell() -> None:
    assert "1 file that is no longer" in retract_hint(["events/2017-01-05/a b.jsonl"])
    assert "retract 'events/2017-01-05/a b.jsonl' --why" in retract_hint(
        ["events/2017-01-05/a b.jsonl"]
    )
    assert retract_hint(list("abcde")).endswith("retract a b c --why …`, and 2 more")
    assert retract_hint([]) == ""


def test_a_retraction_takes_what_was_loaded_and_not_retracted_and_refuses_what_is_landed(
    settings: Settings,
) -> None:
    land(settings, B)
    view = held()

    plan = plan_retraction(EVENTS, {A, LATER}, "wrong", settings, [jan(5), jan(6), jan(7)], view)

    assert [(w.mode, w.kind, list(w.days)) for w in plan.work] == [
        ("rebuild", "retract", [jan(5)]),
        ("rebuild", "retract", [jan(6)]),
    ]
    assert [file.path for file in plan.work[0].days[jan(5)].files] == [A]
    assert plan.idle == (jan(7),)
    with pytest.raises(DefinitionError, match=f"{B} is still in the landing"):
        plan_retraction(EVENTS, {B}, "wrong", settings, [jan(5)], view)
    again = held(loaded(3, 5, A, kind="retract"))
    assert plan_retraction(EVENTS, {A}, "wrong", settings, [jan(5)], again).work == ()
    changed = held(loaded(3, 5, A, kind="retract"), loaded(4, 5, A))
    assert plan_retraction(EVENTS, {A}, "wrong", settings, [jan(5)], changed).days == (jan(5),)


def test_of_a_source_that_is_read_in_place_and_of_silver_nothing_can_be_retracted(
    settings: Settings,
) -> None:
    reads = (Stored("orders"),)
    stored = Table("bronze/orders", "", reads, changes=Timestamp("at"), write=Append())
    of_source = f"{stored.name} reads its source in place, .* Correct the rows at the source"
    of_silver = "silver/sales has no landed files to retract: .* where they were loaded"

    for table, message in ((stored, of_source), (SALES, of_silver)):
        with pytest.raises(DefinitionError, match=message):
            plan_retraction(table, {A}, "wrong", settings, [jan(5)], held())
    for file in ("orders", "orders/1.parquet", f"{settings.landing}/orders/1.parquet"):
        with pytest.raises(DefinitionError, match=of_source):
            retractions_of([file], [EVENTS, SALES, stored], held(), settings)
    with pytest.raises(DefinitionError, match="no table reads files of a feed 'orders2'"):
        retractions_of(["orders2/1.parquet"], [EVENTS, SALES, stored], held(), settings)


def test_a_retracted_file_that_landed_again_is_read_only_if_it_has_changed(
    settings: Settings,
) -> None:
    land(settings, A)
    feed = EVENTS.feed
    assert feed is not None
    (listed,) = feed.files(settings.landing, jan(5))
    as_loaded = FileEntry(A, listed.size, "", listed.modified)
    gone = replace(loaded(2, 5, A, kind="retract"), files=(as_loaded,))
    view = ledger(replace(loaded(1, 5, A), files=(as_loaded,)), gone)

    plan = plan_landed(EVENTS, feed, [jan(5)], view, settings)

    assert plan.days == ()
    assert f"1 retracted file landed again, unchanged, and will not be read: {A}" in plan.notes[0]
    Path(settings.landing, A).write_text("{}\n{}\n")
    assert plan_landed(EVENTS, feed, [jan(5)], view, settings).days == (jan(5),)

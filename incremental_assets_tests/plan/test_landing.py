"""What a load of a bronze table would do: which files are new, changed or known."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from incremental_assets.changes import ChangeLog, Files
from incremental_assets.changes.detector import Detector, File
from incremental_assets.errors import SourceError
from incremental_assets.file_identity import FileLike
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import (
    digests,
    file_entries,
    plan_table,
    why_pending,
)
from incremental_assets.plan.plan_inspector import PlanInspector
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.source_file import SourceFile, with_content_tag
from incremental_assets_tests.plan.ledgers import (
    EMPTY,
    EVENTS,
    by_mode,
    did,
    jan,
    ledger,
    planned,
)


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
    assert work.why == "first load of this day (2 files)"


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


def test_files_that_were_copied_with_other_times_are_read_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def tagged(root: str, file: SourceFile) -> SourceFile:
        read.append(file.path.rpartition("/")[2])
        return with_content_tag(root, file)

    monkeypatch.setattr(digests, "with_content_tag", tagged)
    a, b = land(settings, 1, "a.jsonl"), land(settings, 1, "b.jsonl")
    view = loaded(settings, EMPTY, 1)

    def reads(*, pending: bool = False) -> list[str]:
        read.clear()
        assert planned(EVENTS, [1], view, settings).days == ((jan(1),) if pending else ())
        return list(read)

    for moment in (1, 2):
        for file in (a, b):
            os.utime(file, (moment, moment))
        assert reads() == ["a.jsonl", "b.jsonl"]
        assert reads() == reads() == []
    land(settings, 1, "c.jsonl")
    view = loaded(settings, view, 1)
    assert reads() == []
    b.write_text("{ }")
    os.utime(b, (4, 4))
    assert reads(pending=True) == reads(pending=True) == ["b.jsonl"]
    b.write_text("{}\n")
    os.utime(b, (3, 3))
    for cached in Path(settings.lake, "_digests").iterdir():
        cached.write_text("[1, ")
    assert (reads(), reads()) == (["a.jsonl", "b.jsonl"], [])


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
    assert [f.path for f in work.files] == [
        "events/2017-01-01/b.jsonl",
        "events/2017-01-01/a.jsonl",
    ]
    assert work.why == "1 loaded file changed, 1 new"


def test_a_repaired_file_is_known_once_it_was_loaded_again(settings: Settings) -> None:
    repaired = land(settings, 1, "a.jsonl", "bad\n")
    view = loaded(settings, EMPTY, 1)
    repaired.write_text("{ }  \n")
    view = loaded(settings, view, 1)

    assert planned(EVENTS, [1], view, settings).idle == (jan(1),)


def test_a_delivery_that_is_not_complete_is_named_and_waits(settings: Settings) -> None:
    table = replace(EVENTS, reads=(LandedFiles("events", manifest="*.manifest"),))
    land(settings, 1, "a.jsonl")
    land(settings, 1, "m.manifest", "a.jsonl\nb.jsonl\n")

    waiting = planned(table, [1], EMPTY, settings)
    b = land(settings, 1, "b.jsonl")
    complete = planned(table, [1], EMPTY, settings)
    view = loaded(settings, EMPTY, 1)
    b.unlink()  # archived
    after = planned(table, [1], view, settings)

    where = "events/2017-01-01"
    assert (waiting.work, waiting.idle) == ((), (jan(1),))
    why = "b.jsonl is not there"
    named = f"{where}/a.jsonl (m.manifest waits: {why}); {where}/m.manifest ({why})"
    assert waiting.notes == (f"2 files wait: {named}.",)
    assert (complete.work[0].days[jan(1)].why, complete.notes) == (
        "first load of this day (2 files)",
        (),
    )
    assert (after.work, after.notes) == ((), ())


def test_files_that_were_held_are_not_loaded_without_the_rest_of_their_delivery(
    settings: Settings,
) -> None:
    table = replace(EVENTS, reads=(LandedFiles("events", manifest="*.manifest"),))
    land(settings, 1, "a.jsonl")
    b = land(settings, 1, "b.jsonl")
    land(settings, 1, "m.manifest", "a.jsonl\nb.jsonl\n")
    day = planned(table, [1], EMPTY, settings).work[0].days[jan(1)]
    held = replace(did(EVENTS, 1, 1, state="held"), files=file_entries(day.files))

    b.unlink()  # to be delivered again
    plan = planned(table, [1], ledger(held), settings)

    assert (plan.work, plan.idle) == ((), (jan(1),))
    assert "m.manifest (b.jsonl is not there)" in plan.notes[0]


def test_a_delivery_is_judged_for_each_table_that_reads_it(settings: Settings) -> None:
    table = replace(EVENTS, reads=(LandedFiles("events", manifest="*.manifest"),))
    other = replace(table, name="bronze/other")
    a = land(settings, 1, "a.jsonl")
    land(settings, 1, "b.jsonl")
    land(settings, 1, "m.manifest", "a.jsonl\nb.jsonl\n")
    files = planned(table, [1], EMPTY, settings).work[0].days[jan(1)].files
    view = ledger(replace(did(EVENTS, 1, 1), files=file_entries(files)))
    a.unlink()  # archived
    inspection = PlanInspector()

    plans = [plan_table(t, [jan(1)], view, settings, jan(9), inspection) for t in (table, other)]

    assert [len(plan.notes) for plan in plans] == [0, 1]


def test_planning_without_a_landing_is_an_error(settings: Settings) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        planned(EVENTS, [1], EMPTY, settings.replace(landing="/nowhere"))


def test_landing_days_with_something_new_are_those_inside_the_partitions(
    settings: Settings,
) -> None:
    for day in (1, 2, 3):
        land(settings, day, "a.jsonl")
    view = loaded(settings, EMPTY, 2)

    found = why_pending(EVENTS, view, settings, jan(2), jan(31))

    assert found == {jan(3): "first load of this day (1 file)"}


def test_a_held_landing_day_is_new_only_when_its_files_change(settings: Settings) -> None:
    file = land(settings, 1, "a.jsonl", "")
    files = file_entries(planned(EVENTS, [1], EMPTY, settings).work[0].days[jan(1)].files)
    view = ledger(replace(did(EVENTS, 1, 1, state="held"), files=files))

    before = why_pending(EVENTS, view, settings, jan(1), jan(31))
    file.write_text("{}\n")
    after = why_pending(EVENTS, view, settings, jan(1), jan(31))

    assert (before, after) == ({}, {jan(1): "1 new file"})


def test_a_held_landing_day_whose_files_are_gone_or_as_before_is_loaded_without_them(
    settings: Settings,
) -> None:
    kept, bad = land(settings, 1, "a.jsonl"), land(settings, 1, "bad.jsonl", "")
    _, judged = planned(EVENTS, [1], EMPTY, settings).work[0].days[jan(1)].files
    bad.unlink()
    before = loaded(settings, EMPTY, 1).table(EVENTS.name).entries
    view = ledger(*before, replace(did(EVENTS, 2, 1, state="held"), files=file_entries([judged])))
    kept.unlink()
    kept.parent.rmdir()

    assert why_pending(EVENTS, view, settings, jan(1), jan(31)) == {
        jan(1): "what was held is no longer there"
    }
    (work,) = planned(EVENTS, [1], view, settings).work
    assert work.days[jan(1)].files == ()

    # A rule that holds the day also without them is not asked again.
    still = ledger(*view.table(EVENTS.name).entries, did(EVENTS, 3, 1, state="held"))
    assert why_pending(EVENTS, still, settings, jan(1), jan(31)) == {}


class Announced(Detector):
    """A file counts once a second one in its folder announces it."""

    def new_and_changed(
        self,
        listed: Sequence[File],
        known: Mapping[str, FileLike],
        tagged: Callable[[File], File],
    ) -> tuple[list[File], list[File]]:
        there = {file.path for file in listed}
        ready = [file for file in listed if f"{file.path}.done" in there]
        return super().new_and_changed(ready, known, tagged)


class AnnouncedFiles(Announced, Files):
    pass


class AnnouncedLog(Announced, ChangeLog):
    pass


@pytest.mark.parametrize("changes", [AnnouncedFiles(), AnnouncedLog()], ids=["files", "log"])
def test_a_detector_of_ones_own_decides_which_files_are_new(
    settings: Settings, changes: Detector
) -> None:
    table = replace(EVENTS, changes=changes, day=None)
    land(settings, 1, "a.jsonl")

    assert planned(table, [1], EMPTY, settings).idle == (jan(1),)

    land(settings, 1, "b.jsonl")
    land(settings, 1, "a.jsonl.done", "")

    work = planned(table, [1], EMPTY, settings).work[0].days[jan(1)]
    assert [file.path for file in work.files] == ["events/2017-01-01/a.jsonl"]

"""Change logs: flat ones, in any order, and what becomes of deletes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import polars as pl
import pytest

from incremental_assets.engine import target_steps as load_module
from incremental_assets.errors import SourceError
from incremental_assets.loaders import CDCLoader, LoadResult
from incremental_assets.quality.rules import fail, not_null, quarantine, satisfies
from incremental_assets.testing import Killed
from incremental_assets.writes import SCD2, Merge, WriteStrategy
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.thorough import thorough

SCHEMA = {"id": pl.Int64, "name": pl.String, "operation": pl.String, "sequence_num": pl.Int64}
Event = tuple[int | None, str | None, str | None, int | None]


def events(*rows: Event) -> list[Mapping[str, Any]]:
    return [dict(zip(SCHEMA, row, strict=True)) for row in rows]


def process(place: Place, **options: Any) -> LoadResult:
    return CDCLoader(place.spark, place.clock).process_cdc(
        place.source,
        place.target,
        place.watermarks,
        primary_key=options.pop("primary_key", "id"),
        table_name="customers",
        **options,
    )


def load(place: Place, *rows: Event, **options: Any) -> LoadResult:
    place.land(events(*rows), SCHEMA)
    return process(place, **options)


def live(place: Place) -> list[tuple[Any, ...]]:
    return place.rows("id", "name")


def versions(place: Place) -> list[tuple[Any, ...]]:
    return place.rows("id", "name", "valid_from", "valid_to", "is_current")


@thorough("loaders/test_matrix_deletes.py: late rows of a change log")
def test_an_event_that_is_written_late_with_a_lower_number_is_put_in_its_place(
    place: Place,
) -> None:
    load(place, (1, "new", "UPDATE", 9), (2, "two", "INSERT", 8), (7, None, "DELETE", 6))

    result = load(
        place,
        (1, "old", "UPDATE", 3),
        (3, "three", "INSERT", 4),
        (7, "before its delete", "INSERT", 2),
    )

    assert live(place) == [(1, "new"), (2, "two"), (3, "three")]
    assert (result.records_read, result.records_inserted, result.records_updated) == (3, 1, 0)
    assert result.watermark_after == "9"


def test_files_are_read_whole_by_their_names_once_but_where_they_grew_and_may_be_gone(
    place: Place,
) -> None:
    def land(name: str, *rows: Event) -> None:
        place.land_lines(events(*rows), name)

    first: Event = (1, "Ann", "INSERT", 1)
    land("1.json", first, (2, "Bob", "INSERT", 2))
    land("2.json", (3, "Cy", "INSERT", 3), (4, "Di", "INSERT", 4))
    land("3.json", (5, "Ed", "INSERT", 5), (6, "Flo", "INSERT", 6))
    # At least one file at a time, however many records it has.
    assert [process(place, max_records=most).records_read for most in (1, 4)] == [2, 4]

    land("1.json", first, (2, "Bob", "INSERT", 2), (1, "Anna", "UPDATE", 7))
    process(place)
    assert live(place)[0] == (1, "Anna")
    for file in place.source.iterdir():
        file.unlink()

    assert load(place, (2, "Bobby", "UPDATE", 8)).records_read == 1
    names = ("Anna", "Bobby", "Cy", "Di", "Ed", "Flo")
    assert live(place) == list(enumerate(names, 1))


@thorough("feeds/test_change_log.py, loaders/test_cdc.py: logs in files")
def test_a_log_in_a_delta_table_is_read_by_its_commits_and_another_one_from_its_beginning(
    place: Place,
) -> None:
    def commit(*rows: Event, mode: Literal["append", "overwrite"] = "append") -> None:
        place.source.mkdir(exist_ok=True)
        frame = pl.DataFrame(events(*rows), schema=SCHEMA, orient="row")
        frame.write_delta(str(place.source), mode=mode)

    commit((1, "Ann", "INSERT", 1))
    read = [process(place).records_read]
    commit((2, "Bob", "INSERT", 2), (1, "Anna", "UPDATE", 3))
    commit((3, "Cy", "INSERT", 4))
    commit((2, None, "DELETE", 5), mode="overwrite")
    read += [process(place, max_records=1).records_read for _ in range(3)]
    assert read == [1, 2, 1, 1]
    assert live(place) == [(1, "Anna"), (3, "Cy")]

    shutil.rmtree(place.source)
    for at in (6, 7, 8, 9, 10):
        commit((at, "new", "INSERT", at))
    log = CDCLoader(place.spark, place.clock).target(
        place.source, place.target, place.watermarks, "id", "customers"
    )
    assert log.plan().status == "new"
    assert log.load().records_read == 5


# The example of a change feed in Databricks' documentation of AUTO CDC.
AUTO_CDC: Sequence[Event] = (
    (124, "Raul, Oaxaca", "INSERT", 1),
    (123, "Isabel, Monterrey", "INSERT", 1),
    (125, "Mercedes, Tijuana", "INSERT", 2),
    (126, "Lily, Cancun", "INSERT", 2),
    (123, None, "DELETE", 6),
    (125, "Mercedes, Guadalajara", "UPDATE", 6),
    (125, "Mercedes, Mexicali", "UPDATE", 5),
    (123, "Isabel, Chihuahua", "UPDATE", 5),
)


def test_a_documented_feed_gives_its_documented_state_in_the_sources_own_columns(
    place: Place,
) -> None:
    result = load(place, *AUTO_CDC)

    assert live(place) == [
        (124, "Raul, Oaxaca"),
        (125, "Mercedes, Guadalajara"),
        (126, "Lily, Cancun"),
    ]
    assert [c for c in place.columns() if not c.startswith("_")] == ["id", "name"]
    assert (result.records_read, result.watermark_after) == (8, "6")


def test_a_documented_feed_gives_its_documented_history(place: Place) -> None:
    load(place, *AUTO_CDC[:6], write=SCD2())
    load(place, *AUTO_CDC[6:], write=SCD2())  # both are late

    assert versions(place) == [
        (123, "Isabel, Chihuahua", 5, 6, False),
        (123, "Isabel, Monterrey", 1, 5, False),
        (124, "Raul, Oaxaca", 1, None, True),
        (125, "Mercedes, Guadalajara", 6, None, True),
        (125, "Mercedes, Mexicali", 5, 6, False),
        (125, "Mercedes, Tijuana", 2, 5, False),
        (126, "Lily, Cancun", 2, None, True),
    ]


def test_unknown_operations_are_quarantined_and_count_in_their_place_once_they_are_known(
    place: Place,
) -> None:
    first = load(
        place,
        (9, "Zoe", "INSERT", 1),
        (None, None, "WIPE", 2),
        (1, "Ann", "INSERT", 3),
        (1, "Anna", "EXPLODE", 4),
        (2, "Bob", "INSERT", 5),
        (3, "Cy", None, 6),
        (None, None, "NOISE", 7),
        (2, "Bobby", "UPDATE", 9),
    )

    assert (first.records_inserted, first.records_quarantined) == (3, 4)
    assert "such as 'EXPLODE', 'WIPE' (column 'operation')" in first.notes[-1]
    assert place.quarantined() == [["unknown_operation"]] * 4
    assert live(place) == [(1, "Ann"), (2, "Bobby"), (9, "Zoe")]

    target = CDCLoader(place.spark, place.clock).target(
        place.source,
        place.target,
        place.watermarks,
        "id",
        "customers",
        operations={"explode": "upsert", "wipe": "truncate", "noise": "ignore"},
    )
    replayed = target.replay()
    assert (replayed.records_updated, replayed.records_deleted) == (1, 1)
    assert live(place) == [(1, "Anna"), (2, "Bobby")]
    assert place.quarantined() == [["unknown_operation"]]
    load(place, (4, "late", "INSERT", 1))
    assert live(place) == [(1, "Anna"), (2, "Bobby")]


def test_numbers_written_as_text_are_ordered_and_events_without_one_or_a_key_quarantined(
    place: Place,
) -> None:
    def land(*rows: tuple[int | None, str, Any]) -> LoadResult:
        place.land_lines([dict(zip(SCHEMA, (i, n, "U", at), strict=True)) for i, n, at in rows])
        return process(place)

    result = land((1, "ten", "10"), (1, "nine", "9"), (None, "nobody", "11"), (3, "when", None))

    assert live(place) == [(1, "ten")]
    assert result.watermark_after == "10"
    assert result.records_quarantined == 2
    assert place.quarantined() == [["id_null"], ["sequence_num_null"]]

    # Together these are doubles, which have no order of their own.
    result = land((1, "twelve", 12), (2, "a fraction", 11.5), (3, "a power", 1e300))

    assert live(place) == [(1, "twelve")]
    assert result.records_quarantined == 2
    assert place.quarantined()[2:] == [["sequence_num_unreadable"]] * 2


def test_rules_on_values_do_not_judge_deletes_and_truncates(place: Place) -> None:
    rules = [*quarantine(not_null("name")), *fail(satisfies("named", "name IS NOT NULL"))]
    load(place, (1, "Ann", "INSERT", 1), (2, "Bob", "INSERT", 2), rules=rules)

    rest: Sequence[Event] = ((1, None, "DELETE", 3), (None, None, "TRUNCATE", 4))
    second = load(place, *rest, (3, "Cid", "INSERT", 5), rules=rules)
    assert (second.records_deleted, second.records_quarantined) == (2, 0)
    assert live(place) == [(3, "Cid")]


def test_a_delete_needs_its_key_and_position_whatever_its_other_values_are(place: Place) -> None:
    def land(*rows: tuple[Any, Any, str, int]) -> LoadResult:
        names = ("id", "qty", "operation", "sequence_num")
        place.land_lines([dict(zip(names, row, strict=True)) for row in rows])
        return process(place)

    land((4, 9, "INSERT", 1), (1, 5, "INSERT", 3), (2, 7, "INSERT", 4), (3, 8, "INSERT", 5))
    second = land(
        (None, "n/a", "TRUNCATE", 2),
        (1, "", "DELETE", 6),
        (2, "n/a", "update_preimage", 7),
        (3, "n/a", "UPDATE", 8),
        ("x", "n/a", "DELETE", 9),
    )

    assert (second.records_deleted, second.records_quarantined) == (2, 2)
    assert place.rows("id", "qty") == [(2, 7), (3, 8)]
    assert place.quarantined() == [["id_unreadable"], ["qty_unreadable"]]


@pytest.mark.parametrize("missing", ["operation", "sequence_num", "id"])
def test_a_log_without_a_column_is_refused_by_its_name(place: Place, missing: str) -> None:
    rows = [{k: v for k, v in e.items() if k != missing} for e in events((1, "Ann", "INSERT", 1))]
    place.land_lines(rows)

    with pytest.raises(SourceError, match=f"has no column '{missing}'"):
        process(place)


def _killed(*_: object, **__: object) -> None:
    raise Killed


def _state(every: Sequence[Event]) -> list[tuple[Any, ...]]:
    last = {e[0]: e for e in sorted(every, key=lambda e: e[3] or 0)}
    return sorted(((i, e[1]) for i, e in last.items() if e[2] != "DELETE"), key=str)


def _history(every: Sequence[Event]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for id_ in {e[0] for e in every}:
        shown: tuple[str | None, int | None] | None = None
        for _, name, operation, at in sorted(
            (e for e in every if e[0] == id_), key=lambda e: e[3] or 0
        ):
            gone = operation == "DELETE"
            if shown is not None and (gone or shown[0] != name):
                found.append((id_, *shown, at, False))
                shown = None
            if shown is None and not gone:
                shown = (name, at)
        if shown is not None:
            found.append((id_, *shown, None, True))
    return sorted(found, key=str)


@thorough(
    "loaders/test_matrix_deletes.py, loaders/test_truncates.py, "
    "loaders/test_killed_at_each_commit.py: orders, repetitions and interruptions by themselves"
)
@pytest.mark.parametrize(("seed", "write"), [(0, Merge()), (1, SCD2())], ids=["state", "history"])
def test_any_order_repetition_and_interruption_ends_in_the_same_table(
    place: Place, seed: int, write: WriteStrategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    every: list[Event] = [
        (id_, name if operation != "DELETE" else None, operation, at)
        for id_ in (1, 2, 3)
        for at in chance.sample(range(1, 30), 6)
        for name, operation in [
            (chance.choice("AB"), chance.choice(["UPDATE", "UPDATE", "DELETE"]))
        ]
    ]
    chance.shuffle(every)
    for batch in (every[:8], every[6:13], [*every[12:], *every[2:5]]):
        place.land(events(*batch), SCHEMA)
        with monkeypatch.context() as dying, suppress(Killed):
            dying.setattr(load_module, chance.choice(["publish", "record"]), _killed)
            process(place, write=write)
        process(place, write=write)

    if write.keeps_versions:
        shown = place.rows("id", "name", "valid_from", "valid_to", "is_current")
        assert shown == [(i, n, a, b, c) for i, n, a, b, c in _history(every)]
    else:
        assert live(place) == _state(every)

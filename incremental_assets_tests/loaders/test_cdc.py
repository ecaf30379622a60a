"""Change logs: flat ones, in any order, and what becomes of deletes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import polars as pl
import pytest

from incremental_assets.engine import target_steps as load_module
from incremental_assets.errors import SourceError
from incremental_assets.loaders import CDCLoader, LoadResult
from incremental_assets.quality.rules import fail, not_null, quarantine
from incremental_assets_tests.loaders.conftest import Place

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


def test_the_target_holds_the_live_rows_of_the_sources_own_columns(place: Place) -> None:
    result = load(
        place,
        (1, "Ann", "INSERT", 1),
        (2, "Bob", "INSERT", 2),
        (1, "Anna", "UPDATE", 3),
        (2, None, "DELETE", 4),
    )

    assert live(place) == [(1, "Anna")]
    assert [c for c in place.columns() if not c.startswith("_")] == ["id", "name"]
    assert (result.records_read, result.watermark_after) == (4, "4")


def test_an_event_that_is_written_late_with_a_lower_number_is_put_in_its_place(
    place: Place,
) -> None:
    load(place, (1, "new", "UPDATE", 9), (2, "two", "INSERT", 8))

    result = load(place, (1, "old", "UPDATE", 3), (3, "three", "INSERT", 4))

    assert live(place) == [(1, "new"), (2, "two"), (3, "three")]
    assert (result.records_read, result.records_inserted, result.records_updated) == (2, 1, 0)
    assert result.watermark_after == "9"


def test_nothing_older_brings_a_deleted_row_back(place: Place) -> None:
    load(place, (1, "Ann", "INSERT", 1))
    load(place, (1, None, "DELETE", 5), (7, None, "DELETE", 6))

    load(place, (1, "Anna", "UPDATE", 3), (7, "never seen", "INSERT", 2))

    assert live(place) == []


def test_an_update_after_a_delete_brings_the_row_back(place: Place) -> None:
    load(place, (1, "Ann", "INSERT", 1), (1, None, "DELETE", 2))

    load(place, (1, "Anna", "UPDATE", 3))

    assert live(place) == [(1, "Anna")]


def test_events_that_come_twice_change_nothing(place: Place) -> None:
    rows: tuple[Event, ...] = (
        (1, "Ann", "INSERT", 1),
        (2, "Bob", "INSERT", 2),
        (2, None, "DELETE", 3),
    )
    load(place, *rows)
    before = place.version()

    result = load(place, *rows)

    assert live(place) == [(1, "Ann")]
    assert (result.records_read, result.records_loaded) == (3, 0)
    assert place.version() == before


def test_files_that_were_read_are_not_read_again_and_may_be_gone(place: Place) -> None:
    load(place, (1, "Ann", "INSERT", 1))
    assert process(place).records_read == 0
    for file in place.source.iterdir():
        file.unlink()

    result = load(place, (2, "Bob", "INSERT", 2))

    assert result.records_read == 1
    assert live(place) == [(1, "Ann"), (2, "Bob")]


def test_a_log_file_that_grew_is_read_again_without_doubling_anything(place: Place) -> None:
    first = events((1, "Ann", "INSERT", 1))
    place.land_lines(first, "log.json")
    process(place)

    place.land_lines([*first, *events((1, "Anna", "UPDATE", 2))], "log.json")
    process(place)

    assert live(place) == [(1, "Anna")]


def test_a_log_in_a_delta_table_is_read_by_its_commits(place: Place) -> None:
    place.source.mkdir()
    for rows, mode in (
        (events((1, "Ann", "INSERT", 1)), "append"),
        (events((2, "Bob", "INSERT", 2), (1, "Anna", "UPDATE", 3)), "append"),
        (events((2, None, "DELETE", 4)), "overwrite"),
    ):
        pl.DataFrame(rows, schema=SCHEMA, orient="row").write_delta(str(place.source), mode=mode)
        result = process(place)
        assert result.records_read == len(rows)

    assert live(place) == [(1, "Anna")]
    assert process(place).records_read == 0


def test_max_records_takes_whole_files_by_their_names_and_one_at_least(place: Place) -> None:
    for at in range(3):
        place.land(
            events((at, "a", "INSERT", 2 * at), (at + 10, "b", "INSERT", 2 * at + 1)), SCHEMA
        )

    taken = [process(place, max_records=most).records_read for most in (1, 4, 4)]

    assert taken == [2, 4, 0]
    assert len(live(place)) == 6


def test_max_records_takes_the_commits_of_a_delta_log_one_by_one(place: Place) -> None:
    for at in range(3):
        frame = pl.DataFrame(events((at, "a", "INSERT", at)), schema=SCHEMA, orient="row")
        frame.write_delta(str(place.source), mode="append")
        if at == 0:
            process(place)

    assert [process(place, max_records=1).records_read for _ in range(3)] == [1, 1, 0]
    assert len(live(place)) == 3


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


def test_a_documented_feed_gives_its_documented_state(place: Place) -> None:
    load(place, *AUTO_CDC)

    assert live(place) == [
        (124, "Raul, Oaxaca"),
        (125, "Mercedes, Guadalajara"),
        (126, "Lily, Cancun"),
    ]


@pytest.mark.parametrize("size", [8, 3])
def test_a_documented_feed_gives_its_documented_history(place: Place, size: int) -> None:
    for at in range(0, len(AUTO_CDC), size):
        load(place, *AUTO_CDC[at : at + size], history=True)

    assert versions(place) == [
        (123, "Isabel, Chihuahua", 5, 6, False),
        (123, "Isabel, Monterrey", 1, 5, False),
        (124, "Raul, Oaxaca", 1, None, True),
        (125, "Mercedes, Guadalajara", 6, None, True),
        (125, "Mercedes, Mexicali", 5, 6, False),
        (125, "Mercedes, Tijuana", 2, 5, False),
        (126, "Lily, Cancun", 2, None, True),
    ]


def test_a_truncate_removes_what_is_older_and_nothing_newer(place: Place) -> None:
    load(place, *AUTO_CDC[:4])
    load(place, (None, None, "TRUNCATE", 3), (127, "Noa, Merida", "INSERT", 4))
    load(place, (128, "late, and before it", "INSERT", 2))

    assert live(place) == [(127, "Noa, Merida")]


def test_a_truncate_ends_every_version_of_a_history(place: Place) -> None:
    load(place, *AUTO_CDC[:2], history=True)
    load(place, (None, None, "TRUNCATE", 3), history=True)
    load(place, (123, "late", "UPDATE", 2), history=True)

    assert versions(place) == [
        (123, "Isabel, Monterrey", 1, 2, False),
        (123, "late", 2, 3, False),
        (124, "Raul, Oaxaca", 1, 3, False),
    ]


def test_an_unknown_operation_is_quarantined_and_replayed_once_it_is_known(place: Place) -> None:
    load(place, (1, "Ann", "INSERT", 1))

    first = load(place, (1, "Anna", "EXPLODE", 2), (2, "Bob", "INSERT", 3), (3, "Cy", None, 4))

    assert (first.records_inserted, first.records_quarantined) == (1, 2)
    assert "such as 'EXPLODE' (column 'operation')" in first.notes[-1]
    assert place.quarantined() == [["unknown_operation"], ["unknown_operation"]]
    assert live(place) == [(1, "Ann"), (2, "Bob")]
    load(place, (2, "Bobby", "UPDATE", 9))

    meaning = {"explode": "upsert"}
    target = CDCLoader(place.spark, place.clock).target(
        place.source, place.target, place.watermarks, "id", "customers", operations=meaning
    )
    assert target.replay().records_updated == 1
    assert live(place) == [(1, "Anna"), (2, "Bobby")]
    assert place.quarantined() == [["unknown_operation"]]


def test_a_truncate_by_a_word_of_its_own_counts_once_it_is_known(place: Place) -> None:
    load(place, (1, "Ann", "INSERT", 1), (None, None, "WIPE", 5), (2, "Bob", "INSERT", 6))
    load(place, (None, None, "NOISE", 7))
    assert live(place) == [(1, "Ann"), (2, "Bob")]

    target = CDCLoader(place.spark, place.clock).target(
        place.source,
        place.target,
        place.watermarks,
        "id",
        "customers",
        operations={"wipe": "truncate", "noise": "ignore"},
    )
    assert target.replay().records_deleted == 1
    assert live(place) == [(2, "Bob")]
    assert place.quarantined() == []
    load(place, (3, "late", "INSERT", 4))
    assert live(place) == [(2, "Bob")]


def test_an_event_without_key_or_number_is_quarantined(place: Place) -> None:
    result = load(
        place,
        (1, "Ann", "INSERT", 1),
        (None, "nobody", "INSERT", 2),
        (3, "when", "INSERT", None),
    )

    assert result.records_quarantined == 2
    assert place.quarantined() == [["id_null"], ["sequence_num_null"]]
    assert live(place) == [(1, "Ann")]


@pytest.mark.parametrize("severity", [quarantine, fail])
def test_rules_on_values_do_not_judge_deletes_and_truncates(
    place: Place, severity: Callable[..., Any]
) -> None:
    rules = severity(not_null("name"))
    load(place, (1, "Ann", "INSERT", 1), (2, "Bob", "INSERT", 2), rules=rules)

    deleted = load(place, (1, None, "DELETE", 3), rules=rules)
    assert (deleted.records_deleted, deleted.records_quarantined) == (1, 0)
    assert live(place) == [(2, "Bob")]
    load(place, (None, None, "TRUNCATE", 4), (3, "Cid", "INSERT", 5), rules=rules)
    assert live(place) == [(3, "Cid")]


@pytest.mark.parametrize("missing", ["operation", "sequence_num", "id"])
def test_a_log_without_a_column_is_refused_by_its_name(place: Place, missing: str) -> None:
    rows = [{k: v for k, v in e.items() if k != missing} for e in events((1, "Ann", "INSERT", 1))]
    place.land_lines(rows)

    with pytest.raises(SourceError, match=f"has no column '{missing}'"):
        process(place)


def test_numbers_written_as_text_are_ordered_as_numbers(place: Place) -> None:
    place.land_lines(
        [
            {"id": 1, "name": "ten", "operation": "U", "sequence_num": "10"},
            {"id": 1, "name": "nine", "operation": "U", "sequence_num": "9"},
        ]
    )

    result = process(place)

    assert live(place) == [(1, "ten")]
    assert result.watermark_after == "10"


class Killed(BaseException):
    """The process is gone."""


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


@pytest.mark.parametrize(("seed", "history"), [(0, False), (1, True)], ids=["state", "history"])
def test_any_order_repetition_and_interruption_ends_in_the_same_table(
    place: Place, seed: int, history: bool, monkeypatch: pytest.MonkeyPatch
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
    for batch in (every[:6], every[4:13], every[12:], every[2:5]):
        place.land(events(*batch), SCHEMA)
        with monkeypatch.context() as dying, suppress(Killed):
            dying.setattr(load_module, chance.choice(["publish", "record"]), _killed)
            process(place, history=history)
        process(place, history=history)

    if history:
        shown = place.rows("id", "name", "valid_from", "valid_to", "is_current")
        assert shown == [(i, n, a, b, c) for i, n, a, b, c in _history(every)]
    else:
        assert live(place) == _state(every)

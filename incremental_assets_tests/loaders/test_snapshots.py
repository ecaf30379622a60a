"""Full copies: what differs from the copy before, and what is held back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame

from incremental_assets.changes import snapshot_changes as snapshot_module
from incremental_assets.engine import target_steps as load_module
from incremental_assets.errors import SnapshotError, SourceError
from incremental_assets.loaders import DeltaDiffLoader, DetectedChanges
from incremental_assets.quality.rules import at_least, quarantine
from incremental_assets_tests.loaders.conftest import Place

SCHEMA = {"sku": pl.String, "name": pl.String, "price": pl.Int64, "checked": pl.Int64}
Product = tuple[str | None, str | None, int | None]
FIRST: Sequence[Product] = (("a", "Apple", 1), ("b", "Bread", 2), ("c", "", 3), ("d", None, 4))


def rows(products: Sequence[Product], checked: int = 1) -> list[Mapping[str, Any]]:
    return [{"sku": s, "name": n, "price": p, "checked": checked} for s, n, p in products]


def copy(place: Place, products: Sequence[Product], checked: int = 1, **options: Any) -> Any:
    for old in place.source.glob("*") if place.source.exists() else ():
        old.unlink()
    place.land(rows(products, checked), SCHEMA)
    return detect(place, **options)


def detect(place: Place, **options: Any) -> DetectedChanges:
    return DeltaDiffLoader(place.spark, place.clock).detect_changes(
        place.source,
        place.target,
        place.snapshot,
        primary_key="sku",
        table_name="products",
        **options,
    )


def skus(frame: DataFrame) -> list[Any]:
    return sorted(row["sku"] for row in frame.collect())


def kinds(found: DetectedChanges) -> tuple[list[Any], list[Any], list[Any]]:
    return skus(found["inserts"]), skus(found["updates"]), skus(found["deletes"])


def test_the_first_copy_is_all_inserts(place: Place) -> None:
    found = copy(place, FIRST)

    assert kinds(found) == (["a", "b", "c", "d"], [], [])
    assert place.rows("sku", "name", "price") == sorted(FIRST, key=str)
    assert place.rows("sku", path=place.snapshot) == [("a",), ("b",), ("c",), ("d",)]
    assert found["result"].records_inserted == 4


def test_inserts_updates_and_deletes_are_reported_apart(place: Place) -> None:
    copy(place, FIRST)

    found = copy(
        place,
        (("a", "Apple", 9), ("b", "Bread", 2), ("c", "", 3), ("e", "Egg", 5)),
        max_deleted_share=0.3,
    )

    assert kinds(found) == (["e"], ["a"], ["d"])
    deleted = found["deletes"].collect()[0]
    assert (deleted["name"], deleted["price"]) == (None, 4)
    assert place.rows("sku", "price") == [("a", 9), ("b", 2), ("c", 3), ("e", 5)]
    result = found["result"]
    assert (result.records_inserted, result.records_updated, result.records_deleted) == (1, 1, 1)


def test_an_equal_copy_changes_no_table(place: Place) -> None:
    copy(place, FIRST)
    before = place.version()

    found = copy(place, tuple(reversed(FIRST)))

    assert kinds(found) == ([], [], [])
    assert place.version() == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(("a", None, 1), ("a", "", 1), id="null is not an empty text"),
        pytest.param(("a", "1", None), ("a", None, 1), id="a value in another column"),
        pytest.param(("a", "b,c", 1), ("a", "b", 1), id="a separator in a text"),
    ],
)
def test_rows_that_differ_are_never_taken_for_equal(
    place: Place, before: Product, after: Product
) -> None:
    copy(place, (before,))

    assert kinds(copy(place, (after,))) == ([], ["a"], [])


def test_copies_in_a_delta_table_are_its_versions(place: Place) -> None:
    def overwrite(products: Sequence[Product]) -> DetectedChanges:
        frame = pl.DataFrame(rows(products), schema=SCHEMA, orient="row")
        frame.write_delta(str(place.source), mode="overwrite")
        return detect(place)

    assert kinds(overwrite(FIRST)) == (["a", "b", "c", "d"], [], [])
    assert kinds(overwrite((*FIRST[:3], ("d", "Dill", 4)))) == ([], ["d"], [])
    assert kinds(detect(place)) == ([], [], [])


def test_a_clock_that_goes_back_makes_no_copy_late(place: Place) -> None:
    copy(place, FIRST, history=True)
    place.now -= timedelta(days=1)

    found = copy(place, (("a", "Apple", 9), *FIRST[1:]), history=True)

    assert kinds(found) == ([], ["a"], [])
    current = [r for r in place.rows("sku", "price", "is_current") if r[2]]
    assert current == [("a", 9, True), ("b", 2, True), ("c", 3, True), ("d", 4, True)]


def test_a_column_to_ignore_makes_no_change(place: Place) -> None:
    copy(place, FIRST, checked=1, ignore="checked")

    assert kinds(copy(place, FIRST, checked=2, ignore="checked")) == ([], [], [])


def test_half_a_copy_is_held_back_and_says_the_share(place: Place) -> None:
    copy(place, FIRST)

    with pytest.raises(SnapshotError, match=r"2 of 4 rows \(50.0%\)"):
        copy(place, FIRST[:2])

    assert place.rows("sku") == [("a",), ("b",), ("c",), ("d",)]
    assert kinds(copy(place, FIRST[:2], max_deleted_share=0.5)) == ([], [], ["c", "d"])


def test_a_copy_that_is_missing_is_no_deletion(place: Place) -> None:
    copy(place, FIRST)
    for file in place.source.iterdir():
        file.unlink()

    found = detect(place)

    assert kinds(found) == ([], [], [])
    assert len(place.rows("sku")) == 4


def test_a_key_that_is_there_twice_is_refused_by_name(place: Place) -> None:
    copy(place, FIRST)

    with pytest.raises(SourceError, match="more than once: a"):
        copy(place, (*FIRST, ("a", "again", 7)))


def test_a_row_without_key_is_quarantined_once_and_no_delete_is_derived(place: Place) -> None:
    copy(place, FIRST)

    found = copy(place, (*FIRST[:3], (None, "who", 7)), max_deleted_share=1.0)
    assert kinds(found) == ([], [], [])
    assert found["result"].records_quarantined == 1

    again = copy(place, (*FIRST[:3], (None, "who", 7)), max_deleted_share=1.0)
    assert again["result"].records_quarantined == 0
    assert len(place.rows("sku")) == 4


DAY = timedelta(days=1)
T1 = datetime(2024, 5, 1, tzinfo=UTC)


def test_a_copy_that_comes_late_is_put_in_its_place(place: Place) -> None:
    one = (("a", "A", 1), ("b", "B", 1), ("c", "C", 1), ("e", "E", 1))
    two = (("a", "X", 1), ("b", "B", 2), ("d", "D", 1), ("e", "E", 1))
    three = (("a", "A", 1), ("b", "B", 2), ("c", "C", 1), ("e", "E", 1))

    def take(products: Sequence[Product], at: datetime) -> None:
        copy(place, products, history=True, snapshot_at=at, max_deleted_share=1.0)

    take(one, T1)
    take(three, T1 + 2 * DAY)
    take(two, T1 + DAY)

    t2, t3 = T1 + DAY, T1 + 2 * DAY
    assert place.rows("sku", "name", "price", "valid_from", "valid_to", "is_current") == sorted(
        [
            ("a", "A", 1, T1, t2, False),
            ("a", "X", 1, t2, t3, False),
            ("a", "A", 1, t3, None, True),
            ("b", "B", 1, T1, t2, False),
            ("b", "B", 2, t2, None, True),
            ("c", "C", 1, T1, t2, False),
            ("c", "C", 1, t3, None, True),
            ("d", "D", 1, t2, t3, False),
            ("e", "E", 1, T1, None, True),
        ],
        key=str,
    )


@pytest.mark.parametrize("keyless", [True, False])
def test_bad_rows_of_a_copy_that_comes_late_are_quarantined_and_delete_nothing(
    place: Place, keyless: bool
) -> None:
    def take(products: Sequence[Product], at: datetime) -> int:
        found = copy(
            place,
            products,
            history=True,
            snapshot_at=at,
            max_deleted_share=1.0,
            rules=quarantine(at_least("price", 0)),
        )
        aside: int = found["result"].records_quarantined
        return aside

    t2, t3 = T1 + DAY, T1 + 2 * DAY
    bad = (None, "B", 1) if keyless else ("b", "B", -1)
    take((("a", "A", 1), ("b", "B", 1), ("c", "C", 1)), T1)
    take((("a", "A", 1), ("b", "B", 1)), t3)

    assert take((("a", "X", 1), bad), t2) == 1

    ends = t3 if keyless else t2  # of c, which may be the row without a key
    assert place.rows("sku", "name", "valid_from", "valid_to") == sorted(
        [
            ("a", "A", T1, t2),
            ("a", "X", t2, t3),
            ("a", "A", t3, None),
            ("b", "B", T1, None),
            ("c", "C", T1, ends),
        ],
        key=str,
    )


class Killed(BaseException):
    """The process is gone."""


def _killed(*_: object, **__: object) -> None:
    raise Killed


@pytest.mark.parametrize(
    ("where", "history"),
    [("prepare", True), ("publish", False)],
)
def test_a_load_that_dies_and_runs_on_another_copy_misses_nothing(
    place: Place, where: str, history: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy(place, FIRST, history=history)
    with monkeypatch.context() as dying, pytest.raises(Killed):
        module = snapshot_module if where == "prepare" else load_module
        dying.setattr(module, "publish" if where == "prepare" else where, _killed)
        place.now += DAY
        copy(place, (*FIRST, ("x", "only in this copy", 1)), history=history)

    place.now += DAY
    copy(place, FIRST, history=history, max_deleted_share=1.0)

    shown = place.rows("sku", "name", "price")
    if history:
        frame = place.rows("sku", "is_current")
        shown = [s for s, (_, current) in zip(shown, frame, strict=True) if s[0] != "x" or current]
    assert shown == sorted(FIRST, key=str)

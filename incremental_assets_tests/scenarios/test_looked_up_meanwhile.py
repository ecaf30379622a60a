"""A mart's first load during a load of what it looks up: each batch is read, or makes days stale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from incremental_assets.engine import table_load as load_module
from incremental_assets.engine.daily import DailyBatch
from incremental_assets_tests.made_once import MadeOnce
from incremental_assets_tests.scenarios.world import WITH_USERS, World, sale
from incremental_assets_tests.thorough import thorough

DAY, MART, USERS = "2017-01-05", "gold/sales_mart", "silver/users"


def income(world: World) -> list[str | None]:
    return list(world.rows(MART)["user_income"])


def land_user(world: World, name: str, at: str, income: str) -> None:
    rows = [{"user_id": "u1", "updated_at": at, "income": income}]
    world.land("users", DAY, name, rows)


def once(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, act: Callable[[], Any]) -> None:
    """Let something else happen when a step of a load is reached for the first time."""
    step = getattr(place, name)

    def meanwhile(*args: Any) -> Any:
        found = step(*args) if place is load_module else None
        if not happened:
            happened.append(True)
            act()
        return step(*args) if found is None else found

    happened: list[bool] = []
    monkeypatch.setattr(place, name, meanwhile)


def a_sale(world: World) -> None:
    world.land("events", DAY, "1.jsonl", [sale("a", DAY)])
    land_user(world, "1.jsonl", "2017-01-01T00:00:00Z", "low")
    world.load(DAY, "bronze/events", "bronze/users", "silver/sales")


@pytest.fixture
def sold(world: World, made_once: MadeOnce) -> World:
    """A sale that its mart has not seen yet."""
    return world.of(*WITH_USERS).as_after(a_sale, made_once)


def test_a_batch_that_is_published_while_the_mart_reads_makes_its_day_stale(
    sold: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sold.load(DAY, USERS)
    land_user(sold, "2.jsonl", "2017-01-02T00:00:00Z", "high")
    sold.load(DAY, "bronze/users")
    once(monkeypatch, DailyBatch, "read", lambda: sold.load(DAY, USERS))

    sold.load(DAY, MART)

    assert income(sold) == ["low"]
    assert sold.stale()[MART] == [DAY]
    sold.load_stale()
    assert income(sold) == ["high"]


@thorough("scenarios/test_looked_up_meanwhile.py: a batch that is published meanwhile")
def test_a_first_batch_that_is_not_recorded_yet_is_read(
    sold: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    once(monkeypatch, load_module, "affected_days", lambda: sold.load(DAY, MART))

    sold.load(DAY, USERS)

    sold.load_stale()
    assert income(sold) == ["low"]

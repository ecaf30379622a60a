"""Which compilers Java starts with: the first alone for a small load, all for a large one."""

from __future__ import annotations

from pathlib import Path

import pytest

from incremental_assets.loaders import session
from incremental_assets.settings import Settings
from incremental_assets.spark import tiers
from incremental_assets.spark.load_session import batch_frames
from incremental_assets.spark.session import server_conf, session_conf
from incremental_assets.spark.tiers import ALL_TIERS_FROM, FIRST_TIER, announce, java_tiers

OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture(autouse=True)
def _nothing_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_announced", [])


def test_a_large_load_gets_all_tiers_whatever_comes_after_it(settings: Settings) -> None:
    announce([])
    announce([1, ALL_TIERS_FROM - 1])
    assert FIRST_TIER in session_conf(settings)[OPTIONS]

    announce([5, ALL_TIERS_FROM])
    announce([5])

    assert FIRST_TIER not in session_conf(settings)[OPTIONS]


def test_a_server_gets_all_tiers(settings: Settings) -> None:
    assert FIRST_TIER not in server_conf(settings)[OPTIONS]


def test_a_session_of_the_loaders_gets_all_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(session, "start_session", lambda _: found.append(java_tiers()))

    session.local_session()

    assert found == [()]


def test_the_size_of_a_load_is_known_before_its_spark_starts(tmp_path: Path) -> None:
    asked: list[str] = []

    def spark() -> None:
        asked.append("spark")
        raise InterruptedError

    def size() -> str:
        asked.append("size")
        return "any"

    frames = batch_frames(spark, size)  # type: ignore[arg-type]
    with pytest.raises(InterruptedError), frames:
        _ = frames.session

    assert asked == ["size", "spark"]

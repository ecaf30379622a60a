"""Which compilers and collector Java starts with, for a small load and for a large one."""

from __future__ import annotations

from pathlib import Path

import pytest

from incremental_assets.loaders import session
from incremental_assets.settings import Settings
from incremental_assets.spark import sizing
from incremental_assets.spark.load_session import batch_frames
from incremental_assets.spark.session import server_conf, session_conf
from incremental_assets.spark.sizing import (
    LARGE,
    LARGE_BYTES,
    LARGE_ROWS,
    SMALL,
    announce,
    java_options,
)

OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture(autouse=True)
def _nothing_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizing, "_announced", [])


def test_one_large_load_decides_whatever_else_is_loaded(settings: Settings) -> None:
    announce(0, [])
    announce(0, [1, LARGE_BYTES - 1])
    assert " ".join(SMALL) in session_conf(settings)[OPTIONS]

    announce(0, [5, LARGE_BYTES])
    announce(0, [5])

    assert session_conf(settings)[OPTIONS].startswith(" ".join(LARGE))


def test_many_rows_are_a_large_load_in_however_few_bytes_they_lie(settings: Settings) -> None:
    announce(LARGE_ROWS - 1, [1])
    assert " ".join(SMALL) in session_conf(settings)[OPTIONS]

    announce(LARGE_ROWS, [1])

    assert session_conf(settings)[OPTIONS].startswith(" ".join(LARGE))


def test_a_server_starts_as_for_a_large_load(settings: Settings) -> None:
    assert server_conf(settings)[OPTIONS].startswith(" ".join(LARGE))


def test_a_session_of_the_loaders_starts_as_for_a_large_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(session, "start_session", lambda _: found.append(java_options()))

    session.local_session()

    assert found == [LARGE]


def test_the_size_of_a_load_is_known_before_its_spark_starts(tmp_path: Path) -> None:
    asked: list[str] = []

    def spark() -> None:
        asked.append("spark")
        raise InterruptedError

    def size() -> str:
        asked.append("size")
        return "any"

    frames = batch_frames(spark, size, path="")  # type: ignore[arg-type]
    with pytest.raises(InterruptedError), frames:
        _ = frames.session

    assert asked == ["size", "spark"]

"""The class archive is made for the Spark that is started here, and takes the place of others."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from incremental_assets import warm_up
from incremental_assets.catalog import tables_of
from incremental_assets.errors import SparkUnavailableError
from incremental_assets.settings import OWN_TABLES, Settings
from incremental_assets.spark import session
from incremental_assets.spark.session import archive_path, session_conf
from incremental_assets.table import Table
from incremental_assets.warm_up import load_and_archive, make_archive


@pytest.fixture
def fresh(settings: Settings, tmp_path: Path) -> Settings:
    """Settings with a cache that holds the jars, and two archives of something else."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "jars").symlink_to(settings.cache / "jars")
    (cache / "spark.jsa").touch()
    (cache / "spark-0123456789abcdef.jsa").touch()
    return settings.replace(cache=cache)


def loads_by(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the small load done by a shell script, in the place of Python."""
    shell = tmp_path / "python"
    shell.write_text(f"#!/bin/sh\n{script}\n")
    shell.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(shell))


def test_the_archive_takes_the_place_of_those_of_other_jars(
    fresh: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads_by(
        'echo "$2 ${SPARK_HOME:-none} ${PYSPARK_SUBMIT_ARGS:-none}" > "$3"', tmp_path, monkeypatch
    )
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 9g pyspark-shell")

    made = make_archive(fresh)

    assert made == archive_path(fresh)
    assert list(fresh.cache.glob("*.jsa")) == [made]
    assert made.read_text() == f"{warm_up.__name__} none none\n"


def test_a_load_that_fails_leaves_no_archive(
    fresh: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads_by("exit 4", tmp_path, monkeypatch)

    with pytest.raises(SparkUnavailableError, match="ended with status 4"):
        make_archive(fresh)

    assert not archive_path(fresh).exists()


def test_the_small_load_is_of_the_projects_own_tables_whatever_tables_a_project_has(
    fresh: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[tuple[str, str]] = []

    class Lake:
        def __init__(self, settings: Settings, *_: object) -> None:
            self.settings = settings

        def load(self, table: Table, _: object) -> None:
            loaded.append((self.settings.tables, table.name))

    monkeypatch.setattr(warm_up, "start_session", lambda *_: Mock())
    monkeypatch.setattr(warm_up, "Lakehouse", Lake)
    monkeypatch.setenv("INCREMENTAL_ASSETS_TABLES", "no_such.package")
    monkeypatch.setenv("INCREMENTAL_ASSETS_START_DATE", "2016-01-01")
    monkeypatch.setenv("INCREMENTAL_ASSETS_END_DATE", "2016-12-31")

    load_and_archive(Settings.from_environment(), tmp_path / "new.jsa")

    assert loaded == 2 * [(OWN_TABLES, table.name) for table in tables_of(OWN_TABLES)]


def test_an_archive_is_only_of_its_own_jars_and_java(
    fresh: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    first = archive_path(fresh)
    assert archive_path(fresh) == first
    assert archive_path(fresh.replace(java_home=tmp_path / "java")) != first
    with monkeypatch.context() as patched:
        patched.setattr(session, "jar_paths", lambda _: [java])
        assert archive_path(fresh) != first


def test_the_archive_is_used_where_there_is_one(fresh: Settings) -> None:
    def options() -> str:
        return session_conf(fresh)["spark.driver.extraJavaOptions"]

    assert "SharedArchiveFile" not in options()

    archive_path(fresh).touch()

    assert f'"-XX:SharedArchiveFile={archive_path(fresh)}"' in options()

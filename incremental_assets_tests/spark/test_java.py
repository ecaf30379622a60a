"""Which Java is taken, and what is said where it is missing or too old."""

from __future__ import annotations

from pathlib import Path

import pytest

from incremental_assets.errors import SparkUnavailableError
from incremental_assets.spark.java import require_java

REMEDY = r"Install Java 17 or 21 \(on Debian: apt-get install openjdk-17-jre-headless\)"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A JAVA_HOME without a java."""
    (tmp_path / "bin").mkdir()
    return tmp_path


def java_that_says(home: Path, text: str, mode: int = 0o755) -> None:
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\n")
    java.chmod(mode)


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        pytest.param('openjdk version "17.0.9" 2023-10-17', 17, id="17"),
        pytest.param('openjdk version "21" 2023-09-19', 21, id="21"),
        pytest.param('java version "17.0.1-ea" 2021', 17, id="early access"),
        pytest.param(
            'Picked up JAVA_TOOL_OPTIONS: -Dx=1\nopenjdk version "17.0.9"', 17, id="options"
        ),
    ],
)
def test_a_java_that_is_new_enough_tells_its_version(
    home: Path, printed: str, version: int
) -> None:
    java_that_says(home, printed)

    assert require_java(home) == version


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        pytest.param('openjdk version "11.0.21" 2023-10-17', 11, id="11"),
        pytest.param('java version "1.8.0_392"', 8, id="8 by its old name"),
        pytest.param('openjdk version "16.0.2"', 16, id="16"),
    ],
)
def test_a_java_that_is_too_old_is_named_with_the_remedy(
    home: Path, printed: str, version: int
) -> None:
    java_that_says(home, printed)

    with pytest.raises(SparkUnavailableError) as raised:
        require_java(home)

    message = str(raised.value)
    assert message.startswith(f"Java {version} is too old ({home}/bin/java)")
    assert message.endswith("and set JAVA_HOME to it.")


def test_a_java_home_without_a_java_is_named_with_the_remedy(home: Path) -> None:
    with pytest.raises(SparkUnavailableError, match=f"JAVA_HOME is {home} and holds no.*{REMEDY}"):
        require_java(home)


def test_a_java_home_that_is_nowhere_is_named() -> None:
    with pytest.raises(SparkUnavailableError, match="JAVA_HOME is /nowhere and holds no bin/java"):
        require_java(Path("/nowhere"))


def test_no_java_at_all_is_reported_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SparkUnavailableError, match=f"no java on the PATH.*{REMEDY}"):
        require_java(None)


def test_without_a_java_home_the_path_is_searched(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_that_says(home, 'openjdk version "21.0.1"')
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/usr/bin:/bin")

    assert require_java(None) == 21


def test_a_java_that_does_not_start_says_why(home: Path) -> None:
    java_that_says(home, "", mode=0o644)

    with pytest.raises(
        SparkUnavailableError, match=f"cannot be started.*Permission denied.*{REMEDY}"
    ):
        require_java(home)


def test_a_java_that_does_not_tell_its_version_is_no_java(home: Path) -> None:
    java_that_says(home, "hello")

    with pytest.raises(SparkUnavailableError, match=f"does not print its version. {REMEDY}"):
        require_java(home)


def test_a_java_is_not_started_where_a_file_next_to_it_tells(home: Path) -> None:
    java_that_says(home, "this Java was started")
    (home / "release").write_text('IMPLEMENTOR="Debian"\nJAVA_VERSION="21.0.4"\n')

    assert require_java(home) == 21


def test_a_file_next_to_java_that_tells_something_else_counts_for_nothing(home: Path) -> None:
    java_that_says(home, 'openjdk version "17.0.9"')
    (home / "release").write_text("2026-11\n")

    assert require_java(home) == 17

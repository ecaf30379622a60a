"""The jars are those of the lock, byte for byte, or there is no Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from incremental_assets.errors import SettingsError, SparkUnavailableError
from incremental_assets.spark import jars
from incremental_assets.spark.jars import Jar, jar_paths, locked_jars, resolve_jars

RIGHT, WRONG = b"the right bytes", b"other bytes"
_DIGEST = hashlib.sha256(RIGHT).hexdigest()
LOCK = f"io.delta:delta-spark_4.2_2.13:4.4.0 sha256:{_DIGEST}\nio.delta:delta-storage:4.4.0 sha256:{_DIGEST}\n"
NAMES = ["delta-spark_4.2_2.13-4.4.0.jar", "delta-storage-4.4.0.jar"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a lock of two jars with the same bytes."""
    lock = tmp_path / "jars.lock"
    lock.write_text(LOCK)
    monkeypatch.setattr(jars, "LOCK", lock)
    return tmp_path / "cache"


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What Maven would give for each jar; asking for another one fails."""
    given: dict[str, bytes] = {}

    def download(wanted: Sequence[Jar], folder: Path, java: str) -> None:
        assert java
        for jar in wanted:
            (folder / jar.file_name).write_bytes(given[jar.file_name])

    monkeypatch.setattr(jars, "_download", download)
    monkeypatch.setattr(jars, "require_java", lambda _: 17)
    return given


def in_cache(cache: Path, contents: dict[str, bytes]) -> None:
    (cache / "jars").mkdir(parents=True)
    for name, content in contents.items():
        (cache / "jars" / name).write_bytes(content)


def test_a_line_of_the_lock_is_coordinates_and_a_digest(cache: Path) -> None:
    first, second = locked_jars()

    assert first == Jar("io.delta", "delta-spark_4.2_2.13", "4.4.0", _DIGEST)
    assert [first.file_name, second.file_name] == NAMES


def test_the_projects_lock_names_the_jars_of_delta_avro_and_databases_alone() -> None:
    found = locked_jars()

    assert {jar.group for jar in found} == {
        *("io.delta", "io.unitycatalog", "org.apache.spark"),
        *("org.mariadb.jdbc", "org.postgresql"),
    }
    assert {len(bytes.fromhex(jar.sha256)) for jar in found} == {32}
    assert len({jar.file_name for jar in found}) == len(found)


def test_jars_that_are_there_are_given_in_the_order_of_the_lock(cache: Path) -> None:
    in_cache(cache, dict.fromkeys(NAMES, RIGHT))

    assert jar_paths(cache) == [cache / "jars" / name for name in NAMES]


def test_jars_that_were_never_resolved_are_named_with_the_remedy(cache: Path) -> None:
    in_cache(cache, {NAMES[0]: RIGHT})

    with pytest.raises(SparkUnavailableError) as raised:
        jar_paths(cache)

    assert f"not in {cache}/jars ({NAMES[1]} is missing)" in str(raised.value)
    assert "Run `make setup`, or `incremental-assets setup`" in str(raised.value)


def test_jars_that_are_right_are_not_downloaded_again(
    cache: Path, downloads: dict[str, bytes]
) -> None:
    in_cache(cache, dict.fromkeys(NAMES, RIGHT))

    assert resolve_jars(cache, None) == jar_paths(cache)


def test_a_jar_in_the_cache_with_other_bytes_is_replaced(
    cache: Path, downloads: dict[str, bytes]
) -> None:
    in_cache(cache, {NAMES[0]: RIGHT, NAMES[1]: WRONG})
    downloads.update(dict.fromkeys(NAMES, RIGHT))

    paths = resolve_jars(cache, None)

    assert [path.read_bytes() for path in paths] == [RIGHT, RIGHT]


def test_a_download_with_other_bytes_is_not_installed(
    cache: Path, downloads: dict[str, bytes]
) -> None:
    downloads.update({NAMES[0]: WRONG, NAMES[1]: RIGHT})

    with pytest.raises(SparkUnavailableError) as raised:
        resolve_jars(cache, None)

    assert f"{NAMES[0]} differs from its SHA-256 in jars.lock" in str(raised.value)
    assert "Nothing was installed; check the Maven mirror" in str(raised.value)
    assert list((cache / "jars").iterdir()) == []
    assert [path.name for path in cache.iterdir()] == ["jars"]


@pytest.mark.parametrize("in_the_way", ["cache", "cache/jars"])
def test_a_cache_that_cannot_be_made_is_named_with_its_variable(
    cache: Path, downloads: dict[str, bytes], in_the_way: str
) -> None:
    path = cache.parent / in_the_way
    path.parent.mkdir(exist_ok=True)
    path.touch()

    with pytest.raises(SettingsError, match="INCREMENTAL_ASSETS_CACHE to a folder") as raised:
        resolve_jars(cache, None)

    assert f"{cache}/jars cannot be created" in str(raised.value)


def test_a_jar_that_was_changed_after_the_setup_is_not_given_to_java(cache: Path) -> None:
    in_cache(cache, {NAMES[0]: RIGHT, NAMES[1]: WRONG})

    with pytest.raises(SparkUnavailableError) as raised:
        jar_paths(cache)

    assert f"{cache}/jars/{NAMES[1]} differs from its SHA-256 in jars.lock" in str(raised.value)
    assert "Run `make setup`" in str(raised.value)

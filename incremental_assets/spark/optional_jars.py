"""Sets of jars that few sources need: fetched when they are asked for, and added to a session.

They are not on the class path of each Spark: it would load them all, and the archive of its classes
is made for one class path.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from incremental_assets.errors import SparkUnavailableError
from incremental_assets.spark.jars import Jar, fetch, is_right, locked_jars

SETS = ("kafka",)
"""The sets that there are, each with a lock file of its name."""


def lock_of(name: str) -> Path:
    """The file that pins the jars of a set."""
    return Path(__file__).with_name(f"{name}.lock")


def resolve_set(name: str, cache: Path, java_home: Path | None) -> list[Path]:
    """Download the jars of a set, unless they are there. Raises SparkUnavailableError."""
    lock = lock_of(name)
    return fetch(locked_jars(lock), cache / "jars", java_home, lock)


def jars_of(names: Collection[str], cache: Path) -> list[Path]:
    """Where the jars of some sets are, each with the bytes that its lock names.

    Raises SparkUnavailableError if they were never resolved or were changed since.
    """
    return [_checked(jar, name, cache) for name in names for jar in locked_jars(lock_of(name))]


def _checked(jar: Jar, name: str, cache: Path) -> Path:
    path = cache / "jars" / jar.file_name
    if is_right(path, jar):
        return path
    what = "differs from its SHA-256 in" if path.exists() else "is missing, which is in"
    raise SparkUnavailableError(
        f"{path} {what} {lock_of(name).name}, so Spark cannot read what needs it. Run "
        f"`incremental-assets setup --with {name}`, which downloads it."
    )

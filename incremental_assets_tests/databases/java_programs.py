"""Servers of the tests that are Java programs: their jars, what runs them, and their settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock

from incremental_assets.settings import Settings
from incremental_assets.spark.jars import fetch, locked_jars
from incremental_assets.spark.java import java_command
from incremental_assets_tests.databases.binaries import CACHE

LOGGING = """
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n
"""


def jars_of(lock: Path, artifact: str) -> Path:
    """The folder of the jars of a lock, fetched once; it is named after one of them."""
    version = next(jar.version for jar in locked_jars(lock) if jar.artifact == artifact)
    folder = CACHE / f"{artifact}-{version}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock", fallback_to_soft=False):
        fetch(locked_jars(lock), folder, Settings.from_environment().java_home, lock)
    folder.chmod(0o755)
    for jar in folder.iterdir():
        jar.chmod(0o644)
    return folder


def java_program(main: str, jars: Path, logging: Path) -> list[str]:
    """The command of a small program."""
    return [
        str(java_command(Settings.from_environment().java_home)),
        *("-Xms64m", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        f"-Dlog4j2.configurationFile={logging}",
        *("-cp", f"{jars}/*", main),
    ]


def properties(settings: Mapping[str, str]) -> str:
    """The settings as a file of Java's."""
    return "".join(f"{n}={v}\n".replace("\\", "\\\\") for n, v in settings.items())

"""Finding Java; one line with what to do where it is missing or too old."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from incremental_assets.errors import SparkUnavailableError

SUPPORTED = (17, 21)
_REMEDY = "Install Java 17 or 21 (on Debian: apt-get install openjdk-17-jre-headless)"
# As `java -version` prints it, and as the file `release` of a Java has it.
_VERSION = re.compile(r'(?:version |^JAVA_VERSION=)"(\d+)(?:\.(\d+))?', re.MULTILINE)


def java_command(home: Path | None) -> str | None:
    """The java of a JAVA_HOME, or of the PATH where there is none; None if it is not there."""
    if home is None:
        return shutil.which("java")
    java = home / "bin" / "java"
    return str(java) if java.exists() else None


def require_java(home: Path | None) -> int:
    """The major version of the Java that Spark will use.

    Raises SparkUnavailableError if there is none, or if it is older than 17.
    """
    java = java_command(home)
    if java is None:
        where = f"JAVA_HOME is {home} and holds no bin/java" if home else "no java on the PATH"
        raise SparkUnavailableError(f"Java is missing: {where}. {_REMEDY}.")
    version = _VERSION.search(release_of(java) or _asked(java))
    if version is None:
        raise SparkUnavailableError(f"{java} does not print its version. {_REMEDY}.")
    major = int(version[2] or 8) if version[1] == "1" else int(version[1])
    if major < SUPPORTED[0]:
        raise SparkUnavailableError(
            f"Java {major} is too old ({java}). {_REMEDY} and set JAVA_HOME to it."
        )
    return major


def release_of(java: str) -> str:
    """The file `release` of a Java; "" for one that has none, such as a wrapper."""
    try:
        text = (Path(java).resolve().parents[1] / "release").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, IndexError):
        return ""
    return text if _VERSION.search(text) else ""


def _asked(java: str) -> str:
    try:
        found = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError as error:
        raise SparkUnavailableError(f"{java} cannot be started: {error}. {_REMEDY}.") from error
    return found.stderr + found.stdout

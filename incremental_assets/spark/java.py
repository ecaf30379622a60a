"""Finding Java, and saying in one line what to do where it is missing or too old."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from incremental_assets.errors import SparkUnavailableError

SUPPORTED = (17, 21)
_REMEDY = "Install Java 17 or 21 (on Debian: apt-get install openjdk-17-jre-headless)"


def require_java() -> int:
    """The major version of the Java that Spark will use.

    Raises SparkUnavailableError if there is none, or if it is older than 17.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or (home and not Path(java).exists()):
        where = f"JAVA_HOME is {home} and holds no bin/java" if home else "no java on the PATH"
        raise SparkUnavailableError(f"Java is missing: {where}. {_REMEDY}.")
    try:
        found = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError as error:
        raise SparkUnavailableError(f"{java} cannot be started: {error}. {_REMEDY}.") from error
    version = re.search(r'version "(\d+)(?:\.(\d+))?', found.stderr + found.stdout)
    if version is None:
        raise SparkUnavailableError(f"{java} does not tell its version. {_REMEDY}.")
    major = int(version[2] or 8) if version[1] == "1" else int(version[1])
    if major < SUPPORTED[0]:
        raise SparkUnavailableError(
            f"Java {major} is too old ({java}). {_REMEDY} and set JAVA_HOME to it."
        )
    return major

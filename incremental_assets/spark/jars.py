"""Resolving the jars once, with checksums, into the project's own cache.

Only the jars named in `jars.lock` are taken: Ivy would bring along older Hadoop and Jackson jars
than Spark's own. The Ivy that Spark ships does the download, so whatever mirror and certificates
the machine's Java is set up for are used.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from incremental_assets.errors import SettingsError, SparkUnavailableError
from incremental_assets.spark.java import java_command, require_java

LOCK = Path(__file__).with_name("jars.lock")
_SETUP = "Run `make setup`, or `incremental-assets setup` where the package was installed alone"


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar by its Maven coordinates and the SHA-256 of its bytes."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def locked_jars(lock: Path | None = None) -> list[Jar]:
    """The jars of a lock file; of `jars.lock`, if no other is named."""
    jars = []
    for line in (lock or LOCK).read_text(encoding="utf-8").splitlines():
        coordinates, _, digest = line.partition(" sha256:")
        group, artifact, version = coordinates.split(":")
        jars.append(Jar(group, artifact, version, digest.strip()))
    return jars


def jar_paths(cache: Path) -> list[Path]:
    """Where the jars are, each with the bytes that the lock names.

    Raises SparkUnavailableError if they were never resolved or were changed since. They are
    checked at every start: the SHA-256 of 15 MB takes 15 ms, and a start of Java seconds.
    """
    paths = []
    for jar in locked_jars():
        path = cache / "jars" / jar.file_name
        if not path.exists():
            raise SparkUnavailableError(
                f"The Delta jars are not in {cache / 'jars'} ({path.name} is missing). {_SETUP}."
            )
        if not is_right(path, jar):
            raise SparkUnavailableError(
                f"{path} differs from its SHA-256 in jars.lock, so Spark was not started with it. "
                f"Find out who changed it. {_SETUP}, which downloads it again."
            )
        paths.append(path)
    return paths


def resolve_jars(cache: Path, java_home: Path | None) -> list[Path]:
    """Download what is missing, check every jar against its SHA-256, and give their paths.

    Raises SparkUnavailableError if a jar cannot be had or differs from its SHA-256 in the lock.
    """
    return fetch(locked_jars(), cache / "jars", java_home)


def fetch(jars: list[Jar], target: Path, java_home: Path | None, lock: Path = LOCK) -> list[Path]:
    """Download the jars of a lock into a folder, unless all are in it, and give their paths.

    Raises SparkUnavailableError if a jar cannot be had or differs from its SHA-256 in the lock,
    and SettingsError if the folder cannot be made.
    """
    if not all(is_right(target / jar.file_name, jar) for jar in jars):
        require_java(java_home)
        with _scratch_folder(target) as folder:
            _download(jars, Path(folder), str(java_command(java_home)))
            for jar in jars:
                found = Path(folder) / jar.file_name
                if not is_right(found, jar):
                    raise SparkUnavailableError(
                        f"{jar.file_name} differs from its SHA-256 in {lock.name}. Nothing was "
                        "installed; check the Maven mirror of this machine and run again."
                    )
                os.replace(found, target / jar.file_name)
    return [target / jar.file_name for jar in jars]


def _scratch_folder(target: Path) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder of the file system on which the target is, which is made as well."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=target.parent)
    except OSError as error:
        raise SettingsError(
            f"The folder {target} cannot be created or written ({error}). "
            "Set INCREMENTAL_ASSETS_CACHE to a folder that can be written."
        ) from error


def is_right(path: Path, jar: Jar) -> bool:
    if not path.exists():
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == jar.sha256


def _download(jars: list[Jar], folder: Path, java: str) -> None:
    import pyspark  # deferred: finding Ivy is all it is needed for

    ivy = next(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    dependencies = "".join(
        f'<dependency org="{j.group}" name="{j.artifact}" rev="{j.version}" transitive="false"/>'
        for j in jars
    )
    module = folder / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="local" module="jars"/>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>",
        encoding="utf-8",
    )
    pattern = str(folder / "[artifact]-[revision].[ext]")
    command = [java, "-jar", str(ivy), "-cache", str(folder / "ivy"), "-ivy", str(module)]
    done = subprocess.run(
        [*command, "-types", "jar", "bundle", "-retrieve", pattern],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not all((folder / jar.file_name).exists() for jar in jars):
        lines = (done.stdout + done.stderr).strip().splitlines()
        last = next((line.strip() for line in reversed(lines) if "::" in line), "no answer")
        raise SparkUnavailableError(
            f"The jars cannot be downloaded from Maven ({last}). Check the network and run this "
            "again; what is there already stays."
        )

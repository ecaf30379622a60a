"""A scratch lake that lives as long as one verification.

It is inside the lake, where the Spark that loads the lake can write, unless another path is given.
The next verification removes what a killed run left: on a local disk as soon as the owner is dead,
in an object store, where that is unknown, after two days.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from filelock import FileLock

from incremental_assets.errors import LakeError
from incremental_assets.locations import local_path
from incremental_assets.storage import folders_in, remove

FOLDER = "_scratch"
LEFT_AFTER = timedelta(days=2)
_NAMED = "verify-"
_WHEN = "%Y%m%dT%H%M%S"


@contextmanager
def scratch_lake(
    path: str, now: datetime, needed: int, log: Callable[[str], None]
) -> Iterator[str]:
    """A folder below `path`, which is removed at the end in any case.

    Raises LakeError if nothing can be written there, or the disk has not the `needed` bytes.
    """
    remove_left_over(path, now, log)
    root = local_path(path)
    folder = f"{path}/{_NAMED}{now:{_WHEN}}-{secrets.token_hex(4)}"
    if root is None:
        try:
            yield folder
        finally:
            remove(folder)
        return
    with _owned(root, Path(folder), needed):
        yield folder


def remove_left_over(path: str, now: datetime, log: Callable[[str], None]) -> None:
    """Remove what killed runs left below a path."""
    root = local_path(path)
    if root is not None and not root.is_dir():
        return
    for name in folders_in(path):
        if not name.startswith(_NAMED):
            continue
        if _is_old(name, now) if root is None else not _is_alive(root / name):
            log(f"{path}/{name} was left by a run that died, and is removed")
            remove(f"{path}/{name}")
            if root is not None:
                remove(f"{path}/{name}.lock")


@contextmanager
def _owned(root: Path, folder: Path, needed: int) -> Iterator[None]:
    """The folder, with a lock file that is free as soon as this process has ended."""
    lock = _lock(folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise LakeError(
            f"{root} is not writable: {error.strerror or error}. Name another path for the "
            "rebuild by --scratch."
        ) from error
    try:
        _require_room(root, needed)
        folder.mkdir()
        yield
    finally:
        remove(str(folder))
        remove(lock.lock_file)
        lock.release()
        with suppress(OSError):  # another run may use the path, too
            root.rmdir()


def _require_room(root: Path, needed: int) -> None:
    free = shutil.disk_usage(root).free
    if free < needed:
        raise LakeError(
            f"The rebuild needs about {size_text(needed)}, and {root} has {size_text(free)} left. "
            "Make room, name another path by --scratch, or verify fewer days."
        )


def size_text(size: int) -> str:
    """Bytes for a person."""
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def _lock(folder: Path) -> FileLock:
    # A lock that is a mere file would outlive a process that was killed.
    return FileLock(folder.with_name(f"{folder.name}.lock"), fallback_to_soft=False)


def _is_alive(folder: Path) -> bool:
    try:
        with _lock(folder).acquire(blocking=False):
            return False
    except OSError:  # held; or another user's, who may remove it
        return True


def _is_old(name: str, now: datetime) -> bool:
    try:
        began = datetime.strptime(name.split("-")[1], _WHEN).replace(tzinfo=now.tzinfo)
    except (IndexError, ValueError):
        return False
    return now - began > LEFT_AFTER

"""A scratch place for a lake that lives as long as one verification.

It lies inside the lake, where whichever Spark loads the lake can write, unless somebody names
another place. One that a killed run left behind is removed by the next: on a local disk as soon as
its owner is dead, in an object store, which cannot tell, after two days.
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
from incremental_assets.settings import local_path
from incremental_assets.storage import folders_in, remove

FOLDER = "_scratch"
LEFT_AFTER = timedelta(days=2)
_NAMED = "verify-"
_WHEN = "%Y%m%dT%H%M%S"


@contextmanager
def scratch_lake(
    place: str, now: datetime, needed: int, say: Callable[[str], None]
) -> Iterator[str]:
    """A folder of its own below `place`, which is removed at the end whatever happens.

    Raises LakeError if nothing can be written there, or the disk has not the `needed` bytes.
    """
    remove_left_over(place, now, say)
    root = local_path(place)
    folder = f"{place}/{_NAMED}{now:{_WHEN}}-{secrets.token_hex(4)}"
    if root is None:
        try:
            yield folder
        finally:
            remove(folder)
        return
    with _owned(root, Path(folder), needed):
        yield folder


def remove_left_over(place: str, now: datetime, say: Callable[[str], None]) -> None:
    """Remove what killed runs have left below a place."""
    root = local_path(place)
    if root is not None and not root.is_dir():
        return
    for name in folders_in(place):
        if not name.startswith(_NAMED):
            continue
        if _is_old(name, now) if root is None else not _is_alive(root / name):
            say(f"{place}/{name} was left by a run that died, and is removed")
            remove(f"{place}/{name}")
            if root is not None:
                remove(f"{place}/{name}.lock")


@contextmanager
def _owned(root: Path, folder: Path, needed: int) -> Iterator[None]:
    """The folder, with a lock beside it that is free as soon as this process is gone."""
    lock = _lock(folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise LakeError(
            f"{root} is not writable: {error.strerror or error}. Name another place for the "
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
        with suppress(OSError):  # another run may use the place, too
            root.rmdir()


def _require_room(root: Path, needed: int) -> None:
    free = shutil.disk_usage(root).free
    if free < needed:
        raise LakeError(
            f"The rebuild needs about {size_text(needed)}, and {root} has {size_text(free)} left. "
            "Make room, name another place by --scratch, or verify fewer days."
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

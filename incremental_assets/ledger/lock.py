"""One writer per table at a time, by a lock that is free when its owner dies.

On a local lake the lock is an `flock`: the kernel drops it with the process, so `kill -9` leaves
nothing behind. It saves work; the fence and compare-and-set make a load correct even without it.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from socket import gethostname

from filelock import FileLock, Timeout

from incremental_assets.errors import LakeError
from incremental_assets.locations import local_path

POLL_SECONDS = 0.2
BRIEFLY_SECONDS = 10.0
LOG_AGAIN_SECONDS = 30.0
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


@contextmanager
def table_lock(lake: str, table: str, owner: str, log: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a table; wait for it while another run has it, and log which.

    On an object store there is no such lock: there two writers of one table waste work, and the
    ledger's compare-and-set and the fence decide which of them publishes. Raises LakeError if the
    lake cannot be written, or is on a file system without locks.
    """
    root = local_path(lake)
    if root is None:
        yield
        return
    lock = _lock(root, table, owner)
    seconds = 0.0
    while not _taken(lock, root, seconds):
        log(f"{table}: waiting for {_owner(lock)} to finish with the table")
        seconds = LOG_AGAIN_SECONDS
    try:
        yield
    finally:
        lock.release()


@contextmanager
def brief_lock(
    lake: str, table: str, owner: str, seconds: float = BRIEFLY_SECONDS
) -> Iterator[bool]:
    """Hold the lock of a table if it is free within some seconds; whether it is held.

    For work of milliseconds that may as well be done another time: a load of the table comes
    first. On an object store, where there is no such lock, it is always given.
    """
    root = local_path(lake)
    if root is None:
        yield True
        return
    lock = _lock(root, table, owner)
    held = _taken(lock, root, seconds)
    try:
        yield held
    finally:
        lock.release()


def _lock(root: Path, table: str, owner: str) -> FileLock:
    return FileLock(
        root / "_locks" / f"{table.replace('/', '_')}.lock",
        poll_interval=POLL_SECONDS,
        # A lock that is a mere file would outlive a process that was killed.
        fallback_to_soft=False,
        on_acquired=partial(_sign, owner),
    )


def _taken(lock: FileLock, root: Path, seconds: float) -> bool:
    try:
        Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=seconds)
    except Timeout:
        return False
    except OSError as error:
        why = f"{error.strerror or error} ({error.filename or lock.lock_file})"
        if error.errno in _NO_LOCKS:
            raise LakeError(
                f"The file system of the lake {root} has no locks: {why}. Mount it with them (NFS: "
                "without nolock), or set INCREMENTAL_ASSETS_LAKE to another folder."
            ) from error
        raise LakeError(
            f"The lake {root} is not writable: {why}. Set INCREMENTAL_ASSETS_LAKE to a folder "
            "where this user may write."
        ) from error
    return True


def _sign(owner: str, handle: int) -> None:
    os.ftruncate(handle, 0)
    signed = {"owner": owner, "pid": os.getpid(), "host": gethostname()}
    os.pwrite(handle, json.dumps(signed).encode(), 0)


def _owner(lock: FileLock) -> str:
    try:
        held = json.loads(Path(lock.lock_file).read_text() or "{}")
        host = held.get("host", here := gethostname())
        where = "" if host == here else f" on {host}"  # a container, or a machine of a shared disk
        return f"{held.get('owner', 'another run')} (process {held.get('pid', '?')}{where})"
    except (OSError, ValueError):
        return "another run"

"""One writer per table at a time, by a lock that is free when its owner dies.

On a local lake the lock is an `flock`: the kernel drops it with the process, so `kill -9` leaves
nothing behind. It saves work; the fence and compare-and-set make a load correct even without it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from incremental_assets.errors import LakeError
from incremental_assets.settings import local_path

POLL_SECONDS = 0.2
BRIEFLY_SECONDS = 10.0
SAY_AGAIN_SECONDS = 30.0


@contextmanager
def table_lock(lake: str, table: str, owner: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a table; wait for it, and say for whom, while another run has it.

    On an object store there is no such lock: there two writers of one table waste work, and the
    ledger's compare-and-set and the fence decide which of them publishes.
    """
    root = local_path(lake)
    if root is None:
        yield
        return
    handle = _opened(root, table)
    try:
        _wait(handle, table, say)
        _sign(handle, owner)
        yield
    finally:
        os.close(handle)


@contextmanager
def brief_lock(
    lake: str, table: str, owner: str, seconds: float = BRIEFLY_SECONDS
) -> Iterator[bool]:
    """Hold the lock of a table if it is free within some seconds; whether it is held.

    For work of milliseconds that may as well be done another time: whoever loads the table comes
    first. On an object store, where there is no such lock, it is always given.
    """
    root = local_path(lake)
    if root is None:
        yield True
        return
    handle = _opened(root, table)
    try:
        until = time.monotonic() + seconds
        while not (held := _taken(handle)) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        if held:
            _sign(handle, owner)
        yield held
    finally:
        os.close(handle)


def _opened(root: Path, table: str) -> int:
    path = root / "_locks" / f"{table.replace('/', '_')}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o664)
    except OSError as error:
        raise LakeError(
            f"The lake {root} is not writable: {error.strerror or error} ({error.filename}). Set "
            "INCREMENTAL_ASSETS_LAKE to a place where this user may write."
        ) from error


def _sign(handle: int, owner: str) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps({"owner": owner, "pid": os.getpid()}).encode(), 0)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(handle: int, table: str, say: Callable[[str], None]) -> None:
    said = float("-inf")
    while not _taken(handle):
        if time.monotonic() - said > SAY_AGAIN_SECONDS:
            say(f"{table}: waiting for {_owner(handle)} to finish with the table")
            said = time.monotonic()
        time.sleep(POLL_SECONDS)


def _owner(handle: int) -> str:
    try:
        held = json.loads(os.pread(handle, 4096, 0) or b"{}")
        return f"{held.get('owner', 'another run')} (process {held.get('pid', '?')})"
    except ValueError:
        return "another run"

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

from incremental_assets.errors import LakeError
from incremental_assets.settings import local_path

POLL_SECONDS = 0.2
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
    path = root / "_locks" / f"{table.replace('/', '_')}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o664)
    except OSError as error:
        raise LakeError(
            f"The lake {root} is not writable: {error.strerror or error} ({error.filename}). Set "
            "INCREMENTAL_ASSETS_LAKE to a place where this user may write."
        ) from error
    try:
        _wait(handle, table, say)
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps({"owner": owner, "pid": os.getpid()}).encode(), 0)
        yield
    finally:
        os.close(handle)


def _wait(handle: int, table: str, say: Callable[[str], None]) -> None:
    said = float("-inf")
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() - said > SAY_AGAIN_SECONDS:
                say(f"{table}: waiting for {_owner(handle)} to finish with the table")
                said = time.monotonic()
            time.sleep(POLL_SECONDS)
        else:
            return


def _owner(handle: int) -> str:
    try:
        held = json.loads(os.pread(handle, 4096, 0) or b"{}")
        return f"{held.get('owner', 'another run')} (process {held.get('pid', '?')})"
    except ValueError:
        return "another run"

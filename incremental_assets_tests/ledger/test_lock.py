"""One writer per table at a time, over processes; a dead one holds nothing up."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import gethostname

import pytest

from incremental_assets.errors import LakeError
from incremental_assets.ledger.lock import brief_lock, table_lock

SALES = "silver/sales"
PATIENCE_SECONDS = 20.0
_HOLD = """
import sys
from incremental_assets.ledger.lock import table_lock
with table_lock(sys.argv[1], sys.argv[2], "run 4711", print):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def another_process(lake: Path, table: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of a table until it is sent a line, or killed."""
    command = [sys.executable, "-c", _HOLD, str(lake), table]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


class Waiting:
    """A thread that wants the lock: what it was told, and when it got it."""

    def __init__(self, lake: Path, table: str = SALES) -> None:
        self.logged: list[str] = []
        self.got = threading.Event()
        self.thread = threading.Thread(target=self._take, args=(str(lake), table))

    def __enter__(self) -> Waiting:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.thread.join(PATIENCE_SECONDS)

    def _take(self, lake: str, table: str) -> None:
        with table_lock(lake, table, "second", self.logged.append):
            self.got.set()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def test_a_free_lock_is_taken_in_silence(tmp_path: Path) -> None:
    logged: list[str] = []

    with table_lock(str(tmp_path), SALES, "first", logged.append):
        pass
    with table_lock(str(tmp_path), SALES, "second", logged.append):
        pass

    assert logged == []


def test_a_second_run_waits_and_says_once_for_whom(tmp_path: Path) -> None:
    with another_process(tmp_path, SALES) as owner, Waiting(tmp_path) as second:
        until(lambda: second.logged)
        time.sleep(0.5)

        assert second.logged == [
            f"silver/sales: waiting for run 4711 (process {owner.pid}) to finish with the table"
        ]
        assert not second.got.is_set()

        print(file=owner.stdin, flush=True)

        assert second.got.wait(PATIENCE_SECONDS)


def test_a_second_run_says_on_which_host_the_first_one_is_where_that_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with another_process(tmp_path, SALES) as owner:
        monkeypatch.setattr("incremental_assets.ledger.lock.gethostname", lambda: "another")
        with Waiting(tmp_path) as second:
            until(lambda: second.logged)
            print(file=owner.stdin, flush=True)

    assert f"run 4711 (process {owner.pid} on {gethostname()})" in second.logged[0]


def test_an_owner_that_is_killed_frees_the_lock_at_once(tmp_path: Path) -> None:
    with another_process(tmp_path, SALES) as owner, Waiting(tmp_path) as second:
        until(lambda: second.logged)

        os.kill(owner.pid, signal.SIGKILL)

        assert second.got.wait(2.0)


def test_another_tables_lock_is_another_lock(tmp_path: Path) -> None:
    logged: list[str] = []

    with (
        table_lock(str(tmp_path), SALES, "first", logged.append),
        table_lock(str(tmp_path), "silver/users", "second", logged.append),
    ):
        assert logged == []


def test_threads_of_one_process_exclude_each_other_too(tmp_path: Path) -> None:
    with Waiting(tmp_path) as second:
        assert second.got.wait(PATIENCE_SECONDS)

    with table_lock(str(tmp_path), SALES, "first", lambda _: None):
        third = Waiting(tmp_path)
        third.thread.start()
        until(lambda: third.logged)
        assert "first" in third.logged[0]
        assert not third.got.is_set()
    third.thread.join(PATIENCE_SECONDS)

    assert third.got.is_set()


def test_an_error_while_the_lock_is_held_frees_it(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="in the middle"),
        table_lock(str(tmp_path), SALES, "first", lambda _: None),
    ):
        raise ValueError("in the middle")

    with Waiting(tmp_path) as second:
        assert second.got.wait(PATIENCE_SECONDS)
    assert second.logged == []


def test_a_lake_that_cannot_be_written_names_the_path_and_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_text("in the way")

    with (
        pytest.raises(LakeError, match=r"a file is not writable.*Set INCREMENTAL_ASSETS_LAKE"),
        table_lock(str(file), SALES, "first", lambda _: None),
    ):
        pytest.fail("the lock was held without a lake")


def test_a_file_system_without_locks_is_named_and_not_loaded_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):

        def refuse(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", refuse)
        with (
            pytest.raises(LakeError, match=r"file system of the lake .* locks.*Mount it with"),
            table_lock(str(tmp_path), SALES, "first", lambda _: None),
        ):
            pytest.fail("the table was held without a lock")


def test_a_file_system_that_is_read_only_names_the_path_and_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with table_lock(str(tmp_path), SALES, "first", lambda _: None):
        pass
    opened = os.open

    def refuse(path: str, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", refuse)
    with (
        pytest.raises(LakeError, match=r"not writable: Read-only file system .*silver_sales.lock"),
        table_lock(str(tmp_path), SALES, "second", lambda _: None),
    ):
        pytest.fail("the lock was held on a disk that cannot be written")


def test_work_that_can_wait_gives_up_after_its_seconds_and_is_reported(tmp_path: Path) -> None:
    with another_process(tmp_path, SALES) as owner:
        with brief_lock(str(tmp_path), SALES, "maintenance", seconds=0.3) as held:
            assert not held
        print(file=owner.stdin, flush=True)
        owner.wait()
    other = Waiting(tmp_path)
    with brief_lock(str(tmp_path), SALES, "maintenance", seconds=0.3) as held:
        assert held
        other.thread.start()
        until(lambda: other.logged)
        assert "waiting for maintenance" in other.logged[0]
        assert not other.got.is_set()
    assert other.got.wait(PATIENCE_SECONDS)
    other.thread.join()


def test_an_object_store_has_no_lock_to_wait_for() -> None:
    logged: list[str] = []

    with (
        table_lock("s3://bucket/lake", SALES, "first", logged.append),
        table_lock("s3://bucket/lake", SALES, "second", logged.append),
    ):
        assert logged == []

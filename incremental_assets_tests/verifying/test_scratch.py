"""The scratch folder: removed at the end, whatever happens, and after a run that was killed."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from incremental_assets.errors import LakeError
from incremental_assets.verifying.scratch import scratch_lake

NOW = datetime(2017, 1, 10, 12, tzinfo=UTC)


def test_it_exists_in_the_block_and_is_removed_after_it_in_any_case(tmp_path: Path) -> None:
    place = tmp_path / "lake" / "_scratch"
    with scratch_lake(str(place), NOW, 1, print) as folder:
        (Path(folder) / "silver").mkdir()
        assert Path(folder).parent == place
    assert not place.exists()

    with pytest.raises(KeyboardInterrupt), scratch_lake(str(place), NOW, 1, print) as folder:
        (Path(folder) / "silver").mkdir()
        raise KeyboardInterrupt
    assert not place.exists()


def test_what_a_killed_run_left_is_removed_and_that_of_a_running_one_stays(tmp_path: Path) -> None:
    holds = (
        "import sys, time\n"
        "from datetime import UTC, datetime\n"
        "from incremental_assets.verifying.scratch import scratch_lake\n"
        "with scratch_lake(sys.argv[1], datetime.now(UTC), 1, print) as folder:\n"
        "    print(folder, flush=True)\n"
        "    time.sleep(600)\n"
    )
    logged: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", holds, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        with scratch_lake(str(tmp_path), NOW, 1, logged.append):
            assert (left.is_dir(), logged) == (True, [])
        other.kill()
        other.wait()

    assert left.is_dir()
    with scratch_lake(str(tmp_path), NOW, 1, logged.append):
        assert not left.exists()
    assert logged == [f"{left} was left by a run that died, and is removed"]
    assert not tmp_path.exists()


def test_nothing_begins_where_there_is_no_room_or_no_right(tmp_path: Path) -> None:
    with (
        pytest.raises(LakeError, match=r"needs about 9,313.2 GiB, and .* Make room, name another"),
        scratch_lake(str(tmp_path), NOW, 10**13, print),
    ):
        pass
    assert list(tmp_path.parent.glob(f"{tmp_path.name}/*")) == []
    (tmp_path.parent / "file").touch()
    with (
        pytest.raises(LakeError, match=r"is not writable: .* by --scratch"),
        scratch_lake(str(tmp_path.parent / "file" / "x"), NOW, 1, print),
    ):
        pass

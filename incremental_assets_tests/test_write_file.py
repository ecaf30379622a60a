"""A file appears whole, whoever else writes it: in containers all of them may be process 1."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from incremental_assets.storage import write_file

AT_ONCE = 4


def test_processes_of_one_number_write_the_same_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = {bytes([number]) * 100_000 for number in range(AT_ONCE)}

    def write(content: bytes) -> None:
        for _ in range(50):
            write_file(str(path), content)
            assert path.read_bytes() in contents

    with ThreadPoolExecutor(AT_ONCE) as writers:
        list(writers.map(write, contents))

    assert [each.name for each in tmp_path.iterdir()] == ["file"]

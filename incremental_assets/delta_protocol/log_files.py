"""The files of a Delta table's log: which commits and checkpoints it has, what a commit holds.

Follows the Delta transaction protocol: a commit is one JSON file of actions, one a line
(`add`, `remove`, `txn`, `commitInfo`), numbered by the version. The log is read as files; delta-rs
cannot open a path that holds a `%`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from incremental_assets.storage import files_below, open_file

DELTA_LOG = "_delta_log"
# With these the rows of a file are what its Parquet holds, and its partition is that of its path.
PLAIN_FEATURES = frozenset({"variantType", "variantType-preview", "timestampNtz", "v2Checkpoint"})
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(.+\.)?(parquet|json)")


@dataclass(frozen=True, slots=True)
class LogVersions:
    """The versions that have a commit in the log, and those that have a checkpoint.

    With when each commit was written, in nanoseconds since 1970.
    """

    commits: Mapping[int, int]
    checkpoints: frozenset[int]


def log_files(path: str) -> LogVersions:
    """The log of a table; without anything where there is none. Raises OSError."""
    found = files_below(f"{path}/{DELTA_LOG}")
    commits = {int(m[1]): f.modified for f in found if (m := _COMMIT.fullmatch(f.path))}
    checkpoints = (int(m[1]) for f in found if (m := _CHECKPOINT.fullmatch(f.path)))
    return LogVersions(commits, frozenset(checkpoints))


def commit_file(path: str, version: int) -> str:
    """The path of a commit."""
    return f"{path}/{DELTA_LOG}/{version:020d}.json"


def commit_bytes(path: str, version: int) -> bytes | None:
    """A commit as it is stored; None where the log no longer has it. Raises OSError."""
    try:
        with open_file(commit_file(path, version)) as stream:
            return stream.read()
    except FileNotFoundError:
        return None


def actions_at(path: str, version: int) -> list[dict[str, Any]] | None:
    """The actions of a commit; None where the log no longer has it.

    Raises OSError, and ValueError for what is not JSON.
    """
    commit = commit_bytes(path, version)
    return None if commit is None else actions_of(commit)


def actions_of(commit: bytes) -> list[dict[str, Any]]:
    """The actions of a commit. Raises ValueError for what is not JSON."""
    # Delta leaves U+0085, U+2028 and U+2029 as they are: only a line feed ends an action.
    return [json.loads(line) for line in commit.decode("utf-8").split("\n") if line.strip()]

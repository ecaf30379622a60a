"""A commit of files is tried once; whoever decides on it is asked again, and not for ever."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from incremental_assets.delta_protocol.commit import NO_HOOKS, commit_files, retried_commit
from incremental_assets.errors import ConflictError, LakeError
from incremental_assets_tests.delta.conftest import give_feature

SCHEMA = Schema.from_json(
    '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}}]}'
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    made = f"{tmp_path}/table"
    DeltaTable.create(made, SCHEMA)
    return made


def add(path: str, name: str) -> None:
    commit_files(DeltaTable(path), [AddAction(name, 1, {}, 0, True, "{}")], hooks=NO_HOOKS)


def names(path: str) -> set[str]:
    return {uri.rpartition("/")[2] for uri in DeltaTable(path).file_uris()}


def test_a_commit_after_that_of_somebody_else_fails_and_changes_nothing(path: str) -> None:
    opened = DeltaTable(path)
    add(path, "theirs")

    with pytest.raises(CommitFailedError):
        commit_files(opened, [AddAction("ours", 1, {}, 0, True, "{}")])

    assert names(path) == {"theirs"}


def test_an_attempt_that_others_were_faster_than_is_made_again(path: str) -> None:
    tables: list[DeltaTable] = []

    def attempt() -> int:
        tables.append(DeltaTable(path))
        if len(tables) == 1:
            add(path, "theirs")
        commit_files(tables[-1], [AddAction("ours", 1, {}, 0, True, "{}")], note="{}")
        return len(tables)

    assert retried_commit(path, attempt, "Nothing was published") == 2
    assert names(path) == {"theirs", "ours"}


def test_where_others_keep_committing_it_is_given_up_and_says_so(path: str) -> None:
    def attempt() -> None:
        opened = DeltaTable(path)
        add(path, f"theirs-{opened.version()}")
        commit_files(opened, [AddAction("ours", 1, {}, 0, True, "{}")])

    with pytest.raises(ConflictError, match=r"by others 20 times in a row\. Nothing was published"):
        retried_commit(path, attempt, "Nothing was published")

    assert len(names(path)) == 20
    assert "ours" not in names(path)


def test_a_feature_that_delta_rs_cannot_write_is_not_taken_for_commits_of_others(path: str) -> None:
    give_feature(path, "rowTracking")
    tries: list[str] = []

    def attempt() -> None:
        tries.append("")
        add(path, "ours")

    with pytest.raises(LakeError, match=r"nobody else commits: .*RowTracking.*Nothing was publ"):
        retried_commit(path, attempt, "Nothing was published")

    assert len(tries) == 3


def test_a_table_that_cannot_be_written_is_an_error_with_a_remedy_at_once(path: str) -> None:
    tries: list[str] = []

    def attempt() -> None:
        tries.append("")
        raise OSError("disk full")

    with pytest.raises(LakeError, match=r"disk full\. Nothing was published; run again"):
        retried_commit(path, attempt, "Nothing was published")

    assert len(tries) == 1

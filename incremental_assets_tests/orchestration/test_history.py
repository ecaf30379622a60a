"""Dagster's history with files that are kept open is the history that Dagster itself would keep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage

from incremental_assets.orchestration import history
from incremental_assets.orchestration.history import KeptOpen
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end.dagster_dev import until

PLAIN = "telemetry:\n  enabled: false\n"
DAYS = ("2017-01-05", "2017-01-06")


@dg.asset(
    partitions_def=dg.DailyPartitionsDefinition("2017-01-01"),
    check_specs=[dg.AssetCheckSpec("good", asset="sales")],
)
def sales(context) -> Iterator[Any]:
    yield dg.AssetCheckEvaluation(
        dg.AssetKey("sales"), "good", True, partition=context.partition_key
    )
    yield dg.MaterializeResult(check_results=[dg.AssetCheckResult(check_name="good", passed=True)])


def opened(home: Path, config: str | None = None) -> dg.DagsterInstance:
    text = (PROJECT_ROOT / "dagster.yaml").read_text() if config is None else config
    (home / "dagster.yaml").write_text(text)
    return dg.DagsterInstance.from_config(str(home))


def run(instance: dg.DagsterInstance, day: str) -> str:
    done = dg.materialize([sales], partition_key=day, instance=instance)
    assert done.success
    return done.run_id


def told(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    """What the run said, and what the instance knows of its asset and check."""
    said = [str(entry.dagster_event_type) for entry in instance.all_logs(run_id)]
    key = dg.AssetKey("sales")
    found = instance.fetch_materializations(key, limit=10).records
    checks = instance.event_log_storage.get_latest_asset_check_execution_by_key(
        [dg.AssetCheckKey(key, "good")]
    )
    passed = [str(record.status) for record in checks.values()]
    return [*said, *sorted(str(record.partition_key) for record in found), *passed]


def open_files(folder: Path) -> set[str]:
    found = (os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
    return {Path(name).name for name in found if name.startswith(str(folder))}


def test_either_reads_what_the_other_has_written(tmp_path: Path) -> None:
    with opened(tmp_path, PLAIN) as theirs:
        assert type(theirs.event_log_storage) is SqliteEventLogStorage
        first = run(theirs, DAYS[0])
    with opened(tmp_path) as ours:
        assert type(ours.event_log_storage) is KeptOpen
        assert "ASSET_MATERIALIZATION" in " ".join(told(ours, first))
        second = run(ours, DAYS[1])
        seen = told(ours, second)
    with opened(tmp_path, PLAIN) as theirs:
        assert told(theirs, second) == seen
    assert seen[-3:-1] == list(DAYS)
    assert "SUCCEEDED" in seen[-1]


def test_what_is_written_is_seen_at_once_by_who_reads_beside(tmp_path: Path) -> None:
    with opened(tmp_path) as writer, opened(tmp_path) as reader:
        ran = [run(writer, day) for day in DAYS]

        assert [told(reader, each) for each in ran] == [told(writer, each) for each in ran]


def test_who_follows_a_run_hears_each_event_while_it_goes_on(tmp_path: Path) -> None:
    heard: list[str] = []
    with opened(tmp_path) as writer, opened(tmp_path) as reader:
        ran = writer.add_run(dg.DagsterRun("assets", status=dg.DagsterRunStatus.STARTED))
        writer.report_engine_event("first", ran)
        reader.watch_event_logs(ran.run_id, None, lambda entry, _: heard.append(entry.message))
        for word in ("second", "third"):
            writer.report_engine_event(word, ran)
            until(lambda word=word: any(word in said for said in heard), 20)


def test_a_storage_of_its_own_takes_the_place(tmp_path: Path) -> None:
    own = f"\nstorage:\n  sqlite:\n    base_dir: {tmp_path}/own\n"
    with opened(tmp_path, (PROJECT_ROOT / "dagster.yaml").read_text() + own) as instance:
        assert type(instance.event_log_storage) is SqliteEventLogStorage
        run(instance, DAYS[0])
    assert (tmp_path / "own" / "history" / "runs.db").exists()


def test_a_run_opens_its_file_and_the_common_one_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    create = history.create_engine

    def counted(place: str, **arguments: Any) -> Any:
        made.append(Path(place).stem)
        return create(place, **arguments)

    monkeypatch.setattr(history, "create_engine", counted)
    with opened(tmp_path) as instance:
        ran = run(instance, DAYS[0])

    assert sorted(made) == sorted([ran, "index"])


def test_but_the_latest_run_and_what_all_share_nothing_is_kept_open(tmp_path: Path) -> None:
    with opened(tmp_path) as instance:
        for _ in range(3):
            last = run(instance, DAYS[0])
        events = open_files(tmp_path / "history" / "runs")
        assert {name for name in events if name.endswith(".db")} == {f"{last}.db", "index.db"}
    assert not open_files(tmp_path)


def test_a_history_that_is_wiped_is_written_anew(tmp_path: Path) -> None:
    with opened(tmp_path) as instance:
        first = run(instance, DAYS[0])
        instance.wipe()
        assert not instance.all_logs(first)

        second = run(instance, DAYS[1])

        assert told(instance, second)[-2] == DAYS[1]

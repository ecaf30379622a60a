"""The instance that the command line opens, in a home that may be of an older version."""

from __future__ import annotations

import sys
from pathlib import Path

import dagster as dg
import pytest
import yaml

from incremental_assets.errors import SettingsError
from incremental_assets.orchestration.instance import CONFIG, open_instance
from incremental_assets.settings import Settings
from incremental_assets_tests.end_to_end.production import settings_of_page

PLANNED_EVENT = 0.031
"""Seconds that the longest of docs/speed.md takes."""
FORMER = """# Settings of the Dagster instance.
instance_class:
  # Its history is Dagster's own, in SQLite, with connections that are kept open: a run of a month says
  # a thousand things. A `storage` in this file takes its place.
  module: incremental_assets.orchestration.history
  class: Instance

telemetry:
  enabled: false
"""
LAUNCHER = """
run_launcher:
  module: incremental_assets.orchestration.launcher
  class: LocalRunLauncher
  config: {{heartbeat_timeout_seconds: {}}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return tmp_path


def test_a_new_home_gets_the_projects_settings(settings: Settings, home: Path) -> None:
    open_instance(settings.replace(dagster_home=home))

    assert (home / "dagster.yaml").read_text() == CONFIG.read_text()


@pytest.mark.parametrize("of", ["one machine", "several"])
def test_runs_wait_for_a_code_server_that_restarts_and_for_the_plan_of_a_long_backfill(
    tmp_path: Path, of: str
) -> None:
    page = {name: value for name, value in settings_of_page().items() if name != "storage"}
    text = CONFIG.read_text() if of == "one machine" else yaml.safe_dump(page)
    (tmp_path / "dagster.yaml").write_text(text)

    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        queue = instance.get_concurrency_config().run_queue_config
        assert queue is not None
        assert queue.max_concurrent_runs == 4
        assert queue.max_user_code_failure_retries * queue.user_code_failure_retry_delay == 300
        days = 30 * 10 * 365  # of 30 tables over ten years: no run fails while these are planned
        assert instance.run_monitoring_start_timeout_seconds > days * PLANNED_EVENT


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FORMER, "# Settings of the Dagster instance.\ntelemetry:\n  enabled: false\n"),
        ("telemetry:\n  enabled: false\n", "telemetry:\n  enabled: false\n"),
    ],
    ids=["of an older version", "of one's own"],
)
def test_a_home_loses_only_the_history_that_is_no_more(
    settings: Settings, home: Path, before: str, after: str
) -> None:
    (home / "dagster.yaml").write_text(before)

    with open_instance(settings.replace(dagster_home=home)) as instance:
        assert instance.run_storage.get_runs() == []

    assert (home / "dagster.yaml").read_text() == after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "storage: {postgres: {postgres_db: {hostname: h, username: u, password: 98765432}}}\n",
            r"DagsterInvalidConfigError: Error 1: (?!.*98765432).*password\. Its value is of type",
        ),
        (
            "storage: {postgres: {postgres_url: 98765432}}\n",
            r"DagsterInvalidConfigError: Error 1: (?!.*98765432).*postgres_url\. Its value",
        ),
        (
            LAUNCHER.format(2),
            r"run_launcher: heartbeat_timeout_seconds is 2; expected 5 or more, in",
        ),
        (
            LAUNCHER.format("soon"),
            r"DagsterInvalidConfigError: Error 1: .*heartbeat_timeout_seconds\. Value \"'?soon",
        ),
        (
            "storage: [",
            r"ParserError: .*dagster\.yaml\", line 1, column 11\. Correct that file, or",
        ),
        ("storag: 1\n", r"DagsterInvalidConfigError: Error 1: .*entry \"storag\".*… Corr"),
        (
            "storage: {postgres: {postgres_url: {env: NO_SUCH_URL}}}\n",
            r"DagsterInvalidConfigError: Error 1: .*\"NO_SUCH_URL\" which is not set",
        ),
        ("storage: postgres\n", r"DagsterInvalidConfigError: .*'sqlite', 'custom'\]\. C"),
    ],
)
def test_a_file_of_settings_that_cannot_be_used_is_named(
    settings: Settings, home: Path, text: str, message: str
) -> None:
    (home / "dagster.yaml").write_text(text)

    with pytest.raises(SettingsError, match=rf"{home}/dagster\.yaml cannot be opened: {message}"):
        open_instance(settings.replace(dagster_home=home))


def test_what_the_storage_needs_and_is_not_installed_is_named(
    settings: Settings, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dagster_postgres", None)
    (home / "dagster.yaml").write_text("storage: {postgres: {postgres_url: nowhere}}\n")

    with pytest.raises(
        SettingsError, match=r"pip install 'incremental-assets\[dagster-postgres\]'"
    ):
        open_instance(settings.replace(dagster_home=home))


def test_an_instance_opens_where_the_package_of_its_launcher_is_not_installed(
    settings: Settings, home: Path
) -> None:
    (home / "dagster.yaml").write_text("run_launcher: {module: of_the_daemon, class: Launcher}\n")

    assert open_instance(settings.replace(dagster_home=home)).get_runs() == []

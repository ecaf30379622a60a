"""A shop with its own landing, lake and Dagster home, and the real command lines over them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
from click.testing import CliRunner
from pyspark.sql import SparkSession

from incremental_assets.cli import main
from incremental_assets.orchestration.instance import CONFIG
from incremental_assets.settings import PROJECT_ROOT, Settings
from incremental_assets_tests.scenarios.world import World

BIN = Path(sys.executable).parent
SEVERAL = """
import json, sys
from click.testing import CliRunner
from incremental_assets.cli import main
commands = json.loads(sys.argv[1])
done = [CliRunner(catch_exceptions=False).invoke(main, words) for words in commands]
print(json.dumps([[each.exit_code, each.stdout, each.stderr] for each in done]))
"""
SILVER_SALES = dg.AssetKey(["silver", "sales"])
# What is true of three tables is true of all of the retailer's, in a third of the time.
TILL = "incremental_assets_tests.end_to_end.till_shop"
OF_THE_TILL = ("bronze/events", "silver/sales", "gold/latest_user_events")


class Shop:
    """Runs the project's commands as a person or a cron line would: in a process of their own."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.settings = settings
        self.home = folder / "dagster_home"
        self.home.mkdir(parents=True)
        (self.home / "dagster.yaml").write_text(CONFIG.read_text())
        self.env = {
            **os.environ,
            "INCREMENTAL_ASSETS_LAKE": settings.lake,
            "INCREMENTAL_ASSETS_LANDING": settings.landing,
            "INCREMENTAL_ASSETS_CACHE": str(settings.cache),
            "DAGSTER_HOME": str(self.home),
        }

    def over(self, server: str) -> Shop:
        """The same shop, whose commands load over a server, one table after the other."""
        self.env |= over(server)
        return self

    def of(self, package: str) -> Shop:
        """The same shop with the tables of a package of the tests."""
        self.env |= {"INCREMENTAL_ASSETS_TABLES": package, "PYTHONPATH": str(PROJECT_ROOT)}
        return self

    def world(self, spark: SparkSession, *names: str) -> World:
        """The same landing and lake, to land into and to read from; of all tables, or of some."""
        return World(spark, self.settings, *names)

    def command(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """`incremental-assets …`"""
        return self._finished([str(BIN / "incremental-assets"), *words], env)

    def python(self, code: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """`python -c … …`"""
        return self._finished([sys.executable, "-c", code, *words], env)

    def commands(self, *each: Sequence[str]) -> list[subprocess.CompletedProcess[str]]:
        """Several of them, one after the other, in one process that has imported nothing yet."""
        done = self._finished([sys.executable, "-c", SEVERAL, json.dumps(each)], {})
        assert done.returncode == 0, done.stderr
        results = json.loads(done.stdout.splitlines()[-1])
        return [
            subprocess.CompletedProcess(words, *result)
            for words, result in zip(each, results, strict=True)
        ]

    def ask(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """`incremental-assets …` in this process, for what starts no Spark of its own.

        Importing all that it needs takes a process of its own longer.
        """
        done = CliRunner().invoke(main, words, env={**self.env, **env})
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)

    def materialize(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """`dagster asset materialize -m incremental_assets …`"""
        program = [str(BIN / "dagster"), "asset", "materialize", "-m", "incremental_assets"]
        return self._finished([*program, *words], env)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """`incremental-assets …` in a process group of its own, not waited for."""
        return subprocess.Popen(
            [str(BIN / "incremental-assets"), *words],
            env=self.env,
            cwd=self.home,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def instance(self) -> dg.DagsterInstance:
        """The instance that the commands kept their history in."""
        return dg.DagsterInstance.from_config(str(self.home))

    def _finished(
        self, program: Sequence[str], env: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            program,
            env={**self.env, **env},
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def over(server: str) -> dict[str, str]:
    """The environment of a command that loads over a server, one table after the other."""
    return {"SPARK_REMOTE": server, "INCREMENTAL_ASSETS_TABLES_AT_ONCE": "1"}


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """`kill -9` of the process and everything that it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=60)


def log_without_a_jvm(folder: Path) -> tuple[Path, Path]:
    """A `java` that only writes down that it was called, and the file that it writes to."""
    calls = folder / "java_calls"
    fake = folder / "no_java" / "bin" / "java"
    fake.parent.mkdir(parents=True)
    fake.write_text(f"#!/bin/sh\necho called >> {calls}\nexit 1\n")
    fake.chmod(0o755)
    return fake.parent.parent, calls

"""Wrong words end with status 2 and one line, before PySpark or Dagster are imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from incremental_assets import maintenance
from incremental_assets.cli.maintain import STEPS
from incremental_assets.settings import PREFIX
from incremental_assets_tests.cli.conftest import Command

WRONG = {
    ("pln",): "No such command 'pln'. Did you mean 'plan'?",
    ("watermarks", "rewnd"): "No such command 'rewnd'. Did you mean 'rewind'?",
    ("run", "--dayz", "2017-01-01"): "No such option '--dayz'. (Did you mean one of: '--day'",
    ("run", "silver/sale"): "There is no table 'silver/sale'; did you mean silver/sales?",
    ("plan", "sales_mart"): "There is no table 'sales_mart'; did you mean gold/sales_mart?",
    ("run", "zzz"): "There is no table 'zzz'; expected one of bronze/events, bronze/inv",
    ("stale", "--days", "2017-1-5"): "'2017-1-5' is not a day; did you mean 2017-01-05?",
    ("batches", "--days", "20170105"): "'20170105' is not a day; did you mean 2017-01-05?",
    ("run", "--days", "2017-01-01..2017-01-03"): "did you mean 2017-01-01...2017-01-03?",
    ("run", "--days", "2017-02-30"): "'2017-02-30' is not a day; expected the form 2017-01-31",
    ("run", "--days", "2017-01-02...2017-01-01"): "did you mean 2017-01-01...2017-01-02?",
    ("run", "--days", "2016-01-01"): "2016-01-01 is outside the partitions 2017-01-01",
    ("gate", "accept", "silver/sales", "01-05", "--why", "x"): "'01-05' is not a day; expected",
    ("restate", "silver/sales"): "Missing option '--reason' / '--why'. `incremental-assets rest",
    ("watermarks", "rewind", "silver/sales", "--why", "x", "--to", "soon"): "'soon' is neither a",
    ("maintain", "--only", "optimise"): "no step of maintenance 'optimise'; did you mean optimize?",
    ("quarantine", "show", "silver/sales", "--limit", "-1"): "-1 is not in the range x>=0",
    ("demo", "land", "--from", "2017-01-02", "--to", "2017-01-01"): "did you mean 2017-01-01",
    ("demo", "land", "--from", "2017-01-01", "--to", "2017-01-01", "--bad", "2"): "not in the ran",
}
ALL_OF_THEM = """
import sys
from incremental_assets.cli import main

for words in WORDS:
    try:
        main(words, prog_name="incremental-assets")
    except SystemExit as end:
        print(end.code, words)
print({"pyspark", "dagster"} & set(sys.modules))
"""


def test_one_line_says_what_is_wrong_and_what_was_meant(command: Command) -> None:
    for words, message in WRONG.items():
        done = command(*words)

        assert (done.exit_code, done.stdout) == (2, ""), (words, done.output)
        assert message in done.stderr, words
        assert done.stderr.startswith("Error: "), words
        assert done.stderr.count("\n") == 1, words


def test_a_file_of_a_table_that_raises_is_wrong_input(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for package, text in (
        ("shop_that_raises", "1 / 0\n"),
        (
            "shop_of_a_bad_table",
            "from incremental_assets import *\nTable('orders', '', (), Append())\n",
        ),
        ("shop_without_a_table", ""),
    ):
        (tmp_path / package / "bronze").mkdir(parents=True)
        (tmp_path / package / "bronze" / "__init__.py").touch()
        (tmp_path / package / "bronze" / "orders.py").write_text(text)
        monkeypatch.setenv(f"{PREFIX}TABLES", package)

        for words in (["run"], ["plan"], ["verify", "bronze/orders"]):
            done = command(*words)

            assert (done.exit_code, done.stdout) == (2, ""), (package, words, done.stderr)


def test_neither_pyspark_nor_dagster_is_imported_for_them() -> None:
    program = ALL_OF_THEM.replace("WORDS", repr(list(WRONG)))

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    *statuses, imported = done.stdout.splitlines()
    assert imported == "set()", done.stderr
    assert statuses == [f"2 {words}" for words in WRONG]


@pytest.mark.usefixtures("lake")
def test_a_question_that_is_not_answered_changes_nothing(command: Command) -> None:
    done = command("ledger", "rebuild")

    assert (done.exit_code, done.stderr) == (
        1,
        "Nothing was changed; --yes leaves the question out.\n",
    )


def test_the_steps_of_maintenance_are_those_there_are() -> None:
    assert STEPS == maintenance.result.STEPS

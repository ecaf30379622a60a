"""The README's "A bad day": its commands end as it says, and print what it prints."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end.shop import Shop
from incremental_assets_tests.thorough import thorough

BAD, LAST = "2017-01-05", "2017-01-07"
PROGRAM = "$ .venv/bin/incremental-assets "
Command = Callable[..., subprocess.CompletedProcess[str]]
README = (PROJECT_ROOT / "README.md").read_text("utf-8")
SECTION = README.split("### A bad day\n")[1].split("\n## ")[0]


@thorough("end_to_end/test_command_line.py, test_ci_run.py: the same commands on fewer rows")
def test_the_bad_day_of_the_readme_goes_as_it_says(till: Shop, server: str) -> None:
    shop = till
    landed = shop.ask(
        *("demo", "land", "--from", BAD, "--to", LAST, "--broken-day", BAD, "--feed", "events")
    )
    assert landed.stderr.splitlines()[0] in README  # "2017-01-05  events 4,275 rows (43 late, …"
    assert shop.ask("run").returncode == 1  # a gate held a day
    assert shop.ask("run").returncode == 3  # which was held before
    shown = shop.ask("demo", "show").stdout.splitlines()
    assert [line for line in shown if line.startswith("Held: ")] == re.findall(
        "^Held:.*", README, re.M
    )

    steps = deque(printed())

    def follow(*words: str, via: Command = shop.ask) -> subprocess.CompletedProcess[str]:
        """The next command, which begins so: it succeeds, with what the README has below it."""
        command, output = steps.popleft()
        assert command[: len(words)] == [*words]
        done = via(*command)
        assert done.returncode == 0, done.stderr
        if output:
            assert re.fullmatch(re.escape(output).replace("…", ".*"), done.stdout), done.stdout
        return done

    follow("quarantine", "list")
    bad = quarantined(shop)
    assert follow("quarantine", "show").stdout.startswith(f"{bad} rows of silver/sales")

    follow("gate", "accept")
    follow("run")
    assert figure("publish the other (.*?) rows") == published(shop)

    follow("demo", "repair")
    follow("run")
    assert figure("takes the (.*?) that can be") == bad - quarantined(shop)
    assert published(shop) > figure("publish the other (.*?) rows")

    follow("quarantine", "replay", via=shop.over(server).command)
    assert not steps


def printed() -> Iterator[tuple[list[str], str]]:
    """The section's commands of this project, each with the lines that are printed below it."""
    for block in re.findall(r"^```console\n(.*?)^```", SECTION, re.M | re.S):
        for command in re.split(r"^(?=\$ )", block, flags=re.M):
            if command.startswith(PROGRAM):
                line, _, output = command.partition("\n")
                yield shlex.split(line.removeprefix(PROGRAM)), output


def figure(sentence: str) -> int:
    """The number that the section has in a sentence."""
    (found,) = re.findall(sentence, SECTION.replace("\n", " "))
    return int(found.replace(",", ""))


def published(shop: Shop) -> int:
    return rows_of_the_day(shop, "silver/sales", "dt")


def quarantined(shop: Shop) -> int:
    return rows_of_the_day(shop, "quarantine/silver_sales", "_day")


def rows_of_the_day(shop: Shop, name: str, day: str) -> int:
    rows = pl.read_delta(str(Path(shop.settings.lake) / name))
    return rows.filter(pl.col(day) == pl.lit(BAD).str.to_date()).height

"""The demo's commands: which days there are to land, and what comes next."""

from __future__ import annotations

from pathlib import Path

import pytest

from incremental_assets.settings import Settings
from incremental_assets_tests.cli.conftest import Command


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_days_that_the_data_set_does_not_have_are_an_error_that_names_those_it_has(
    command: Command, settings: Settings, more: tuple[str, ...]
) -> None:
    few = ("--sample", "0.01", *more)
    done = command("demo", "land", "--from", "2030-01-05", "--to", "2030-01-06", *few)

    assert (done.exit_code, done.stdout) == (2, ""), done.output
    assert "Error: Nothing lands on 2030-01-05...2030-01-06: the data set has the days" in (
        done.stderr
    )
    assert "2017-01-01...2018-01-01" in done.stderr
    assert list(Path(settings.landing).iterdir()) == []


@pytest.mark.parametrize(
    ("landed", "following"),
    [
        (("2017-01-01", "2017-01-02", "2017-01-03"), "--from 2017-01-04 --to 2017-01-10"),
        ((), "--from 2017-01-01 --to 2017-01-07"),
    ],
)
@pytest.mark.usefixtures("lake")
def test_the_week_after_the_last_day_that_has_landed_comes_next(
    command: Command, settings: Settings, landed: tuple[str, ...], following: str
) -> None:
    for day in landed:
        file = Path(settings.landing, "events", day, "part-0.jsonl")
        file.parent.mkdir(parents=True)
        file.write_text("{}\n")

    done = command("demo", "show", "--days", "2017-01-01")

    assert f"incremental-assets demo land {following}\n" in done.stdout


@pytest.mark.usefixtures("lake")
def test_what_was_loaded_is_shown_also_where_the_landing_is_gone(
    command: Command, settings: Settings
) -> None:
    Path(settings.landing).rmdir()

    done = command("demo", "show")

    assert done.exit_code == 0, done.output
    assert "--from 2017-01-01 --to 2017-01-07" in " ".join(done.stdout.split())


def test_one_feed_is_landed_alone_and_an_unknown_one_is_refused(
    command: Command, settings: Settings
) -> None:
    days = ("--from", "2017-01-01", "--to", "2017-01-01", "--sample", "0.01")

    done = command("demo", "land", *days, "--feed", "products")
    assert (done.exit_code, sorted(p.name for p in Path(settings.landing).iterdir())) == (
        0,
        ["products"],
    )
    unknown = command("demo", "land", *days, "--feed", "product")
    assert (unknown.exit_code, "did you mean products?" in unknown.stderr) == (2, True)

"""`incremental-assets verify`: what it prints, and its exit status."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner, Result

from incremental_assets.cli import main
from incremental_assets_tests.scenarios.world import World, sales
from incremental_assets_tests.verifying.lakes import everything_in, remove


def environment(world: World) -> dict[str, str]:
    return {
        "INCREMENTAL_ASSETS_LAKE": world.settings.lake,
        "INCREMENTAL_ASSETS_LANDING": world.settings.landing,
        "INCREMENTAL_ASSETS_DRIVER_MEMORY": "1g",
    }


def test_the_exit_status_says_whether_a_table_is_what_a_rebuild_makes_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(*arguments: str) -> Result:
        spark = world.lakehouse.spark
        monkeypatch.setattr("incremental_assets.cli.context.lazy_spark", lambda _: spark)
        return CliRunner().invoke(main, ["verify", *arguments], env=environment(world))

    world.land("events", "2017-01-04", "a.jsonl", sales("a", "2017-01-04", 3))
    world.land("events", "2017-01-05", "a.jsonl", sales("b", "2017-01-05", 3))
    world.load("2017-01-04...2017-01-05", "bronze/events", "silver/sales")
    world.land("events", "2017-01-05", "b.jsonl", sales("c", "2017-01-05", 3))
    world.load("2017-01-05", "bronze/events")
    before = everything_in(world.settings.lake)

    equal = here("silver/sales", "--json")

    shown = json.loads(equal.stdout)
    assert (equal.exit_code, shown["equal"], shown["rows"]["days"][0]["compared"]) == (0, True, 3)
    assert [each["day"] for each in shown["left_out"]] == ["2017-01-05"]
    assert "silver/sales is rebuilt, 1 of 2 days" in equal.stderr
    assert everything_in(world.settings.lake) == before

    remove(world.path("silver/sales"), "order_id = 'a1'")
    scratch = f"{world.settings.lake}_elsewhere"
    different = here("silver/sales", "--days", "2017-01-04", "--scratch", scratch)

    assert different.exit_code == 1
    assert f"takes about 0.0 MiB below {scratch}" in different.stderr
    assert re.search(r"^ *2017-01-04 +3 +1 +0 +0 *$", different.stdout, re.MULTILINE)
    assert "for example 2017-01-04: missing order_id=a1, dt=2017-01-04" in different.stdout
    assert "Different: 1 row of silver/sales at version " in different.stdout

    stale = here("silver/sales", "--days", "2017-01-05")
    assert (stale.exit_code, "Nothing was compared of silver/sales" in stale.stdout) == (2, True)
    assert "not compared: 2017-01-05: stale: it has not read bronze/events batch" in stale.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("silver/sale",), "There is no table 'silver/sale'; did you mean silver/sales?"),
        (("silver/sales", "--days", "2017-01-05...2017-01-04"), "ends before it begins"),
        (("silver/sales",), "lake: it has no ledger. Set INCREMENTAL_ASSETS_LAKE to where"),
        (("silver/sales", "--scratch", "a\nb"), "--scratch holds a back quote or a control"),
        (("silver/sales", "--scratch", "/a[b]"), "--scratch is '/a[b]': delta-rs cannot open"),
    ],
)
def test_what_cannot_be_done_is_reported_with_another_status_and_leaves_nothing(
    world: World, arguments: tuple[str, ...], message: str
) -> None:
    found = CliRunner().invoke(main, ["verify", *arguments], env=environment(world))

    assert (found.exit_code, found.stdout) == (2, "")
    assert message in found.stderr
    assert everything_in(world.settings.lake) == {}

"""What people type in an incident: comparing, rewinding, restating, and a lake that was moved."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from incremental_assets_tests.end_to_end.shop import OF_THE_TILL, Shop
from incremental_assets_tests.scenarios.world import World, sales
from incremental_assets_tests.thorough import thorough

GOLD = "gold/latest_user_events"
WHY = ("--reason", "the till sent yesterday's file")
# What is asked before the retraction, over the same server, in a process that has just started.
ASKED = [
    ("verify", "silver/sales", "--json"),
    ("batches", "--json"),
    ("watermarks", "show", "--json"),
    ("watermarks", "history", "silver/sales", "--json"),
    ("maintain", "silver/sales", "--json"),
]


@thorough(
    "verifying/test_retail.py, cli/test_restate.py, feeds/test_rewind.py: the same in the process"
)
def test_a_table_is_compared_with_its_source_rewound_and_restated_also_in_a_moved_lake(
    till: Shop, spark: SparkSession, server: str, tmp_path: Path
) -> None:
    shop = till
    world = shop.world(spark, *OF_THE_TILL)
    world.land("events", "2017-01-05", "a.jsonl", sales("a", "2017-01-05", 3))
    world.load("2017-01-05")
    world.land("events", "2017-01-06", "a.jsonl", sales("b", "2017-01-06", 2))

    behind, gold = compared(shop, "bronze/events"), compared(shop, GOLD)
    assert (behind["at_source"], behind["in_table"]) == (
        "2 files, up to 2017-01-06",
        "1 file, up to 2017-01-05",
    )
    assert (behind["days_behind"], behind["why"]) == (
        1,
        "2017-01-06: first load of this day (1 file)",
    )
    assert (gold["days_behind"], gold["in_table"]) == (0, "batch 1")

    batches = shop.ask("batches", "--json").stdout
    asked = shop.ask("watermarks", "rewind", "bronze/events", "--to", "0", *WHY)
    assert asked.returncode == 1
    assert "bronze/events goes back to batch 0: the next run loads 2017-01-05 again" in asked.stdout
    assert shop.ask("batches", "--json").stdout == batches
    future = shop.ask("watermarks", "rewind", "bronze/events", "--to", "7", *WHY, "--yes")
    assert (future.returncode, "has no batch 7 yet" in future.stderr) == (1, True)
    back = ("watermarks", "rewind", "bronze/events", "--to", "0", *WHY, "--yes", "--json")
    done = shop.ask(*back)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["days"] == ["2017-01-05"]
    assert "1 file again: rewound by" in str(compared(shop, "bronze/events")["why"])
    newest, *_ = json.loads(shop.ask("batches", "bronze/events", "--json").stdout)
    assert (newest["state"], newest["why"]) == ("rewound", "the till sent yesterday's file")

    moved = str(tmp_path / "elsewhere" / "lake")
    Path(moved).parent.mkdir()
    shutil.move(shop.settings.lake, moved)
    shop.env["INCREMENTAL_ASSETS_LAKE"] = moved
    run = shop.ask("run")
    assert run.returncode == 0, run.stderr
    there = World(spark, shop.settings.replace(lake=moved))
    assert there.orders() == {"a0", "a1", "a2", "b0", "b1"}
    assert there.orders(GOLD) == {"a2", "b1"}

    wrong = "events/2017-01-06/a.jsonl"
    retract = ("retract", wrong, "--why", "of another shop", "--json")
    there_still = shop.ask(*retract)
    assert (there_still.returncode, "move it out of the landing" in there_still.stderr) == (1, True)
    Path(shop.settings.landing, wrong).unlink()
    would = shop.ask(*retract, "--dry-run")
    day = {"table": "bronze/events", "file": wrong, "day": "2017-01-06", "rows": 2}
    assert (would.returncode, json.loads(would.stdout)["rows"]) == (0, [day])
    assert len(there.orders()) == 5

    restate = ("restate", "silver/sales", "--days", "2017-01-05", "--why", "new code", "--json")
    restated, *asked, retracted = shop.over(server).commands(restate, *ASKED, retract)
    assert restated.returncode == 0, restated.stderr
    assert json.loads(restated.stdout)["tables"] == ["silver/sales"]
    assert "silver/sales: rebuild 2017-01-05: new code" in restated.stderr
    assert f"{GOLD}: stale by the restatement: 2017-01-05" in restated.stderr
    for done in asked:
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout), done.args
    assert retracted.returncode == 0, retracted.stderr
    assert json.loads(retracted.stdout)["rows"] == [day]
    assert f"{GOLD}: stale by the retraction: 2017-01-06" in retracted.stderr
    assert there.orders() == {"a0", "a1", "a2"}
    assert there.orders(GOLD) == {"a2"}
    newest, *_ = json.loads(shop.ask("batches", "bronze/events", "--json").stdout)
    assert (newest["state"], newest["why"]) == ("retracted", "of another shop")
    assert shop.ask("run").stdout.strip() == "Nothing is new or stale."

    shutil.rmtree(f"{moved}/_ledger")
    asked = shop.ask("ledger", "rebuild")
    assert asked.returncode == 1
    assert "is rebuilt for all tables, and the next run loads all of them again" in asked.stdout
    rebuilt = shop.ask("ledger", "rebuild", "--yes", "--json")
    assert rebuilt.returncode == 0, rebuilt.stderr
    again_of = {row["table"]: row["of"] for row in json.loads(rebuilt.stdout)}
    assert again_of["silver/sales"] == "2017-01-05...2017-01-06"
    (newest, *_) = json.loads(shop.ask("batches", "silver/sales", "--json").stdout)
    assert (newest["state"], "rebuilt from the table's log" in newest["why"]) == ("rewound", True)

    for words, message in {
        ("restate", "bronze/events", "--why", "x"): "bronze keeps what landed",
        ("retract", "events/2017-01-05/b.jsonl", "--why", "x"): "did you mean events/2017-01-05/a",
    }.items():
        bad = shop.ask(*words)
        assert (bad.returncode, message in bad.stderr) == (1, True), bad.stderr


def compared(shop: Shop, name: str) -> dict[str, object]:
    done = shop.ask("watermarks", "compare", name, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found[0]

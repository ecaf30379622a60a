from __future__ import annotations
import time
from decimal import Decimal
from typing import Any
from pyspark.sql import functions as F
from incremental_assets.frames import Frames
from incremental_assets.writes import SCD2
from incremental_assets.changes.lacking import with_values_to_judge
from incremental_assets_tests.feeds.test_unchanged import MARKED, event, user
from incremental_assets_tests.loaders.conftest import Place
from incremental_assets_tests.loaders.test_unchanged import process
from contextlib import nullcontext
T0=time.time()
def say(*a):
    with open("/tmp/review/out2.txt","a") as f: print(f"[{time.time()-T0:.0f}s]",*a,file=f)

def test_a_direct(spark):
    fr = Frames(lambda: nullcontext(spark))
    try:
        with fr.over() if hasattr(fr,'over') and False else nullcontext(): pass
    except Exception as e: say(e)
    ev = spark.sql("SELECT 1 id, cast(null as string) notes, 'A' name, CAST(40 AS DECIMAL(38,0)) _order, '' _hash, false _deleted, array('notes') _lacks")
    known = spark.sql("""SELECT 1 id, 'x' notes, 'N' name, CAST(30 AS DECIMAL(38,0)) _order, 'h9' _hash, false _deleted
      UNION ALL SELECT 1, null, null, CAST(30 AS DECIMAL(38,0)), 'h1', false""")
    try:
        for a,b in ((known,"table first"),(known.orderBy("_hash"),"conflict first")):
            say("A conflict of the side table as a source", b, with_values_to_judge(fr, ev, a, ["id"], ["_order","_hash"], ["notes"], latest_alone=True).collect())
        k2 = spark.sql("""SELECT 1 id, 'x' notes, 'N' name, CAST(50 AS DECIMAL(38,0)) _order, 'h9' _hash, false _deleted
      UNION ALL SELECT 1, 'y', 'N', CAST(20 AS DECIMAL(38,0)), 'h0', true UNION ALL SELECT 1, null, null, CAST(30 AS DECIMAL(38,0)), 'h1', false""")
        say("A2 conflict@30, deleted@20, table@50; event@40", with_values_to_judge(fr, ev, k2, ["id"], ["_order","_hash"], ["notes"], latest_alone=True).collect())
    except Exception as e: say("A ERR", repr(e)[:600])

def test_b_loader_case(place: Place):
    place.land_lines([event("c", 10, {"id": 1, "name": "Ann", "notes": "long"})])
    process(place)
    try:
        place.land_lines([event("u", 20, {"id": 2, "name": "Bo", "NOTES": MARKED})])
        r = process(place)
        say("B case", r.records_quarantined, place.rows("id","name","notes"))
    except Exception as e: say("B ERR", repr(e)[:600])

def test_c_loader_repeat_and_flat_key(place: Place):
    place.land_lines([event("c", 10, user(1, "Ann", "long"))]); process(place)
    place.land_lines([event("u", 20, user(1, "Anna", MARKED))]); process(place)
    place.land_lines([event("u", 20, user(1, "Anna", MARKED)), event("c", 5, user(2, "x","y"))]); r = process(place)
    say("C loader repeat", r.records_quarantined, place.rows("id","name","notes","_partial"))

def test_d_flat_key(place: Place):
    place.land_lines([{"operation":"INSERT","sequence_num":1,"id":"a","name":"n"},{"operation":"UPDATE","sequence_num":2,"id":MARKED,"name":"m"}])
    try:
        r = process(place, cdc_format="flat", placeholder=MARKED)
        say("D flat key", r.records_quarantined, place.rows("id","name"))
    except Exception as e: say("D ERR", repr(e)[:500])

def test_e_loader_quarantined_source(place: Place):
    from incremental_assets.quality.rules import not_null, quarantine, satisfies
    place.land_lines([event("c", 10, user(1, "bad", "long")), event("u", 20, user(1, "Anna", MARKED))])
    try:
        r = process(place, rules=quarantine(satisfies("ok","name != 'bad'"), not_null("notes")))
        say("E loader quarantined source", r.records_quarantined, place.rows("id","name","notes"))
    except Exception as e: say("E ERR", repr(e)[:500])

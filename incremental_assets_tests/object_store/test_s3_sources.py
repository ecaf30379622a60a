"""Sources over the S3 protocol, without Spark: landed feeds, files and Delta tables, and what is not there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pyarrow as pa
import pytest
import s3fs
from deltalake import write_deltalake

from incremental_assets.errors import SourceError
from incremental_assets.retail.feed.land import LandSummary, land
from incremental_assets.sources.delta_commits import delta_files_since
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.landing_root import missing_or_changed
from incremental_assets.sources.source_file import with_content_tag
from incremental_assets.sources.stored import Stored, fixed_at
from incremental_assets.sources.stored_delta import FixedDelta
from incremental_assets.spark.server import free_port
from incremental_assets.storage import open_store
from incremental_assets_tests.object_store.conftest import DAY, either_name


def land_some(landing: str) -> LandSummary:
    return land(landing, DAY, DAY, 0.0, 0.0, 0.0, sample=0.02, progress=lambda _: None)


def test_a_landed_feed_is_known_by_the_tags_of_the_store_and_its_day_left_alone(
    bucket: str,
) -> None:
    landing = f"{bucket}/landing"
    assert land_some(landing).written
    assert not land_some(landing).written
    feed = LandedFiles("users")

    before = feed.files(landing, DAY)
    store, inside = open_store(landing)
    store.pipe(f"{inside}/{before[0].path}", b'{"user_id": "1"}\n')
    after = feed.files(landing, DAY)

    assert feed.days(landing) == [DAY]
    assert [f.path for f in before] == [f.path for f in after]
    assert before[0].tag != after[0].tag != ""
    assert with_content_tag(landing, after[0]) == after[0]
    assert missing_or_changed(landing, after) == []


def test_many_days_of_a_feed_are_listed_at_once_as_each_would_be(bucket: str) -> None:
    landing = f"{bucket}/landing"
    days = [date(2017, 1, day) for day in range(1, 29)]
    store, inside = open_store(landing)
    names = ("2017-01-02/a.jsonl", "2017-01-02/b/c.jsonl", "2017-01-03/_aside.jsonl", "read.me")
    for name in names:
        store.pipe(f"{inside}/events/{name}", b"{}")
    feed = LandedFiles("events")

    found = feed.by_day(landing, days)

    assert list(found) == days
    assert [f.path for f in found[DAY]] == [f"events/{name}" for name in names[:2]]
    assert found == {day: feed.files(landing, day) for day in days}


@pytest.mark.parametrize("look", [LandedFiles("events").days, Stored.fix])
def test_a_store_that_does_not_answer_is_a_source_that_cannot_be_read(
    server: str, monkeypatch: pytest.MonkeyPatch, look: Callable[[object], object]
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    place = "s3://shop/landing"

    with pytest.raises(
        SourceError, match=rf"s3://shop/landing\S* cannot be read: no answer.*{url}"
    ):
        look(Stored(place) if look is Stored.fix else place)

    s3fs.S3FileSystem.clear_instance_cache()


def put(path: str, content: bytes) -> None:
    store, inside = open_store(path)
    with store.open(inside, "wb") as stream:
        stream.write(content)


def test_a_source_of_files_is_fixed_with_the_stores_tags(bucket: str) -> None:
    folder = f"{bucket}/feed"
    put(f"{folder}/1.json", b'{"id": 1}\n')
    put(f"{folder}/_temporary/2.json", b'{"id": 2}\n')

    fixed = fixed_at(folder)

    assert (fixed.format, [file.path for file in fixed.files]) == ("json", ["1.json"])
    assert fixed.tagged(fixed.files[0]).tag == fixed.files[0].tag != ""
    assert (fixed.size(), fixed.missing_or_changed()) == (10, [])
    put(f"{folder}/1.json", b'{"id": 9}\n')
    assert fixed.missing_or_changed() == list(fixed.files)


@either_name
def test_a_single_file_and_a_delta_table_are_reported_apart(bucket: str) -> None:
    put(f"{bucket}/one.csv", b"id\n1\n")
    write_deltalake(f"{bucket}/table", pa.table({"id": [1]}))
    write_deltalake(f"{bucket}/table", pa.table({"id": [2]}), mode="append")

    file, table = fixed_at(f"{bucket}/one.csv"), fixed_at(f"{bucket}/table")

    assert (file.format, [f.path for f in file.files]) == ("csv", ["one.csv"])
    assert (type(table), table.version) == (FixedDelta, 1)
    news = delta_files_since(f"{bucket}/table", 0, 1)
    assert (news.complete, len(news.files)) == (True, 1)


def test_a_source_that_is_not_there_is_reported(bucket: str) -> None:
    with pytest.raises(SourceError, match="There is nothing at"):
        Stored(f"{bucket}/nowhere").fix()

"""The words of many change logs, each read as what its documentation says it does to a row."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes import ChangeLog
from incremental_assets.changes.operations import SQL_SERVER_CDC, operation_of
from incremental_assets.errors import DefinitionError

FEEDS = {
    "flat": {
        "INSERT": "upsert",
        "UPDATE": "upsert",
        "DELETE": "delete",
        "TRUNCATE": "truncate",
        "UPSERT": "upsert",
        "REPLACE": "upsert",
        "MERGE": "upsert",
        "CREATE": "upsert",
        "READ": "upsert",
        "APPEND": "upsert",
    },
    "DMS, Qlik, GoldenGate": {
        "I": "upsert",
        "U": "upsert",
        "D": "delete",
        "T": "truncate",
        "B": "ignore",
        "load": "upsert",
        "add-column": "ignore",
    },
    "Debezium": {"c": "upsert", "u": "upsert", "d": "delete", "r": "upsert", "t": "truncate"},
    "Delta Change Data Feed": {
        "insert": "upsert",
        "update_preimage": "ignore",
        "update_postimage": "upsert",
        "delete": "delete",
    },
    "Maxwell": {
        "bootstrap-start": "ignore",
        "bootstrap-insert": "upsert",
        "bootstrap-complete": "ignore",
        "table-alter": "ignore",
    },
    "Canal": {"ALTER": "ignore", "QUERY": "ignore"},
    "Flink": {
        "+I": "upsert",
        "-U": "ignore",
        "+U": "upsert",
        "-D": "delete",
        "UPDATE_BEFORE": "ignore",
        "UPDATE_AFTER": "upsert",
    },
    "Oracle CDC": {"UN": "upsert", "UO": "ignore", "UU": "ignore"},
    "DynamoDB Streams": {"MODIFY": "upsert", "REMOVE": "delete"},
    "whatever the case and the space around": {" Insert ": "upsert", "dElEtE": "delete"},
    "nobody's": {"": None, "x": None, "upserted": None, "inserts": None, "1": None, "4": None},
    "one says this, another that": {"m": None, "erase": None, "update-delete": None},
}


def meant(spark: SparkSession, words: list[str | None], **own: str) -> dict[str | None, str | None]:
    frame = spark.createDataFrame([(word,) for word in words], "word string")
    column = operation_of(F.col("word"), own)  # type: ignore[arg-type]
    return {
        row["word"]: row["meant"] for row in frame.select("word", column.alias("meant")).collect()
    }


@pytest.mark.parametrize("feed", FEEDS)
def test_a_feed_s_words_mean_what_it_documents(spark: SparkSession, feed: str) -> None:
    assert meant(spark, list(FEEDS[feed])) == FEEDS[feed]


def test_a_missing_word_means_nothing(spark: SparkSession) -> None:
    assert meant(spark, [None]) == {None: None}


def test_a_feed_s_own_words_come_before_the_common_ones(spark: SparkSession) -> None:
    own = {"Angelegt": "upsert", "r": "delete", " m ": "upsert"}

    assert meant(spark, ["ANGELEGT", "R", "M", "c"], **own) == {
        "ANGELEGT": "upsert",
        "R": "delete",
        "M": "upsert",
        "c": "upsert",
    }


def test_sql_server_numbers_its_operations(spark: SparkSession) -> None:
    numbers: Any = {int(word): meant for word, meant in SQL_SERVER_CDC.items()}
    as_texts, as_numbers = (operation_of(F.col("id"), own) for own in (SQL_SERVER_CDC, numbers))
    frame = spark.range(7).select("id", as_texts.alias("meant"), as_numbers.alias("same"))

    found = frame.collect()
    assert [row["meant"] for row in found] == [row["same"] for row in found]
    assert {row["id"]: row["meant"] for row in found} == {
        0: None,
        1: "delete",
        2: "upsert",
        3: "ignore",
        4: "upsert",
        5: "upsert",
        6: None,
    }


def test_a_word_that_means_no_operation_is_refused() -> None:
    with pytest.raises(DefinitionError, match="'gone' means 'remove'"):
        operation_of(F.lit("x"), {"gone": "remove"})  # type: ignore[dict-item]
    with pytest.raises(DefinitionError, match="'gone' means 'remove'"):
        ChangeLog(operations={"gone": "remove"})  # type: ignore[dict-item]


def test_a_word_that_means_two_things_is_refused() -> None:
    with pytest.raises(DefinitionError, match="declared twice"):
        operation_of(F.lit("x"), {"Gone": "delete", "gone": "ignore"})

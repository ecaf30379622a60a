"""The words by which change logs name an operation, and what each of them means for a row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

from pyspark.sql import Column
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError

Operation = Literal["upsert", "delete", "truncate", "ignore"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)

# A word is listed here if one documented feed uses it and no other means something else by it.
# What is left out on purpose comes back as null and is seen, instead of being guessed:
#   m               Debezium's message event, but "modified" elsewhere
#   erase           Canal's DROP TABLE, but a deleted row elsewhere
#   update-delete   Datastream's before image, which also records that a key went away
#   1, 2, 3 …       every system counts differently (see SQL_SERVER_CDC)
_MEANINGS: Mapping[Operation, frozenset[str]] = {
    "upsert": frozenset(
        {
            *("insert", "update", "upsert", "merge", "replace", "append", "create", "read"),
            # GoldenGate, AWS DMS, Qlik (I, U); Debezium (c, u, r)
            *("i", "u", "c", "r"),
            # Delta Change Data Feed; Flink, SeaTunnel and Paimon by name and in short
            *("update_postimage", "update_after", "+i", "+u"),
            # Maxwell; AWS DMS on Kafka and Kinesis; DynamoDB Streams; Oracle CDC (new values)
            *("bootstrap-insert", "load", "modify", "un"),
        }
    ),
    # `remove`: DynamoDB Streams
    "delete": frozenset({"delete", "d", "-d", "remove"}),
    "truncate": frozenset({"truncate", "t"}),
    "ignore": frozenset(
        {
            # Images of a row before its update: Delta, Flink, Qlik, Oracle CDC
            *("update_preimage", "update_before", "-u", "b", "uo", "uu"),
            # Maxwell: around a bootstrap, and changes of schema
            *("bootstrap-start", "bootstrap-complete"),
            *("table-create", "table-alter", "table-drop"),
            *("database-create", "database-alter", "database-drop"),
            # Canal (its CREATE is a table's, and has no row to be taken for one) and TiCDC
            *("alter", "rename", "query", "cindex", "dindex", "tidb_watermark"),
            # AWS DMS on Kafka and Kinesis: control records
            *("create-table", "rename-table", "drop-table", "change-columns"),
            *("add-column", "drop-column", "rename-column", "column-type-change"),
        }
    ),
}
WORDS: Mapping[str, Operation] = MappingProxyType(
    {word: operation for operation, words in _MEANINGS.items() for word in words}
)

# `__$operation` of SQL Server's change tables: 3 is the row before an update, 4 the row after it,
# 5 the row of a net change that is an insert or an update.
SQL_SERVER_CDC: Mapping[str, Operation] = MappingProxyType(
    {"1": "delete", "2": "upsert", "3": "ignore", "4": "upsert", "5": "upsert"}
)
_NO_WORDS: Mapping[str, Operation] = MappingProxyType({})


def operation_of(column: Column, own: Mapping[str, Operation] = _NO_WORDS) -> Column:
    """The operation that a word names, as text; null where the word is unknown or missing.

    Case and the white space around the word do not matter. `own` are the words of one feed; they
    come before the common ones, which are in `WORDS`.

    A Snowflake stream writes an update as a DELETE and an INSERT with the same key and
    METADATA$ISUPDATE true: such a DELETE is the image before, and the caller leaves it out.
    """
    meanings = {**WORDS, **folded_words(own)}
    # One literal: a list of words for each operation is a hundred expressions to plan, and
    # `str_to_map` loads all of ICU.
    known = F.from_json(F.lit(json.dumps(meanings)), "map<string,string>")
    return F.try_element_at(known, F.lower(F.trim(column.cast("string"))))


def folded_words(own: Mapping[str, Operation]) -> dict[str, Operation]:
    """One feed's own words as they are compared. Raises DefinitionError."""
    if not isinstance(own, Mapping):
        raise DefinitionError(
            f"operations is {own!r}; expected a mapping of words to what each of them means, such "
            "as {'NEW': 'upsert'}."
        )
    folded: dict[str, Operation] = {}
    for word, operation in own.items():
        if operation not in OPERATIONS:
            raise DefinitionError(
                f"Operation word {word!r} means {operation!r}: use one of {list(OPERATIONS)}."
            )
        if folded.setdefault(str(word).strip().lower(), operation) != operation:
            raise DefinitionError(
                f"Operation word {word!r} is declared twice, in another case or with other white "
                "space, and means two things: declare it once."
            )
    return folded

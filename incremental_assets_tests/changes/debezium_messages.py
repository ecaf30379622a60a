"""Messages of Debezium in each way in which they are written down, and what is read of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

ANNE = {"id": 1004, "first_name": "Anne", "last_name": "Kretchmar", "email": "annek@noanswer.org"}
ANNE_MARIE = {**ANNE, "first_name": "Anne Marie"}
RENUMBERED = {**ANNE, "id": 2004}
MYSQL = {
    "version": "2.7.0.Final",
    "connector": "mysql",
    "name": "dbserver1",
    "ts_ms": 1465581029100,
    "snapshot": "false",
    "db": "inventory",
    "table": "customers",
    "server_id": 223344,
    "gtid": None,
    "file": "mysql-bin.000003",
    "pos": 484,
    "row": 0,
    "thread": 7,
}
POSTGRES = {
    "connector": "postgresql",
    "name": "PostgreSQL_server",
    "ts_ms": 1559033904863,
    "snapshot": False,
    "db": "postgres",
    "sequence": '["24023119","24023128"]',
    "schema": "public",
    "table": "customers",
    "txId": 555,
    "lsn": 24023128,
    "xmin": None,
}
MONGODB = {
    "connector": "mongodb",
    "name": "fulfillment",
    "ts_ms": 1558965508000,
    "snapshot": False,
    "db": "inventory",
    "rs": "rs0",
    "collection": "customers",
    "ord": 31,
    "h": 1546547425148721999,
}
SCHEMA = {"type": "struct", "fields": [], "optional": False, "name": "dbserver1.Envelope"}
KEY = {"id": 1004}
ALONE = {"id": 1, "name": "Ann", "seen": "2024-05-01T10:00:00+02:00"}


def event(op: str, before: Any = None, after: Any = None, source: Any = MYSQL) -> dict[str, Any]:
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1465581029523}


def wrapped(payload: Any) -> dict[str, Any]:
    return {"schema": SCHEMA, "payload": payload}


def document(**fields: Any) -> str:
    return json.dumps({"_id": {"$numberLong": "1004"}, **fields})


CREATE = event("c", after=ANNE)
UPDATE = event("u", before=ANNE, after=ANNE_MARIE)
DELETE = event("d", before=ANNE_MARIE)
KEY_ONLY_DELETE = event("d")
FLAT = {**ANNE, "__op": "u", "__table": "customers", "__lsn": 9, "__deleted": "false"}

# What is read of a message: operation, row, word, snapshot.
MESSAGES: Mapping[str, tuple[Any, tuple[str, Any, str | None, bool]]] = {
    "create": (CREATE, ("upsert", ANNE, "c", False)),
    "update": (UPDATE, ("upsert", ANNE_MARIE, "u", False)),
    "delete": (DELETE, ("delete", ANNE_MARIE, "d", False)),
    "snapshot read": (event("r", after=ANNE), ("upsert", ANNE, "r", True)),
    "with schema": (wrapped(CREATE), ("upsert", ANNE, "c", False)),
    "key and value": ({"key": KEY, "value": CREATE}, ("upsert", ANNE, "c", False)),
    "key and value with schema": (
        {"key": wrapped(KEY), "value": wrapped(DELETE)},
        ("delete", ANNE_MARIE, "d", False),
    ),
    "value without key": ({"offset": 7, "value": CREATE}, ("upsert", ANNE, "c", False)),
    "kcat, as text": (
        {"topic": "t", "key": json.dumps(KEY), "payload": json.dumps(wrapped(CREATE))},
        ("upsert", ANNE, "c", False),
    ),
    "value as text": (
        {"key": json.dumps(KEY), "value": json.dumps(CREATE)},
        ("upsert", ANNE, "c", False),
    ),
    "delete without before takes the message's key": (
        {"key": KEY, "value": KEY_ONLY_DELETE},
        ("delete", KEY, "d", False),
    ),
    "delete without before, key with schema": (
        {"key": wrapped(KEY), "value": wrapped(KEY_ONLY_DELETE)},
        ("delete", KEY, "d", False),
    ),
    "delete whose before lacks the key": (
        {"key": KEY, "value": event("d", before={"email": "annek@noanswer.org"})},
        ("delete", KEY, "d", False),
    ),
    "delete of replica identity default": (
        wrapped(event("d", before=KEY, source=POSTGRES)),
        ("delete", KEY, "d", False),
    ),
    "truncate": (
        {"source": POSTGRES, "op": "t", "ts_ms": 1559033904961},
        ("truncate", None, "t", False),
    ),
    "message": (
        {"source": POSTGRES, "op": "m", "message": {"prefix": "foo", "content": "Ymfy"}},
        ("ignore", None, "m", False),
    ),
    "tombstone": (None, ("ignore", None, None, False)),
    "tombstone with schema": ({"schema": None, "payload": None}, ("ignore", None, None, False)),
    "tombstone with key": ({"key": KEY, "value": None}, ("ignore", None, None, False)),
    "tombstone with key and schema": (
        {"key": wrapped(KEY), "value": {"schema": None, "payload": None}},
        ("ignore", None, None, False),
    ),
    "tombstone of kcat": ({"key": json.dumps(KEY), "payload": None}, ("ignore", None, None, False)),
    "transaction begins": (
        {"status": "BEGIN", "id": "571:53195829", "ts_ms": 1, "event_count": None},
        ("ignore", None, None, False),
    ),
    "transaction ends, with schema": (
        wrapped({"status": "END", "id": "571:53195832", "event_count": 2, "data_collections": []}),
        ("ignore", None, None, False),
    ),
    "schema change": (
        wrapped(
            {
                "source": MYSQL,
                "databaseName": "inventory",
                "ddl": "ALTER TABLE …",
                "tableChanges": [],
            }
        ),
        ("ignore", None, None, False),
    ),
    "schema change without ddl": (
        {"source": MYSQL, "databaseName": "testDB", "ddl": None, "tableChanges": []},
        ("ignore", None, None, False),
    ),
    "heartbeat": ({"ts_ms": 1465581029523}, ("ignore", None, None, False)),
    "heartbeat with key": (
        {
            "key": {"serverName": "dbserver1"},
            "value": {"ts_ms": 1, "ts_us": 1000, "ts_ns": 1000000},
        },
        ("ignore", None, None, False),
    ),
    "MongoDB create": (
        wrapped(event("c", after=document(first_name="Anne"), source=MONGODB)),
        ("upsert", {"_id": {"$numberLong": "1004"}, "first_name": "Anne"}, "c", False),
    ),
    "MongoDB delete with the document before": (
        wrapped(
            event("d", before=document(first_name="Anne"), source={**MONGODB, "snapshot": True})
        ),
        ("delete", {"_id": {"$numberLong": "1004"}, "first_name": "Anne"}, "d", False),
    ),
    "MongoDB delete by its key": (
        {
            "key": wrapped({"id": '{"$oid" : "596e275826f08b2730779e1f"}'}),
            "value": wrapped(event("d", source=MONGODB)),
        },
        ("delete", {"_id": {"$oid": "596e275826f08b2730779e1f"}}, "d", False),
    ),
    "flattened": (FLAT, ("upsert", ANNE, "u", False)),
    "flattened with schema": (wrapped(FLAT), ("upsert", ANNE, "u", False)),
    "flattened snapshot read": ({**ANNE, "__op": "r"}, ("upsert", ANNE, "r", True)),
    "flattened, said to be of a snapshot": (
        {**ANNE, "__op": "c", "__source_snapshot": "last"},
        ("upsert", ANNE, "c", True),
    ),
    "flattened delete": ({**ANNE, "__op": "d", "__deleted": "true"}, ("delete", ANNE, "d", False)),
    "flattened delete without word": ({**ANNE, "__deleted": "true"}, ("delete", ANNE, None, False)),
    "flattened without word": ({**ANNE, "__deleted": "false"}, ("upsert", ANNE, None, False)),
    "flattened row with columns key and value": (
        {"id": 1, "key": "a", "value": "b", "__op": "c"},
        ("upsert", {"id": 1, "key": "a", "value": "b"}, "c", False),
    ),
    "a row with columns op, payload and schema": (
        event("c", after={"id": 1, "op": "x", "payload": {"a": 1}, "schema": "s"}),
        ("upsert", {"id": 1, "op": "x", "payload": {"a": 1}, "schema": "s"}, "c", False),
    ),
    "values stay as they are": (
        event("c", after={"id": 1, "price": "SQfH", "date": 16850, "text": "{}", "none": None}),
        (
            "upsert",
            {"id": 1, "price": "SQfH", "date": 16850, "text": "{}", "none": None},
            "c",
            False,
        ),
    ),
}

NOT_KNOWN: Mapping[str, tuple[Any, str, str | None]] = {
    "an unknown word": (event("x", after=ANNE), "unknown_operation", "x"),
    "a flattened row with an unknown word": ({**ANNE, "__op": "x"}, "unknown_operation", "x"),
    "a plain row": (ANNE, "no_envelope", None),
    "a plain row with schema": (wrapped(ANNE), "no_envelope", None),
    "a plain row that has an op": ({**ANNE, "op": "c"}, "no_envelope", None),
    "a row with a status": ({"id": 1, "status": "OPEN"}, "no_envelope", None),
    "a row with the status of a boundary": (
        {"id": 2, "status": "END", "updated_at": None},
        "no_envelope",
        None,
    ),
    "a row with a time": ({"id": 1, "ts_ms": 1}, "no_envelope", None),
    "a row alone, of which no time was named": (ALONE, "no_envelope", None),
    "an empty object": ({}, "no_envelope", None),
    "a null value of nobody": ({"value": None}, "no_envelope", None),
    "text": ("c", "no_envelope", None),
    "a list": ([CREATE], "no_envelope", None),
    "an envelope without op": (
        {"before": None, "after": ANNE, "source": MYSQL},
        "no_envelope",
        None,
    ),
    "a create without a row": (event("c"), "no_row", "c"),
    "a MongoDB update that carries changes only": (
        {"op": "u", "updateDescription": {"updatedFields": "{}"}, "source": MONGODB},
        "no_row",
        "u",
    ),
    "a delete of nothing": (event("d"), "no_row", "d"),
}

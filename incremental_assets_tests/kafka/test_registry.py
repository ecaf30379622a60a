"""Values in a schema registry's wire format: Avro, Protobuf and JSON, each by its own schema."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP

from incremental_assets.changes import ChangeLog
from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.types import Integer, Text
from incremental_assets.sources import schema_registry
from incremental_assets.sources.kafka import Kafka
from incremental_assets.sources.schema_registry import SchemaRegistry, WireSchema
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Merge
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.kafka.broker import Broker, Message
from incremental_assets_tests.kafka.certificates import Authority
from incremental_assets_tests.kafka.registry import Registry, avro, serving, varint, wire
from incremental_assets_tests.kafka.world import DAYS, bronze, kept, plain
from incremental_assets_tests.thorough import thorough

FIRST = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
}
SECOND = FIRST | {
    "fields": [
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "id", "type": "long"},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": "bytes"},
    ]
}


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry whose schemas no other test knows."""
    schema_registry._known.clear()
    with serving(Registry()) as registry:
        yield registry


def test_each_message_is_read_by_the_schema_that_it_was_written_with(
    lake: Lakes, broker: Broker, topic: str, registry: Registry
) -> None:
    registry.avro(1, FIRST)
    registry.avro(300, SECOND)
    registry.avro(7, "string")
    registry.json(9)
    table = bronze(broker, topic, value="registry", key="registry", registry=registry.url)
    shop = lake(table)
    truncated = wire(1, avro(5, "a long name"))[:-3]
    longer = wire(1, avro(6, "x") + b"\x01")
    broker.send(
        topic,
        [
            plain(wire(1, avro(1, "Ann")), "05 10", wire(7, avro("k1"))),
            plain(
                wire(300, avro((1, "Bob"), 2, 1_483_600_000_000, b"\xff")),
                "05 11",
                "no wire format",
            ),
            plain(wire(300, avro((0, None), 3, 0, b"")), "05 12"),
            plain(wire(9, b'{"id": 4, "name": "Cy"}'), "05 13"),
            plain(truncated, "05 14"),
            plain(longer, "05 15"),
            plain(wire(77, avro(7, "of no schema")), "05 16"),
            plain('{"id": 8}', "05 17"),
            plain(None, "05 18", wire(7, avro("k1"))),
        ],
    )

    shop.load(DAYS)

    assert kept(shop, "to_json(payload)")[:4] == [
        ('{"id":1,"name":"Ann"}',),
        ('{"id":2,"name":"Bob","placed":"2017-01-05 07:06:40+00:00","raw":"/w=="}',),
        ('{"id":3,"name":null,"placed":"1970-01-01 00:00:00+00:00","raw":""}',),
        ('{"id":4,"name":"Cy"}',),
    ]
    texts = kept(shop, "try_variant_get(payload, '$.raw', 'string')")
    assert [text for (text,) in texts][:4] == [None, "/w==", "", None]
    keys = kept(shop, "to_json(try_variant_get(_message, '$.key'))")
    assert [key for (key,) in keys][:3] == ['"k1"', '"no wire format"', "null"]
    raws = [raw for (raw,) in kept(shop, "_raw")][4:]
    assert [_bytes(raw) for raw in raws] == [
        truncated,
        longer,
        wire(77, avro(7, "of no schema")),
        b'{"id": 8}',
        None,
    ]
    # A schema that comes later is asked for again; one that is known never.
    registry.avro(77, FIRST)
    registry.asked.clear()
    broker.send(topic, [plain(wire(77, avro(9, "now")), "06 10"), *[_again()] * 2])
    shop.load(DAYS)
    assert registry.asked == ["/schemas/ids/77"]
    assert ('{"id":9,"name":"now"}',) in kept(shop, "to_json(payload)")


def _again() -> Message:
    return plain(wire(1, avro(1, "Ann")), "06 11")


def _bytes(raw: str | None) -> bytes | None:
    if raw is None or not raw.startswith("base64:"):
        return None if raw is None else raw.encode()
    return base64.b64decode(raw.removeprefix("base64:"))


def test_types_of_other_subjects_and_those_that_spark_cannot_hold(
    lake: Lakes, broker: Broker, topic: str, registry: Registry
) -> None:
    place = {"type": "record", "name": "Place", "namespace": "geo", "fields": [FIRST["fields"][1]]}
    registry.avro(1, place)
    registry.subject("places", 1)
    both = {
        "type": "record",
        "name": "Trip",
        "namespace": "geo",
        "fields": [{"name": "start", "type": "Place"}, {"name": "end", "type": "geo.Place"}],
    }
    registry.avro(2, both, [("geo.Place", "places")])
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "next", "type": ["null", "Node"]}],
    }
    registry.avro(3, node)
    fields = [{"name": "raw", "type": "bytes"}, {"name": "RAW", "type": "long"}]
    registry.avro(4, {"type": "record", "name": "Same", "fields": fields})
    opens = {"type": "long", "logicalType": "time-micros"}
    digits = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}
    fields = [{"name": "opens", "type": ["null", opens]}, {"name": "price", "type": digits}]
    registry.avro(5, {"type": "record", "name": "Shop", "fields": fields})
    shop = lake(bronze(broker, topic, value="registry", registry=registry.url))
    too_long = (10**40).to_bytes(20, "big")
    messages = [
        wire(2, avro("Oslo", "Rome")),
        wire(3, b"\x00"),
        wire(4, avro(b"\xff", 1)),
        wire(5, avro((1, 30_600_000_000), b"\x01\x00")),
        wire(5, avro((0, None), too_long)),
    ]
    broker.send(topic, [plain(each, f"05 {10 + n}") for n, each in enumerate(messages)])

    shop.load(DAYS)

    assert kept(shop, "to_json(payload)", "_raw IS NULL") == [
        ('{"end":{"name":"Rome"},"start":{"name":"Oslo"}}', True),
        (None, False),
        (None, False),
        ('{"opens":30600000000,"price":2.56}', True),
        (None, False),
    ]
    recursive, ambiguous = (line for line in shop.logged if "of the registry cannot be" in line)
    assert "schema 3 of the registry cannot be read (" in recursive
    assert "An error occurred" not in recursive  # Py4J's own line
    assert "schema 4 of the registry cannot be read ([AMBIGUOUS_REFERENCE" in ambiguous


@thorough(
    "kafka/test_registry.py, kafka/test_change_logs.py: messages in Avro, and Debezium's in JSON"
)
def test_debeziums_changes_in_avro_reach_silver(
    lake: Lakes, broker: Broker, topic: str, registry: Registry
) -> None:
    row = {"type": "record", "name": "Value", "fields": FIRST["fields"]}
    source = {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": "long"}]}
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
        ],
    }
    registry.avro(1, envelope)
    registry.avro(2, {"type": "record", "name": "Key", "fields": FIRST["fields"][:1]})
    table = bronze(
        broker,
        topic,
        ChangeLog.debezium(),
        value="registry",
        key="registry",
        registry=registry.url,
    )
    silver = Table(
        name="silver/events",
        description="Orders.",
        reads=(SameDay(table),),
        key=("id",),
        schema=Contract(id=Integer(required=True), name=Text()),
        write=Merge(),
    )
    shop = lake(table, silver)

    def change(op: str, lsn: int, key: int, name: str | None) -> Message:
        after = varint(0) if name is None else varint(1) + avro(key, name)
        return plain(wire(1, varint(0) + after + avro(lsn, op)), f"05 {lsn}", wire(2, avro(key)))

    broker.send(
        topic,
        [change("c", 10, 1, "Ann"), change("c", 11, 2, "Bob"), change("d", 12, 2, None)],
    )
    shop.load(DAYS)

    assert shop.rows("silver/events", "id", "name") == [(1, "Ann")]


def proto_files() -> tuple[FileDescriptorProto, FileDescriptorProto]:
    """A file with a place, and one with an order that imports it."""
    kinds = FieldDescriptorProto
    place = FileDescriptorProto(name="other.proto", package="geo", syntax="proto3")
    city = place.message_type.add(name="Place")
    city.field.add(name="city", number=1, type=kinds.TYPE_STRING, label=kinds.LABEL_OPTIONAL)
    order = FileDescriptorProto(
        name="default",
        package="shop",
        syntax="proto3",
        dependency=["geo/place.proto", "google/protobuf/timestamp.proto"],
    )
    order.message_type.add(name="Unused")
    message = order.message_type.add(name="Order")
    for number, (name, kind, label, of) in enumerate(
        (
            ("id", kinds.TYPE_INT64, kinds.LABEL_OPTIONAL, None),
            ("name", kinds.TYPE_STRING, kinds.LABEL_OPTIONAL, None),
            ("tags", kinds.TYPE_STRING, kinds.LABEL_REPEATED, None),
            ("place", kinds.TYPE_MESSAGE, kinds.LABEL_OPTIONAL, ".geo.Place"),
            ("at", kinds.TYPE_MESSAGE, kinds.LABEL_OPTIONAL, ".google.protobuf.Timestamp"),
            ("photo", kinds.TYPE_BYTES, kinds.LABEL_OPTIONAL, None),
        ),
        start=1,
    ):
        message.field.add(name=name, number=number, type=kind, label=label, type_name=of)
    return place, order


def test_messages_of_protobuf_are_read_by_their_descriptors(
    lake: Lakes, broker: Broker, topic: str, registry: Registry
) -> None:
    place, order = proto_files()
    registry.protobuf(1, place)
    registry.subject("places", 1)
    registry.protobuf(2, order, [("geo/place.proto", "places")])
    registry.protobuf(3, order)  # without what it imports
    pool = DescriptorPool()
    pool.AddSerializedFile(TIMESTAMP.serialized_pb)
    imported = FileDescriptorProto()
    imported.CopyFrom(place)
    imported.name = "geo/place.proto"
    for file in (imported, order):
        pool.Add(file)
    kind = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
    ann = kind(id=2**60 + 1, name="Änn", tags=["a", "b"], photo=b"\xff")
    ann.place.city = "Oslo"
    ann.at.seconds = 1_483_600_000
    second = varint(1) + varint(1)  # one index: the second message of the file
    body = ann.SerializeToString()
    shop = lake(bronze(broker, topic, value="registry", registry=registry.url))
    broken = [
        wire(2, second + body[:-1]),
        wire(2, second + body + b"\x7a\x01x"),  # a field that the schema has not
        wire(2, varint(1) + varint(9) + body),
        wire(2, b"\xff"),
        wire(3, second + body),
    ]
    messages = [wire(2, second + body), wire(2, second), *broken]
    broker.send(topic, [plain(each, f"05 {10 + n}") for n, each in enumerate(messages)])

    shop.load(DAYS)

    expected = (
        '{"at":"2017-01-05T07:06:40Z","id":1152921504606846977,"name":"Änn","photo":"/w==",'
        '"place":{"city":"Oslo"},"tags":["a","b"]}'
    )
    assert kept(shop, "to_json(payload)")[:2] == [
        (expected,),
        ('{"at":null,"id":0,"name":"","photo":"","place":null,"tags":[]}',),
    ]
    assert [_bytes(raw) for (raw,) in kept(shop, "_raw")[2:]] == broken
    lacking = "schema 3 of the registry cannot be read (it imports geo/place.proto, which is not"
    assert [line for line in shop.logged if lacking in line]


def test_a_registry_that_does_not_answer_fails_the_load_and_tells_no_password(
    lake: Lakes,
    broker: Broker,
    topic: str,
    registry: Registry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry.avro(1, FIRST)
    registry.login = "Basic " + base64.b64encode(b"me:s3cret").decode()
    options = {"value": "registry", "registry": registry.url, "registry_credentials": "SCHEMAS"}
    shop = lake(bronze(broker, topic, **options))
    broker.send(topic, [plain(wire(1, avro(1, "Ann")), "05 10")])
    with pytest.raises(SourceError, match="SCHEMAS_USER is not set"):
        shop.load(DAYS)
    monkeypatch.setenv("SCHEMAS_USER", "me")
    monkeypatch.setenv("SCHEMAS_PASSWORD", "wr0ng")
    with pytest.raises(SourceError, match=r"/schemas/ids/1: 401.* check SCHEMAS_USER and") as error:
        shop.load(DAYS)
    assert "wr0ng" not in str(error.value)
    monkeypatch.setenv("SCHEMAS_PASSWORD", "s3cret")

    shop.load(DAYS)

    assert kept(shop, "to_json(payload)") == [('{"id":1,"name":"Ann"}',)]


@pytest.mark.parametrize("body", [{"error_code": 404, "message": "HTTP 404 Not Found"}, "<html>"])
def test_an_answer_404_that_is_not_the_registrys_own_is_no_unknown_schema(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, body: Any
) -> None:
    asked = SchemaRegistry(registry.url)
    assert asked.schema(5) is None
    monkeypatch.setattr(registry, "answer", lambda path, login: (404, body))

    with pytest.raises(SourceError, match=r"does not answer /schemas/ids/5: 404 .*Nothing"):
        asked.schema(5)


def test_a_password_goes_to_no_other_registry_than_the_one_that_is_named(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.login = "Basic " + base64.b64encode(b"me:s3cret").decode()
    registry.json(6)
    monkeypatch.setenv("SCHEMAS_USER", "me")
    monkeypatch.setenv("SCHEMAS_PASSWORD", "s3cret")

    with serving(Registry()) as first:
        first.leads_to = registry.url
        with pytest.raises(SourceError, match=r"302 .*; give the URL that it leads to \('http:"):
            SchemaRegistry(first.url, "SCHEMAS").schema(6)
    with pytest.raises(
        SourceError, match=r"401 .*; name the environment's .*registry_credentials=…"
    ):
        SchemaRegistry(registry.url).schema(6)

    assert len(registry.asked) == 1


def test_a_registry_is_known_by_the_authority_of_the_brokers(tmp_path: Path) -> None:
    authority, own, ca = Authority("tests"), tmp_path / "own.pem", tmp_path / "ca.pem"
    own.write_text(authority.signed("localhost"))
    ca.write_text(authority.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    with serving(Registry(), context) as served:
        served.json(8)
        url = f"https://localhost:{served.port}"
        options: dict[str, Any] = {"value": "registry", "registry": url, "security": "SSL"}

        asked = Kafka("localhost:9092", "events", **options, ca=str(ca)).schemas

        assert asked is not None
        assert asked.schema(8) == WireSchema("JSON")
        with pytest.raises(SourceError, match=r"does not answer /schemas/ids/9: .*verify failed"):
            SchemaRegistry(url).schema(9)


def test_a_registry_without_serialized_descriptors_is_named(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.protobuf(5, proto_files()[0])
    own = registry.answer
    lacking = 404, {"error_code": 40403}
    monkeypatch.setattr(
        registry, "answer", lambda path, login: lacking if "?" in path else own(path, login)
    )

    with pytest.raises(SourceError, match="gives no descriptors of Protobuf"):
        SchemaRegistry(registry.url).schema(5)


@pytest.mark.parametrize(
    "options",
    [
        {"value": "registry"},
        {"registry": "http://localhost:8081"},
        {"value": "registry", "registry": "localhost:8081"},
        {"value": "registry", "registry": "http://me:s3cret@localhost:8081"},
    ],
)
def test_a_registry_that_cannot_be_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(DefinitionError, match="registry") as refused:
        Kafka("localhost:9092", "events", **options)  # type: ignore[arg-type]
    assert "s3cret" not in str(refused.value)

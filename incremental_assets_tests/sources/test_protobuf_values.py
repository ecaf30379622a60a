"""Messages of Protobuf as JSON: its own types, extensions, and fields that no schema knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import any_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

from incremental_assets.sources.protobuf_values import ProtobufReader, why_unknown

AFTER_9999 = 253_402_300_800


def read(value: Message) -> Any:
    """What is read of a message with one field that holds the value; None for no JSON."""
    described = value.DESCRIPTOR
    file = FileDescriptorProto(name="own.proto", syntax="proto3", dependency=[described.file.name])
    file.message_type.add(name="Event").field.add(
        name="value",
        number=1,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
        type_name=f".{described.full_name}",
    )
    body = value.SerializeToString()
    assert len(body) < 0x80
    wire = b"\x00\x00\x00\x00\x01\x00\x0a" + bytes([len(body)]) + body
    found = ProtobufReader({1: (file.SerializeToString(),)}).read(wire)
    return None if found is None else json.loads(found)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (any_pb2.Any(type_url="x/shop.Order", value=b"\xff"), ("x/shop.Order", "/w==")),
        (wrappers_pb2.Int64Value(value=2**60 + 1), 2**60 + 1),
        (wrappers_pb2.UInt64Value(value=2**64 - 1), 2**64 - 1),
        (wrappers_pb2.StringValue(value="a"), "a"),
        (timestamp_pb2.Timestamp(seconds=1_483_600_000), "2017-01-05T07:06:40Z"),
    ],
    ids=["any", "long", "unsigned long", "text", "time"],
)
def test_a_type_of_protobufs_own_is_plain_json(value: Message, expected: Any) -> None:
    if isinstance(value, any_pb2.Any):
        expected = {"type_url": expected[0], "value": expected[1]}
    assert read(value) == {"value": expected}


@pytest.mark.parametrize(
    "value",
    [
        timestamp_pb2.Timestamp(seconds=AFTER_9999),
        struct_pb2.Value(number_value=float("nan")),
    ],
    ids=["after the year 9999", "not a number"],
)
def test_a_value_that_json_cannot_have_makes_a_message_unreadable(value: Message) -> None:
    assert read(value) is None


KINDS = FieldDescriptorProto
PREFIX = b"\x00\x00\x00\x00\x01\x00"


def orders() -> FileDescriptorProto:
    """Orders of proto2, with items of which the schema knows the number and the kind."""
    file = FileDescriptorProto(name="orders.proto", package="shop", syntax="proto2")
    file.dependency.append("google/protobuf/struct.proto")
    order, item = file.message_type.add(name="Order"), file.message_type.add(name="Item")
    entry = order.nested_type.add(name="ByNameEntry")
    entry.options.map_entry = True
    for number, (name, of, label) in enumerate(
        (
            ("item", ".shop.Item", KINDS.LABEL_OPTIONAL),
            ("items", ".shop.Item", KINDS.LABEL_REPEATED),
            ("by_name", ".shop.Order.ByNameEntry", KINDS.LABEL_REPEATED),
            ("more", ".google.protobuf.Struct", KINDS.LABEL_OPTIONAL),
        ),
        start=1,
    ):
        message = {"type": KINDS.TYPE_MESSAGE, "type_name": of, "label": label}
        order.field.add(name=name, number=number, **message)
    one = KINDS.LABEL_OPTIONAL
    entry.field.add(name="key", number=1, type=KINDS.TYPE_STRING, label=one)
    entry.field.add(
        name="value", number=2, type=KINDS.TYPE_MESSAGE, type_name=".shop.Item", label=one
    )
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="SOLD", number=0)
    item.field.add(name="number", number=1, type=KINDS.TYPE_INT64, label=one)
    item.field.add(name="kind", number=2, type=KINDS.TYPE_ENUM, type_name=".shop.Kind", label=one)
    item.extension_range.add(start=100, end=200)
    for name, number, label in (("note", 100, one), ("notes", 101, KINDS.LABEL_REPEATED)):
        of_item = {"extendee": ".shop.Item", "label": label}
        file.extension.add(name=name, number=number, type=KINDS.TYPE_STRING, **of_item)
    return file


def inside(number: int, content: bytes) -> bytes:
    """A field of that number with a message, a text or bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


KNOWN, ITEM = b"\x08\x05", {"number": 5, "kind": None}
EMPTY: dict[str, Any] = {"item": None, "items": [], "by_name": {}, "more": None}


@pytest.mark.parametrize(
    ("around", "field", "value"),
    [
        (lambda item: inside(1, item), "item", ITEM),
        (lambda item: inside(2, KNOWN) + inside(2, item), "items", [ITEM, ITEM]),
        (lambda item: inside(3, inside(1, b"a") + inside(2, item)), "by_name", {"a": ITEM}),
    ],
    ids=["in a message", "in one of several", "in a map"],
)
@pytest.mark.parametrize("unknown", [b"\x18\x63", b"\x10\x07"], ids=["field", "value of an enum"])
def test_a_message_with_what_its_schema_lacks_inside_is_unreadable(
    around: Callable[[bytes], bytes], field: str, value: Any, unknown: bytes
) -> None:
    reader = ProtobufReader({1: (orders().SerializeToString(),)})

    whole = reader.read(PREFIX + around(KNOWN))
    assert whole is not None
    assert json.loads(whole) == EMPTY | {field: value}
    assert reader.read(PREFIX + around(KNOWN + unknown)) is None


def test_an_unknown_field_in_a_type_of_protobufs_own_makes_a_message_unreadable() -> None:
    reader = ProtobufReader({1: (orders().SerializeToString(),)})
    value = b"\x20\x01"  # true

    assert (
        reader.read(PREFIX + inside(4, inside(1, inside(1, b"k") + inside(2, value)))) is not None
    )
    value += b"\x50\x01"
    assert reader.read(PREFIX + inside(4, inside(1, inside(1, b"k") + inside(2, value)))) is None


def test_extensions_are_fields_with_their_full_names() -> None:
    reader = ProtobufReader({1: (orders().SerializeToString(),)})
    note, notes = b"\xa2\x06\x01x", b"\xaa\x06\x01y\xaa\x06\x01z"

    found = reader.read(PREFIX + inside(1, KNOWN + note + notes))

    assert found is not None
    extensions = {"[shop.note]": "x", "[shop.notes]": ["y", "z"]}
    assert json.loads(found)["item"] == ITEM | extensions


def test_a_schema_without_what_it_imports_names_it() -> None:
    file = orders()
    file.dependency.append("google/protobuf/descriptor.proto")  # as for options of one's own
    assert why_unknown((file.SerializeToString(),)) == ""

    file.dependency.append("confluent/meta.proto")
    why = why_unknown((file.SerializeToString(),))

    assert why == "it imports confluent/meta.proto, which is not there"
    assert why_unknown((b"\xff",)) != ""

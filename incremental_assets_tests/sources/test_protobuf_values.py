"""Messages of Protobuf as JSON: the types that Protobuf itself defines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import any_pb2, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

from incremental_assets.sources.protobuf_values import ProtobufReader

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

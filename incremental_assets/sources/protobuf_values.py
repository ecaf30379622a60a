"""Messages of Protobuf as JSON, by the descriptors of the schema that each was written with.

It runs in Spark's Python workers. Names are those of the schema; numbers stay numbers, also those
of 64 bits; bytes are base64, enums the names of their values, times ISO 8601, and an Any its
`type_url` and its bytes. A field without a value is null where that is distinct from its default.
An extension that is set has its full name in brackets, as in Protobuf's own JSON.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

_PREFIX = 5
_WELL_KNOWN = (  # each behind those that it imports
    *("any", "source_context", "type", "api", "duration", "empty", "field_mask", "struct"),
    *("timestamp", "wrappers", "descriptor"),
)
# By Protobuf's own JSON, the numbers of 64 bits would be texts; of an Any, it wants the schema.
_LONG = {"google.protobuf.Int64Value", "google.protobuf.UInt64Value"}
_ANY = "google.protobuf.Any"


class ProtobufReader:
    """Reads messages in a registry's wire format: a zero, the schema's number, which message of it.

    `schemas` are the descriptors of the files of each number, its own last. A message that cannot
    be read, has fields that its schema has not, at any depth, or a value that JSON cannot have, is
    None.
    """

    def __init__(self, schemas: Mapping[int, tuple[bytes, ...]]) -> None:
        self._schemas = schemas
        self._files: dict[int, Any] = {}

    def __getstate__(self) -> Mapping[int, tuple[bytes, ...]]:
        return self._schemas

    def __setstate__(self, schemas: Mapping[int, tuple[bytes, ...]]) -> None:
        self.__init__(schemas)  # type: ignore[misc]

    def read(self, content: bytes | bytearray | None) -> str | None:
        """A message's JSON."""
        if content is None or len(content) <= _PREFIX or content[0] != 0:
            return None
        number = int.from_bytes(content[1:_PREFIX], "big")
        if number not in self._schemas:
            return None
        from google.protobuf.json_format import Error
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        try:
            path, at = _indexes(bytes(content), _PREFIX)
            message = GetMessageClass(self._descriptor(number, path))()
            message.ParseFromString(bytes(content[at:]))
            if _has_unknown_fields(message):
                return None
            return json.dumps(_plain(message), ensure_ascii=False)
        # Beyond those of the parse: a time after the year 9999, a number of a Struct that is NaN.
        except (DecodeError, IndexError, Error, ValueError, TypeError, KeyError):
            return None

    def _descriptor(self, number: int, path: list[int]) -> Descriptor:
        if number not in self._files:
            self._files[number] = _pooled(self._schemas[number])
        file = self._files[number]
        found: Any = list(file.message_types_by_name.values())[path[0]]
        for index in path[1:]:
            found = found.nested_types[index]
        described: Descriptor = found
        return described


def why_unknown(files: tuple[bytes, ...]) -> str:
    """Why descriptors are of no use, such as an import that is missing; "" for whole ones."""
    from google.protobuf.message import DecodeError

    try:
        _pooled(files)
    except (DecodeError, TypeError, KeyError) as error:
        lacking = _lacking(files)
        return f"it imports {', '.join(lacking)}, which is not there" if lacking else str(error)
    return ""


def _lacking(files: tuple[bytes, ...]) -> list[str]:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        own = [FileDescriptorProto.FromString(file) for file in files]
    except DecodeError:
        return []
    there = {f.name for f in own} | {f"google/protobuf/{name}.proto" for name in _WELL_KNOWN}
    return sorted({name for file in own for name in file.dependency} - there)


def _pooled(files: tuple[bytes, ...]) -> Any:
    """The last of some files, in a pool that has them and those of Protobuf itself."""
    from importlib import import_module

    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    own = [FileDescriptorProto.FromString(file) for file in files]
    given = {file.name for file in own}
    for name in _WELL_KNOWN:
        module = import_module(f"google.protobuf.{name}_pb2")
        if module.DESCRIPTOR.name not in given:
            pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for file in own:
        pool.Add(file)
    return pool.FindFileByName(own[-1].name)


def _indexes(content: bytes, at: int) -> tuple[list[int], int]:
    """Which message of a file it is, as indexes from the outermost in, and where it begins."""
    count, at = _varint(content, at)
    if count == 0:  # short for the first one
        return [0], at
    found = []
    for _ in range(count):
        index, at = _varint(content, at)
        found.append(index)
    return found, at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number in zigzag and base 128. Raises IndexError where it does not end."""
    number = shift = 0
    while True:
        byte = content[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at


def _has_unknown_fields(message: Message) -> bool:
    """Whether a message, or one inside it, has them. They are gone from it then."""
    whole = len(message.SerializePartialToString())
    message.DiscardUnknownFields()
    return len(message.SerializePartialToString()) != whole


def _plain(message: Message) -> Any:
    name = message.DESCRIPTOR.full_name
    if name in _LONG:
        return message.value
    if name.startswith("google.protobuf.") and name != _ANY:
        from google.protobuf.json_format import MessageToDict

        return MessageToDict(message)
    found = {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}
    for field, value in message.ListFields():
        if field.is_extension:
            found[f"[{field.full_name}]"] = _content(value, field)
    return found


def _field(message: Message, field: FieldDescriptor) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    return _content(getattr(message, field.name), field)


def _content(value: Any, field: FieldDescriptor) -> Any:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        kind = entry.fields_by_name["value"]
        return {_text(key): _value(value[key], kind) for key in value}
    if field.is_repeated:
        return [_value(each, field) for each in value]
    return _value(value, field)


def _value(value: Any, field: FieldDescriptor) -> Any:
    if field.message_type is not None:
        return _plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)

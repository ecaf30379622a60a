"""A schema registry for the tests: as much of Confluent's interface as is read of it."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from google.protobuf.descriptor_pb2 import FileDescriptorProto


class Registry:
    """Schemas by their numbers, and by subject and version."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[str] = []
        self.leads_to = ""
        self.login: str | None = None
        self._schemas: dict[int, dict[str, Any]] = {}
        self._versions: dict[str, int] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def avro(self, number: int, schema: Any, references: Sequence[tuple[str, str]] = ()) -> None:
        """Register an Avro schema; `references` are names with the subjects that define them."""
        self._put(number, {"schema": json.dumps(schema)}, references)

    def json(self, number: int) -> None:
        self._put(number, {"schemaType": "JSON", "schema": '{"type": "object"}'}, ())

    def protobuf(
        self,
        number: int,
        file: FileDescriptorProto,
        references: Sequence[tuple[str, str]] = (),
    ) -> None:
        serialized = base64.b64encode(file.SerializeToString()).decode()
        schema = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3";'}
        self._put(number, schema | {"serialized": serialized}, references)

    def subject(self, name: str, number: int) -> None:
        self._versions[f"/subjects/{name}/versions/1"] = number

    def _put(
        self, number: int, schema: dict[str, Any], references: Sequence[tuple[str, str]]
    ) -> None:
        named = [{"name": n, "subject": s, "version": 1} for n, s in references]
        self._schemas[number] = schema | ({"references": named} if named else {})

    def answer(self, path: str, login: str | None) -> tuple[int, dict[str, Any]]:
        """Status and body for a path."""
        self.asked.append(path)
        if self.leads_to:
            return 302, {}
        if self.login is not None and login != self.login:
            return 401, {"error_code": 40101, "message": "Unauthorized"}
        parts = urlsplit(path)
        number = self._versions.get(parts.path)
        if number is None and parts.path.startswith("/schemas/ids/"):
            number = int(parts.path.rpartition("/")[2])
        found = self._schemas.get(number or 0)
        if found is None:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        body = {name: value for name, value in found.items() if name != "serialized"}
        if parts.query == "format=serialized":
            body["schema"] = found["serialized"]
        return 200, body


@contextmanager
def serving(registry: Registry, tls: ssl.SSLContext | None = None) -> Iterator[Registry]:
    """The registry on a free port; over TLS, where there is a context."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = registry.answer(self.path, self.headers.get("Authorization"))
            content = json.dumps(body).encode()
            self.send_response(status)
            if registry.leads_to:
                self.send_header("Location", registry.leads_to + self.path)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    registry.port = server.server_port
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()


def wire(number: int, body: bytes) -> bytes:
    """A message's bytes in the wire format."""
    return b"\x00" + number.to_bytes(4, "big") + body


def varint(number: int) -> bytes:
    """A number as Avro and Protobuf's message indexes have it: zigzag, base 128."""
    left, found = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def avro(*values: Any) -> bytes:
    """The values of a record: whole numbers, texts, bytes, and pairs of a union's branch and its value."""
    found = b""
    for value in values:
        if isinstance(value, int):
            found += varint(value)
        elif isinstance(value, str | bytes):
            content = value.encode() if isinstance(value, str) else value
            found += varint(len(content)) + content
        elif value is not None:
            branch, inside = value
            found += varint(branch) + avro(inside)
    return found

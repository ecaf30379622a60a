"""A schema registry, asked over HTTP: the schemas by whose numbers messages begin."""

from __future__ import annotations

import base64
import json
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
    build_opener,
)

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.sources.credentials import credentials_of, require_variables

SECONDS = 20.0
_NOT_FOUND = 404
_REFUSED, _ELSEWHERE = (401, 403), (301, 302, 303, 307, 308)
_LACKING = (40401, 40402, 40403)
_KINDS = ("AVRO", "PROTOBUF", "JSON")
# The schema of a number never changes.
_known: dict[tuple[str, int], WireSchema | None] = {}


@dataclass(frozen=True, slots=True)
class WireSchema:
    """The schema of a number: AVRO as JSON; PROTOBUF as the files of its descriptors, its own last.

    JSON messages describe themselves.
    """

    kind: str
    avro: str = ""
    files: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """A registry with the interface of Confluent's, at a URL without credentials.

    These come from the environment, where a registry asks for some: from `<credentials>_USER` and
    `<credentials>_PASSWORD`. `ca` is a file with certificates (PEM) of authorities that are trusted
    besides those that this machine knows.
    """

    url: str
    credentials: str = ""
    ca: str = ""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise DefinitionError(
                f"Kafka: registry={parts._replace(netloc=parts.hostname or '').geturl()!r}; "
                "expected http://host:port or https://…, without a user: these come from the "
                "environment, by registry_credentials=…"
            )
        if self.credentials:
            require_variables("Kafka: registry_credentials", self.credentials, "REGISTRY")

    def schema(self, number: int) -> WireSchema | None:
        """The schema of a number; None where the registry has none.

        Raises SourceError where it does not answer, or has what nobody can read.
        """
        key = self.url, number
        if key not in _known:
            found = self._schema(number)
            if found is None:
                return None  # it may be registered yet
            _known[key] = found
        return _known[key]

    def _schema(self, number: int) -> WireSchema | None:
        found = self._ask(f"/schemas/ids/{number}")
        if found is None:
            return None
        kind = found.get("schemaType", "AVRO")
        references = found.get("references") or []
        if kind == "AVRO":
            return WireSchema(kind, json.dumps(self._inlined(found["schema"], references)))
        if kind == "PROTOBUF":
            own = self._ask(f"/schemas/ids/{number}?format=serialized")
            return WireSchema(kind, files=(*self._files(references), self._descriptor(own)))
        return WireSchema(kind)

    def _inlined(self, schema: str, references: list[Any]) -> Any:
        """An Avro schema with the types of other subjects, each where it is named first."""
        types: dict[str, Any] = {}
        self._collect(references, types)
        return _with_types(json.loads(schema), types, set(), "")

    def _collect(self, references: list[Any], types: dict[str, Any]) -> None:
        for reference in references:
            if reference["name"] not in types:
                found = self._version(reference)
                types[reference["name"]] = json.loads(found["schema"])
                self._collect(found.get("references") or [], types)

    def _files(self, references: list[Any]) -> tuple[bytes, ...]:
        """The descriptors of the files that one imports, each behind those that it imports."""
        found: dict[str, bytes] = {}
        for reference in references:
            of = self._version(reference, "?format=serialized")
            for file in self._files(of.get("references") or []):
                found.setdefault(base64.b64encode(file).decode(), file)
            file = _renamed(self._descriptor(of), reference["name"])
            found.setdefault(base64.b64encode(file).decode(), file)
        return tuple(found.values())

    def _descriptor(self, found: dict[str, Any] | None) -> bytes:
        try:
            content = base64.b64decode(found["schema"] if found else "", validate=True)
        except ValueError:
            content = b""
        if content:
            return content
        raise SourceError(
            f"{self.url} gives no descriptors of Protobuf (?format=serialized), so messages "
            "cannot be read. Nothing was loaded; use a registry that does, or value='text'."
        )

    def _version(self, reference: dict[str, Any], options: str = "") -> dict[str, Any]:
        subject, version = quote(reference["subject"], safe=""), reference["version"]
        found = self._ask(f"/subjects/{subject}/versions/{version}{options}")
        if found is None:
            raise SourceError(
                f"{self.url} has no version {version} of {reference['subject']}, which a schema "
                "refers to. Nothing was loaded; register it again."
            )
        return found

    def _ask(self, path: str) -> dict[str, Any] | None:
        """What the registry has at a path; None where it answers that there is nothing."""
        request = Request(self.url.rstrip("/") + path, headers=self._headers())  # noqa: S310 - checked
        try:
            with self._opener().open(request, timeout=SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except HTTPError as error:
            if error.code == _NOT_FOUND and _is_own(error):
                return None
            why, do = f"{error.code} {error.reason}", "put that right"
            if error.code in _REFUSED:
                do = self._login()
            elif error.code in _ELSEWHERE:
                to = urlsplit(error.headers.get("Location", ""))  # behind its path may be a token
                where = f"{to.scheme}://{to.hostname}{to.path}" if to.hostname else to.path
                do = f"give the URL that it leads to ({where!r})"
        except (URLError, OSError, ValueError) as error:
            why, do = str(getattr(error, "reason", error)) or type(error).__name__, "put that right"
        raise SourceError(
            f"The schema registry {self.url} does not answer {path.partition('?')[0]}: {why}. "
            f"Nothing was loaded; {do}, and run again."
        )

    def _login(self) -> str:
        """What to do where the registry lets nobody in."""
        if self.credentials:
            return f"check {self.credentials}_USER and {self.credentials}_PASSWORD"
        return "name the environment's variables with user and password: registry_credentials=…"

    def _opener(self) -> OpenerDirector:
        """What opens a URL, and no other to which a server would redirect the password."""
        context = ssl.create_default_context()
        if self.ca:
            context.load_verify_locations(self.ca)
        return build_opener(HTTPSHandler(context=context), _NoRedirects())

    def _headers(self) -> dict[str, str]:
        accept = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if not self.credentials:
            return accept
        who = credentials_of(self.url, self.credentials, "registry_credentials")
        login = base64.b64encode(f"{who.user}:{who.password}".encode()).decode()
        return accept | {"Authorization": f"Basic {login}"}


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is an error, for it would take the credentials along, to whatever host."""

    def redirect_request(self, *_: Any) -> None:
        """None: the answer is not followed."""


def _is_own(answer: HTTPError) -> bool:
    """Whether a 404 means that a subject, a version or a schema is missing (40401 to 40403).

    404 alone, or another page, is of a path that the server does not know.
    """
    try:
        code = json.load(answer)["error_code"]
    except (OSError, ValueError, TypeError, LookupError):
        return False
    return code in _LACKING


def _with_types(schema: Any, types: dict[str, Any], written: set[str], space: str) -> Any:
    """The schema with the definitions of `types`, of which those `written` are named alone."""
    if isinstance(schema, list):
        return [_with_types(each, types, written, space) for each in schema]
    if isinstance(schema, str):
        name = schema if schema in types or "." in schema or not space else f"{space}.{schema}"
        if name not in types or name in written:
            return schema
        written.add(name)
        return _with_types(types[name], types, written, "")
    space = schema.get("namespace", space) if isinstance(schema.get("type"), str) else space
    found = dict(schema)
    for part in ("type", "items", "values"):
        if part in found:
            found[part] = _with_types(found[part], types, written, space)
    if "fields" in found:
        found["fields"] = [_with_types(each, types, written, space) for each in found["fields"]]
    return found


def _renamed(file: bytes, name: str) -> bytes:
    """A descriptor under the name by which others import it."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # deferred: of few topics

    found = FileDescriptorProto.FromString(file)
    found.name = name
    return bytes(found.SerializeToString())

"""Debezium's connector for PostgreSQL in a Kafka Connect worker of its own, for the tests."""

from __future__ import annotations

import http
import http.client
import json
import time
from pathlib import Path
from signal import SIGKILL
from typing import Any, ClassVar

from incremental_assets_tests.databases.java_programs import (
    LOGGING,
    jars_of,
    java_program,
    properties,
)
from incremental_assets_tests.databases.postgresql import Database
from incremental_assets_tests.databases.server import HOST, LOADER, PASSWORD, Server

LOCK = Path(__file__).with_name("connector.lock")
SECONDS = 60
_WORKER = "org.apache.kafka.connect.cli.ConnectStandalone"


class Worker(Server):
    """A Connect worker, standalone: it keeps how far its connectors are in a file of its own."""

    kind: ClassVar[str] = "connect"
    stop_signal = SIGKILL
    brokers: ClassVar[str] = ""

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def connect(self, name: str, database: Database, **options: str) -> None:
        """Start a connector for a database, whose topics begin with `name`.

        Options are written with `_` for the dots. One that there is gets them from now on.
        """
        settings = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "topic.prefix": name,
            "slot.name": f"slot_of_{database.name}",
            "database.hostname": HOST,
            "database.port": str(database.port),
            "database.dbname": database.name,
            "database.user": LOADER,
            "database.password": PASSWORD,
            "plugin.name": "pgoutput",
            "publication.autocreate.mode": "filtered",
            "table.include.list": "public.*",
            "skipped.operations": "none",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            "decimal.handling.mode": "string",
            "poll.interval.ms": "20",
            **{option.replace("_", "."): value for option, value in options.items()},
        }
        self._ask("PUT", f"/connectors/{name}/config", settings)
        latest = time.monotonic() + SECONDS
        while (state := self._state(name)) != ["RUNNING"]:
            assert "FAILED" not in state, self._ask("GET", f"/connectors/{name}/status")
            assert time.monotonic() < latest, f"the connector is {state}"
            time.sleep(0.05)

    def disconnect(self, name: str) -> None:
        """End a connector, for good."""
        self._ask("DELETE", f"/connectors/{name}")

    def _state(self, name: str) -> list[str]:
        try:
            status = self._ask("GET", f"/connectors/{name}/status")
        except http.client.HTTPException:  # it was made just now
            return []
        return [task["state"] for task in status.get("tasks", [])]

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        client = http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)
        headers = {"Content-Type": "application/json"}
        client.request(method, path, None if body is None else json.dumps(body), headers)
        answer = client.getresponse()
        text = answer.read().decode()
        client.close()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise http.client.HTTPException(f"{method} {path}: {answer.status} {text}")
        return json.loads(text) if text else {}

    @classmethod
    def _fetched(cls) -> Path:
        return jars_of(LOCK, "debezium-connector-postgres")

    def _initialise(self) -> None:
        settings = {
            "bootstrap.servers": self.brokers,
            "listeners": self.url,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(self.home / "offsets"),
            "offset.flush.interval.ms": "200",
            "plugin.discovery": "service_load",
        }
        self._settings = self._file("worker.properties", properties(settings))
        self._logging = self._file("log4j2.properties", LOGGING)

    def _command(self) -> list[str]:
        return [*java_program(_WORKER, self.programs, self._logging), str(self._settings)]

    def _answers(self) -> bool:
        try:
            self._ask("GET", "/connectors")
        except (OSError, http.client.HTTPException):
            return False
        return True

"""What a broker of Kafka has to tell of a topic, asked without Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from incremental_assets.errors import SourceError
from incremental_assets.sources.kafka_days import Offsets

CLIENT = "incremental_assets"
"""The name by which the brokers list the client."""
SECONDS = 20.0
"""How long a broker may take to answer."""
_WAIT = 0.1
LOG = logging.getLogger("incremental_assets.kafka")
LOG.addHandler(logging.NullHandler())
LOG.propagate = False  # what matters is in the errors
_JAVA_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
MECHANISMS = tuple(_JAVA_LOGINS)


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """How to reach the brokers. The password is never shown."""

    brokers: str
    security: str = "PLAINTEXT"
    mechanism: str = ""
    user: str = ""
    password: str = ""
    ca: str = ""

    def __repr__(self) -> str:
        return f"KafkaAccess({self.brokers!r}, {self.security!r}, {self.user!r})"

    @property
    def has_login(self) -> bool:
        """Whether the brokers ask for a user."""
        return self.security.startswith("SASL")

    def of_python(self) -> dict[str, Any]:
        """The settings of librdkafka."""
        found: dict[str, Any] = {
            "bootstrap.servers": self.brokers,
            "client.id": CLIENT,
            "security.protocol": self.security,
            "socket.connection.setup.timeout.ms": int(SECONDS * 1000) // 2,
        }
        if self.ca:
            found["ssl.ca.location"] = self.ca
        if self.has_login:
            found |= {
                "sasl.mechanisms": self.mechanism,
                "sasl.username": self.user,
                "sasl.password": self.password,
            }
        return found

    def of_spark(self) -> dict[str, str]:
        """The options of Spark's reader."""
        found = {
            "kafka.bootstrap.servers": self.brokers,
            "kafka.client.id": CLIENT,
            "kafka.security.protocol": self.security,
        }
        if self.ca:
            found |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": self.ca}
        if self.has_login:
            user, password = _escaped(self.user), _escaped(self.password)
            login = (
                f'{_JAVA_LOGINS[self.mechanism]} required username="{user}" password="{password}";'
            )
            found |= {"kafka.sasl.mechanism": self.mechanism, "kafka.sasl.jaas.config": login}
        return found


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as it is now: its first offsets, and those behind the last committed messages.

    `identity` is another one where a topic was deleted and created again. Of a topic that may be
    `compacted`, messages vanish of which a later one has the key.
    """

    identity: str
    begin: Offsets
    end: Offsets
    compacted: bool


@contextmanager
def asking(path: str) -> Iterator[None]:
    """Inside, an error of the client is a SourceError that says which topic."""
    if find_spec("confluent_kafka") is None:
        raise SourceError(
            f"{path}: the package confluent-kafka is not installed: pip install "
            "'incremental-assets[kafka]'."
        )
    from confluent_kafka import KafkaException  # deferred: an extra

    try:
        yield
    except KafkaException as error:
        reason = error.args[0] if error.args else error
        text = reason.str() if hasattr(reason, "str") else str(reason)
        raise SourceError(
            f"{path}: the broker cannot be asked: {' '.join(text.split())[:300]}. Nothing was "
            "loaded; put that right (the address, the user's rights, the topic's name), and run "
            "again."
        ) from error


def topic_state(access: KafkaAccess, topic: str, path: str) -> TopicState:
    """The topic as it is now. Raises SourceError."""
    with asking(path):
        from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        admin = _Admin(access)
        asked = admin.client.describe_topics(TopicCollection([topic]), request_timeout=SECONDS)
        found = admin.answer(asked[topic])
        partitions = [TopicPartition(topic, partition.id) for partition in found.partitions]

        def offsets(spec: OffsetSpec) -> Offsets:
            futures = admin.client.list_offsets(
                dict.fromkeys(partitions, spec),
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=SECONDS,
            )
            return {at.partition: admin.answer(futures[at]).offset for at in partitions}

        return TopicState(
            str(found.topic_id),
            offsets(OffsetSpec.earliest()),
            offsets(OffsetSpec.latest()),
            _is_compacted(admin, topic),
        )


class _Admin:
    """A client that tells at once why no broker lets it in."""

    def __init__(self, access: KafkaAccess) -> None:
        from confluent_kafka.admin import AdminClient

        self._errors: list[Any] = []
        settings = access.of_python() | {"error_cb": self._errors.append}
        self.client = AdminClient(settings, logger=LOG)

    def answer(self, future: Future[Any]) -> Any:
        """The answer of a broker. Raises KafkaException, also where there is none in time."""
        from confluent_kafka import KafkaError, KafkaException

        final = {KafkaError._AUTHENTICATION, KafkaError._SSL}  # noqa: SLF001 - their public names
        latest = time.monotonic() + SECONDS
        while True:
            try:
                return future.result(_WAIT)
            except FutureTimeout:
                self.client.poll(0)
                for error in self._errors:
                    if error.code() in final:
                        raise KafkaException(error) from None
                if time.monotonic() > latest:
                    last = self._errors[-1] if self._errors else "no answer in time"
                    raise KafkaException(last) from None


def _is_compacted(admin: _Admin, topic: str) -> bool:
    """Whether messages may be compacted; True where this user may not read the setting."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource, ResourceType

    asked = ConfigResource(ResourceType.TOPIC, topic)
    try:
        settings: Mapping[str, Any] = admin.answer(admin.client.describe_configs([asked])[asked])
    except KafkaException:
        return True
    return "compact" in settings["cleanup.policy"].value


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')

"""A Kafka broker for the tests: one process in KRaft mode, from the jars that Apache publishes."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from signal import SIGKILL
from time import monotonic, sleep
from typing import Any, ClassVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from incremental_assets.spark.server import free_port
from incremental_assets_tests.databases.java_programs import (
    LOGGING,
    jars_of,
    java_program,
    properties,
)
from incremental_assets_tests.databases.server import HOST, Server
from incremental_assets_tests.kafka.certificates import Authority
from incremental_assets_tests.kafka.secure import NAME, PLAIN, scram_users, secure_settings

LOCK = Path(__file__).with_name("broker.lock")
SECONDS = 30
_CLUSTER = "dGVzdHMtb2YtYS1sYWtlLg"  # 16 bytes in base64
_QUIET = logging.getLogger("incremental_assets_tests.kafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Message:
    """A message to send; `at` is its timestamp in milliseconds since 1970, None: the clock's."""

    value: bytes | str | None
    key: bytes | str | None = None
    partition: int = 0
    at: int | None = None
    headers: Sequence[Header] = ()


class Broker(Server):
    """A broker whose topics are deleted and cut at once when a test says so.

    It listens at several ports: at `port` without security.
    """

    kind: ClassVar[str] = "kafka"
    stop_signal = SIGKILL

    @cached_property
    def login_port(self) -> int:
        """The port at which `loader` logs in with its password."""
        return free_port()

    @cached_property
    def secure_port(self) -> int:
        """The port at which `loader` logs in with its password, over TLS."""
        return free_port()

    @cached_property
    def mutual_port(self) -> int:
        """The port at which a client has to have a certificate."""
        return free_port()

    @cached_property
    def authority(self) -> Authority:
        """Who signed its certificate, and those of the clients that it knows."""
        return Authority("tests")

    @property
    def url(self) -> str:
        """Its bootstrap server."""
        return f"{self.host}:{self.port}"

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.url}, logger=_QUIET)

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Create a topic; options are written with `_` for the dots."""
        options = {name.replace("_", "."): value for name, value in config.items()}
        self._wait(self.admin.create_topics([NewTopic(topic, partitions, 1, config=options)]))
        self._wait_for(topic, there=True)

    def delete(self, topic: str) -> None:
        self._wait(self.admin.delete_topics([topic]))
        self._wait_for(topic, there=False)

    def _wait_for(self, topic: str, *, there: bool) -> None:
        """The controller knows of a topic before the broker does that is asked for it."""
        latest = monotonic() + SECONDS
        while (topic in self.admin.list_topics(timeout=SECONDS).topics) is not there:
            assert monotonic() < latest, f"the topic {topic} is {'not' if there else 'still'} there"
            sleep(0.05)

    def add_partitions(self, topic: str, total: int) -> None:
        self._wait(self.admin.create_partitions([NewPartitions(topic, total)]))

    def expire(self, topic: str, before: int, partition: int = 0) -> None:
        """Remove the messages below an offset, as retention does."""
        self._wait(self.admin.delete_records([TopicPartition(topic, partition, before)]))

    def send(self, topic: str, messages: Iterable[Message], **config: Any) -> None:
        """Send the messages, in this order, and wait until the broker has them."""
        producer = self.producer(**config)
        for message in messages:
            produce(producer, topic, message)
        assert producer.flush(SECONDS) == 0

    def send_in_transaction(
        self, topic: str, messages: Iterable[Message], *, commit: bool = True
    ) -> None:
        """Send the messages in one transaction, which is committed or aborted."""
        producer = self.producer(**{"transactional.id": f"{topic}-of-the-tests"})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for message in messages:
            produce(producer, topic, message)
        producer.flush(SECONDS)
        if commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
        self.wait_for_transactions(topic)

    def wait_for_transactions(self, topic: str) -> None:
        """Wait until the ends of all transactions are in the topic."""
        latest = monotonic() + SECONDS
        while self.ends(topic) != self.ends(topic, IsolationLevel.READ_COMMITTED):
            assert monotonic() < latest, f"the transaction on {topic} did not end"
            sleep(0.02)

    def producer(self, **config: Any) -> Producer:
        return Producer({"bootstrap.servers": self.url, "linger.ms": 0, **config}, logger=_QUIET)

    def ends(
        self, topic: str, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[int, int]:
        """The offset behind the last message of each partition, as far as it is committed."""
        partitions = self.admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions
        asked = {TopicPartition(topic, p): OffsetSpec.latest() for p in partitions}
        found = self.admin.list_offsets(asked, isolation_level=isolation)
        return {at.partition: future.result(SECONDS).offset for at, future in found.items()}

    def messages(self, topic: str) -> list[tuple[int, int]]:
        """Partition and offset of each committed message that is there."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.url,
                "group.id": "the-tests",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            },
            logger=_QUIET,
        )
        partitions = self.admin.list_topics(topic, timeout=SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        found, left = [], set(partitions)
        while left:
            message = consumer.poll(SECONDS)
            assert message is not None, "the broker sends nothing"
            if message.error():
                left.discard(message.partition())
            else:
                found.append((message.partition(), message.offset()))
        consumer.close()
        return found

    def last_value(self, topic: str) -> Any:
        """The JSON of the last message of a topic of one partition."""
        consumer = Consumer({"bootstrap.servers": self.url, "group.id": "the-tests"}, logger=_QUIET)
        consumer.assign([TopicPartition(topic, 0, self.ends(topic)[0] - 1)])
        message = consumer.poll(SECONDS)
        consumer.close()
        assert message is not None, "the broker sends nothing"
        value = message.value()
        assert value is not None
        return json.loads(value)

    @classmethod
    def _fetched(cls) -> Path:
        return jars_of(LOCK, "kafka-server")

    def _initialise(self) -> None:
        listeners = {
            "PLAINTEXT": (HOST, self.port, "PLAINTEXT"),
            "LOGIN": (HOST, self.login_port, "SASL_PLAINTEXT"),
            "SECURE": (NAME, self.secure_port, "SASL_SSL"),
            "MUTUAL": (NAME, self.mutual_port, "SSL"),
        }
        at = f"{HOST}:{free_port()}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{at}",
            "listeners": ",".join(
                [
                    *(f"{name}://{HOST}:{port}" for name, (_, port, _) in listeners.items()),
                    f"CONTROLLER://{at}",
                ]
            ),
            "advertised.listeners": ",".join(
                f"{name}://{host}:{port}" for name, (host, port, _) in listeners.items()
            ),
            "listener.security.protocol.map": ",".join(
                [
                    "CONTROLLER:PLAINTEXT",
                    *(f"{name}:{security}" for name, (*_, security) in listeners.items()),
                ]
            ),
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": PLAIN,
            **secure_settings(self.authority, self._file, "SECURE", "MUTUAL"),
            "controller.listener.names": "CONTROLLER",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "log.dirs": str(self.home / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "log.cleaner.backoff.ms": "100",
            "file.delete.delay.ms": "0",
            "num.network.threads": "1",
            "num.io.threads": "2",
            # Messages of the tests are of January 2017.
            "log.retention.ms": "-1",
        }
        self._settings = self._file("server.properties", properties(settings))
        self._logging = self._file("log4j2.properties", LOGGING)
        self._run(
            *self._java("kafka.tools.StorageTool"),
            *("format", "-t", _CLUSTER, *self._config, *scram_users()),
        )

    def _command(self) -> list[str]:
        return [*self._java("kafka.Kafka"), str(self._settings)]

    @property
    def _config(self) -> tuple[str, str]:
        return "-c", str(self._settings)

    def _java(self, main: str) -> list[str]:
        return java_program(main, self.programs, self._logging)

    def _answers(self) -> bool:
        try:
            self.admin.list_topics(timeout=1)
        except KafkaException:
            return False
        return True

    @staticmethod
    def _wait(futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(SECONDS)


def produce(producer: Producer, topic: str, message: Message) -> None:
    """Hand a message over to a producer."""
    at = {} if message.at is None else {"timestamp": message.at}
    producer.produce(
        topic,
        message.value,
        message.key,
        message.partition,
        headers=list(message.headers) or None,
        **at,
    )

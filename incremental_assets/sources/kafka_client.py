"""What a broker of Kafka knows of a topic, asked without Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import Any, Self

from incremental_assets.sources import kafka_access
from incremental_assets.sources.kafka_access import KafkaAccess
from incremental_assets.sources.kafka_days import NextOffsets, Ranges
from incremental_assets.sources.kafka_errors import ClientErrors, asking, is_of_time

_WAIT = 0.1
LOG = logging.getLogger("incremental_assets.kafka")
LOG.addHandler(logging.NullHandler())
LOG.propagate = False  # what matters is in the errors


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as it is now: its first offsets, and those behind the last committed messages.

    `identity` is another one where a topic was deleted and created again. Of a topic that may be
    `compacted`, messages vanish of which a later one has the key. The messages that are `waiting`
    lie behind one whose transaction is open.
    """

    identity: str
    begin: NextOffsets
    end: NextOffsets
    compacted: bool
    waiting: Ranges = field(default_factory=dict)


def topic_state(access: KafkaAccess, topic: str, path: str) -> TopicState:
    """The topic as it is now. Raises SourceError."""
    with asking(path, access):
        from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        read_committed = IsolationLevel.READ_COMMITTED
        with _Admin(access) as admin:
            asked = admin.client.describe_topics(
                TopicCollection([topic]), request_timeout=kafka_access.SECONDS
            )
            found = admin.answer(asked[topic])
            partitions = [TopicPartition(topic, partition.id) for partition in found.partitions]

            def offsets(
                spec: OffsetSpec, isolation: IsolationLevel = read_committed
            ) -> NextOffsets:
                futures = admin.client.list_offsets(
                    dict.fromkeys(partitions, spec),
                    isolation_level=isolation,
                    request_timeout=kafka_access.SECONDS,
                )
                return {at.partition: admin.answer(futures[at]).offset for at in partitions}

            # In this order: what is committed meanwhile waits for nothing.
            there = offsets(OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED)
            begin, end = offsets(OffsetSpec.earliest()), offsets(OffsetSpec.latest())
            waiting = {p: (end[p], last) for p, last in there.items() if last > end[p]}
            identity, compacted = str(found.topic_id), _is_compacted(admin, topic)
            return TopicState(identity, begin, end, compacted, waiting)


class _Admin:
    """A client that reports at once why no broker lets it in, for as long as a block goes on.

    Its threads end with the block, and not whenever an error's traceback is forgotten.
    """

    def __init__(self, access: KafkaAccess) -> None:
        from confluent_kafka.admin import AdminClient

        self._errors = ClientErrors()
        settings = access.of_python() | {"error_cb": self._errors.add}
        self.client = AdminClient(settings, logger=LOG)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self.client:
            pass

    def answer(self, future: Future[Any]) -> Any:
        """The answer of a broker. Raises KafkaException, also where there is none in time."""
        from confluent_kafka import KafkaException

        latest = time.monotonic() + kafka_access.SECONDS
        while True:
            try:
                return future.result(_WAIT)
            except FutureTimeout:
                self.client.poll(0)
                if self._errors.final is not None:
                    raise KafkaException(self._errors.final) from None
                if time.monotonic() > latest:
                    raise KafkaException(self._errors.last or "no answer in time") from None
            except KafkaException as error:
                if not is_of_time(error) or self._errors.last is None:
                    raise
                raise KafkaException(self._errors.last) from error


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

"""Looking through the messages of a topic, without Spark: of which days they are, and where."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from incremental_assets.errors import SourceError
from incremental_assets.sources.kafka_client import LOG, SECONDS, KafkaAccess, asking
from incremental_assets.sources.kafka_days import ByDay, DayMessages, Offsets, added_up

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_AT_ONCE = 10_000
_WAIT = 0.1  # seconds for further messages, where there may be none
_DAY = 86_400_000  # milliseconds
_UNIX_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class _Scan:
    low: Offsets
    high: Offsets
    found: ByDay


# Messages do not change, so what was looked through stays known: of each topic the last scan. A
# sensor looks every half minute, and a load plans more than once.
_last: dict[tuple[str, str], _Scan] = {}


def messages_by_day(
    access: KafkaAccess,
    topic: str,
    identity: str,
    path: str,
    low: Offsets,
    high: Offsets,
    read: Mapping[date, Offsets],
) -> ByDay:
    """The committed messages from `low` to below `high`, by the day of their timestamp.

    Of the days that were `read`, those from there on. Raises SourceError where the broker does not
    answer.
    """
    if read:
        return _scan(access, topic, path, low, high, read)
    before, found = _last.get((access.brokers, identity)), None
    if before is not None and before.low == low and _is_up_to(before.high, high):
        more = _scan(access, topic, path, {**low, **before.high}, high, {})
        found = added_up(before.found, more)
    else:
        found = dict(_scan(access, topic, path, low, high, {}))
    _last[access.brokers, identity] = _Scan(low, high, found)
    return found


def _is_up_to(before: Offsets, high: Offsets) -> bool:
    return all(end <= high.get(partition, -1) for partition, end in before.items())


def _scan(
    access: KafkaAccess,
    topic: str,
    path: str,
    low: Offsets,
    high: Offsets,
    read: Mapping[date, Offsets],
) -> ByDay:
    left = {partition for partition, end in high.items() if low[partition] < end}
    counts = _Counts(read)
    if not left:
        return {}
    errors: list[Any] = []
    with asking(path):
        from confluent_kafka import Consumer, TopicPartition

        settings = access.of_python() | {
            "group.id": "incremental_assets",  # asked for, and not used: nothing is committed
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "error_cb": errors.append,
        }
        consumer = Consumer(settings, logger=LOG)
        try:
            consumer.assign([TopicPartition(topic, p, low[p]) for p in sorted(left)])
            expected = sum(high[p] - low[p] + 1 for p in left)  # with the ends of partitions
            latest = time.monotonic() + SECONDS
            while left:
                messages = consumer.consume(min(expected, _AT_ONCE), _WAIT)
                if messages:
                    latest = time.monotonic() + SECONDS
                elif time.monotonic() > latest:
                    last = f" ({errors[-1].str()})" if errors else ""
                    raise SourceError(
                        f"{path}: the broker sent no message for {SECONDS:.0f} s{last}, though "
                        f"partition {min(left)} has some before offset {high[min(left)]}. Nothing "
                        "was loaded; find out whether the broker is well, and run again."
                    )
                _count(messages, high, left, counts, consumer)
        finally:
            consumer.close()
    return counts.by_day()


def _count(
    messages: list[Message], high: Offsets, left: set[int], counts: _Counts, consumer: Consumer
) -> None:
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    at_end = KafkaError._PARTITION_EOF  # noqa: SLF001 - its name in the API
    for message in messages:
        error = message.error()
        if error is not None and error.code() != at_end:
            raise KafkaException(error)
        partition, offset = message.partition(), message.offset()
        if partition not in left:
            continue
        if error is None and offset < high[partition]:
            _, at = message.timestamp()
            counts.add(partition, offset, at, len(message))
        if error is not None or offset >= high[partition] - 1:
            left.discard(partition)
            consumer.pause([TopicPartition(str(message.topic()), partition)])


class _Counts:
    """The messages so far, by day and partition: first and last offset, how many, bytes."""

    def __init__(self, read: Mapping[date, Offsets]) -> None:
        self._read = {day.toordinal() - _UNIX_EPOCH: offsets for day, offsets in read.items()}
        self._found: dict[int, dict[int, list[int]]] = {}

    def add(self, partition: int, offset: int, at: int, size: int) -> None:
        day = at // _DAY
        if self._read and offset < self._read.get(day, {}).get(partition, 0):
            return
        of_day = self._found.setdefault(day, {})
        counted = of_day.get(partition)
        if counted is None:
            of_day[partition] = [offset, offset, 1, size]
        else:
            counted[1] = offset
            counted[2] += 1
            counted[3] += size

    def by_day(self) -> ByDay:
        return added_up(
            *(
                {
                    _date(day): DayMessages(
                        sum(rows for _, _, rows, _ in found.values()),
                        sum(size for _, _, _, size in found.values()),
                        {p: (first, last + 1) for p, (first, last, _, _) in found.items()},
                    )
                }
                for day, found in self._found.items()
            )
        )


def _date(day: int) -> date | None:
    """A day since 1970; None where a calendar has none."""
    ordinal = _UNIX_EPOCH + day
    return date.fromordinal(ordinal) if day >= 0 and ordinal <= date.max.toordinal() else None

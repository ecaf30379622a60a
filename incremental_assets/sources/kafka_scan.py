"""Looking through the messages of a topic, without Spark: of which days they are, and where."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from threading import Lock
from typing import TYPE_CHECKING

from incremental_assets.errors import SourceError
from incremental_assets.scan_progress import counting
from incremental_assets.sources import kafka_access
from incremental_assets.sources.kafka_access import KafkaAccess
from incremental_assets.sources.kafka_client import LOG
from incremental_assets.sources.kafka_days import DayMessages, MessagesByDay, NextOffsets, added_up
from incremental_assets.sources.kafka_errors import ClientErrors, asking

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_AT_ONCE = 10_000
_WAIT = 0.1  # seconds for further messages, where there may be none
_DAY = 86_400_000  # milliseconds
_LAST = 9_200_000_000_000_000  # milliseconds: as microseconds, they are the last of 64 bits
_UNIX_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class _Scan:
    low: NextOffsets
    high: NextOffsets
    found: MessagesByDay


# Messages do not change, so what was looked through stays known: of each topic the last scan. A
# sensor looks every half minute, and a load plans more than once.
_Topic = tuple[str, str, str]
_last: dict[_Topic, _Scan] = {}
_scanning: dict[_Topic, Lock] = {}


def messages_by_day(
    access: KafkaAccess,
    topic: str,
    identity: str,
    path: str,
    low: NextOffsets,
    high: NextOffsets,
    read: Mapping[date, NextOffsets],
) -> MessagesByDay:
    """The committed messages from `low` to below `high`, by the day of their timestamp.

    Of the days that were `read`, those from there on. Raises SourceError where the broker does not
    answer.
    """
    if read:
        return _scan(access, topic, path, low, high, read)
    key = access.brokers, topic, identity
    # A tick that takes too long goes on while the next one begins: that waits for what it finds.
    with _scanning.setdefault(key, Lock()):
        before = _last.get(key)
        if before is not None and before.low == low and _is_up_to(before.high, high):
            more = _scan(access, topic, path, {**low, **before.high}, high, {})
            found = added_up(before.found, more)
        else:
            found = dict(_scan(access, topic, path, low, high, {}))
        _last[key] = _Scan(low, high, found)
    return found


def _is_up_to(before: NextOffsets, high: NextOffsets) -> bool:
    return all(end <= high.get(partition, -1) for partition, end in before.items())


def _scan(
    access: KafkaAccess,
    topic: str,
    path: str,
    low: NextOffsets,
    high: NextOffsets,
    read: Mapping[date, NextOffsets],
) -> MessagesByDay:
    left = {partition for partition, end in high.items() if low[partition] < end}
    counts = _Counts(read)
    if not left:
        return {}
    errors, at = ClientErrors(), {p: low[p] for p in left}
    expected = sum(high[p] - low[p] for p in left)
    with asking(path, access), counting(f"Looking through {topic}", expected, "offsets") as tell:
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        settings = access.of_python() | {
            "group.id": "incremental_assets",  # asked for, and not used: nothing is committed
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "error_cb": errors.add,
        }
        consumer = Consumer(settings, logger=LOG)
        try:
            consumer.assign([TopicPartition(topic, p, low[p]) for p in sorted(left)])
            most = min(expected + len(left), _AT_ONCE)  # with the ends of partitions
            latest = time.monotonic() + kafka_access.SECONDS
            while left:
                messages, before = consumer.consume(most, _WAIT), set(left)
                if _count(path, messages, high, left, at, counts):
                    latest = time.monotonic() + kafka_access.SECONDS
                    consumer.pause([TopicPartition(topic, p) for p in before - left])
                    tell(sum(at.values()) - sum(low[p] for p in at))
                elif errors.final is not None:
                    raise KafkaException(errors.final)
                elif time.monotonic() > latest:
                    last = f" ({errors.last.str()})" if errors.last is not None else ""
                    raise SourceError(
                        f"{path}: the broker sent no message for {kafka_access.SECONDS:.0f} s"
                        f"{last}, though partition {min(left)} has some from offset "
                        f"{at[min(left)]} to below {high[min(left)]}. Nothing was loaded; find out "
                        "whether the broker is healthy, and run again."
                    )
        finally:
            consumer.close()
    return counts.by_day()


def _count(
    path: str,
    messages: list[Message],
    high: NextOffsets,
    left: set[int],
    at: dict[int, int],
    counts: _Counts,
) -> bool:
    """Count what came, and take partitions that are done out of `left`; whether anything came.

    The end of a partition is where the broker that answers thinks it is. A new leader may lag
    behind what the offsets were asked of: then the rest is still to come.
    """
    came = False
    for message in messages:
        error, partition, reached = message.error(), message.partition(), message.offset()
        if error is not None and not _is_end(path, error, partition):
            continue
        if partition not in left:
            continue
        end = high[partition]
        if error is None:
            if reached < end:
                _, sent = message.timestamp()
                if sent > _LAST:
                    raise _unreadable(path, partition, reached, sent)
                counts.add(partition, reached, sent, len(message))
            reached += 1
            came = True
        if reached >= end:
            reached, came = end, True
            left.discard(partition)
        at[partition] = reached
    return came


def _unreadable(path: str, partition: int, offset: int, sent: int) -> SourceError:
    return SourceError(
        f"{path}: the message at offset {offset} of partition {partition} has the timestamp "
        f"{sent:,} ms, which Spark cannot read: perhaps these are nanoseconds. Nothing was loaded; "
        "mend the producer, and copy the topic without this message, or delete its records up to "
        "there and set on_gap='accept'."
    )


def _is_end(path: str, error: KafkaError, partition: int | None) -> bool:
    """Whether an error is the end of a partition, or none that matters. Raises any other."""
    from confluent_kafka import KafkaError, KafkaException

    code = error.code()
    if code == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - its name in the API
        raise SourceError(
            f"{path}: messages of partition {partition} expired while they were looked through. "
            "Nothing was loaded; run again."
        )
    at_end = bool(code == KafkaError._PARTITION_EOF)  # noqa: SLF001 - its name in the API
    # The client looks for its group, which nobody uses.
    if not at_end and code != KafkaError.GROUP_AUTHORIZATION_FAILED:
        raise KafkaException(error)
    return at_end


class _Counts:
    """The messages so far, by day and partition: first and last offset, how many, bytes."""

    def __init__(self, read: Mapping[date, NextOffsets]) -> None:
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

    def by_day(self) -> MessagesByDay:
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

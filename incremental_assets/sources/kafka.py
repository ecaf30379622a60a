"""A topic of Kafka as a source: looked through without Spark, read by ranges of offsets."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, get_args

from incremental_assets.choices import require_choice
from incremental_assets.errors import DefinitionError
from incremental_assets.plurals import counted
from incremental_assets.sources.credentials import credentials_of, require_variables
from incremental_assets.sources.kafka_access import MECHANISMS, KafkaAccess
from incremental_assets.sources.kafka_client import topic_state
from incremental_assets.sources.kafka_days import in_words
from incremental_assets.sources.kafka_fixed import FixedKafka
from incremental_assets.sources.kafka_messages import whole
from incremental_assets.sources.kafka_values import VALUE_FORMATS, ValueFormat
from incremental_assets.sources.payloads import MESSAGE
from incremental_assets.sources.schema_registry import SchemaRegistry
from incremental_assets.sources.source import FixedSource, Source

Security = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
OnGap = Literal["fail", "accept"]
_BROKERS = re.compile(r"[A-Za-z0-9._\[\]:-]+:\d{1,5}(,[A-Za-z0-9._\[\]:-]+:\d{1,5})*")
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class Kafka(Source):
    """A topic of Kafka, for `Offsets`, `Upserts` and `ChangeLog`: each message is read once.

    `brokers` are `host:port`, with commas between several. `value` and `key` are what the bytes of
    a message hold: "json" (also with the prefix of a registry's wire format), "text", or
    "registry": Avro, Protobuf or JSON in the wire format of the schema `registry` at that URL, each
    message by its own schema. `registry_credentials` is as `credentials`, for the registry; ""
    for none. A message lands on the UTC day of its timestamp.

    With `security="SASL_SSL"` (or "SASL_PLAINTEXT") user and password come from the environment,
    from `<credentials>_USER` and `<credentials>_PASSWORD`, for the `mechanism`. `ca` is the file
    with the certificates (PEM) of who signed the brokers', where that is not known to all;
    `certificate` one with a client's certificate and its key, which is not encrypted (PEM, PKCS#8),
    where the brokers ask for one.

    Messages that expired before they were read, and a topic that was deleted and created again,
    fail the load; with `on_gap="accept"` it goes on behind them, and notes what was lost. With
    `fixed_partitions`, as `Upserts` reads it, so does a partition that was added.
    """

    brokers: str
    topic: str
    value: ValueFormat = "json"
    key: ValueFormat = "json"
    security: Security = "PLAINTEXT"
    mechanism: str = "SCRAM-SHA-512"
    credentials: str = "KAFKA"
    ca: str = ""
    certificate: str = ""
    on_gap: OnGap = "fail"
    registry: str = ""
    registry_credentials: str = ""
    fixed_partitions: bool = False

    def __post_init__(self) -> None:
        if not _BROKERS.fullmatch(self.brokers):
            raise DefinitionError(
                f"Kafka: brokers={self.brokers!r}; expected host:port, with commas between several."
            )
        if not _TOPIC.fullmatch(self.topic):
            raise DefinitionError(
                f"Kafka: {self.topic!r} is no name of a topic; expected letters, digits, '.', '_' "
                "and '-'."
            )
        for name, choices in (("value", VALUE_FORMATS), ("key", VALUE_FORMATS)):
            require_choice(f"Kafka: {name} of {self.topic}", getattr(self, name), choices)
        require_choice(f"Kafka: security of {self.topic}", self.security, get_args(Security))
        require_choice(f"Kafka: mechanism of {self.topic}", self.mechanism, MECHANISMS)
        require_choice(f"Kafka: on_gap of {self.topic}", self.on_gap, get_args(OnGap))
        require_variables("Kafka: credentials", self.credentials, "SHOP")
        has_tls = self.security.endswith("SSL")
        if not has_tls and (
            self.certificate or (self.ca and not self.registry.startswith("https:"))
        ):
            raise DefinitionError(
                f"Kafka: security of {self.topic} is {self.security!r}, without TLS; expected "
                "'SSL' or 'SASL_SSL' where there is a ca or a certificate."
            )
        asks = "registry" in (self.value, self.key)
        if asks != bool(self.registry):
            raise DefinitionError(
                f"Kafka: the registry of {self.topic}: expected the URL of a schema registry where "
                "value or key is 'registry', and none where neither is."
            )
        _ = self.schemas  # raises, where the URL is none

    @property
    def schemas(self) -> SchemaRegistry | None:
        """The registry, if it is asked."""
        if not self.registry:
            return None
        return SchemaRegistry(self.registry, self.registry_credentials, self.ca)

    @property
    def path(self) -> str:  # type: ignore[override]
        """The brokers and the topic."""
        return f"kafka://{self.brokers}/{self.topic}"

    @property
    def day(self) -> str:  # type: ignore[override]
        """What the landing day of a message is taken from."""
        return "timestamp"

    @property
    def has_offsets(self) -> bool:
        return True

    @property
    def bronze_columns(self) -> tuple[tuple[str, str], ...]:
        return ((MESSAGE, "variant"),)

    def with_fixed_partitions(self) -> Kafka:
        """The topic, refused once it has more partitions than when it was read."""
        return replace(self, fixed_partitions=True)

    def access(self) -> KafkaAccess:
        """How to reach the brokers.

        Raises SourceError if a variable is not set, or a file is not what it should be.
        """
        found = KafkaAccess(
            self.brokers,
            self.security,
            self.mechanism,
            ca=self.ca,
            certificate=self.certificate,
            credentials=self.credentials,
        )
        if found.has_login:
            who = credentials_of(self.path, self.credentials)
            found = replace(found, user=who.user, password=who.password)
        found.require_files(self.path)
        return found

    def fix(self) -> FixedSource:
        """The topic with the offsets behind the last message that is committed now."""
        now = topic_state(self.access(), self.topic, self.path)
        notes: tuple[str, ...] = ()
        if now.waiting:
            what = counted(sum(end - first for first, end in now.waiting.values()), "offset")
            notes = (f"{what} will wait for open transactions ({in_words(now.waiting)}).",)
        return FixedKafka(self.path, self, now, whole(now.begin, now.end), notes)

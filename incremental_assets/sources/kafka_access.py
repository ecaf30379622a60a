"""How the brokers of Kafka are reached: the settings of Python's client, and of Spark's reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from incremental_assets.sources.kafka_tls import (
    require_authorities,
    require_key,
)

CLIENT = "incremental_assets"
"""The name by which the brokers list the client."""
SECONDS = 20.0
"""How long a broker may take to answer."""
_JAVA_LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
MECHANISMS = tuple(_JAVA_LOGINS)


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """How to reach the brokers. The password is never shown.

    `ca` and `certificate` are files (PEM): who signed the brokers' certificates, and the client's
    own certificate with its key. `credentials` is how the environment's variables begin.
    """

    brokers: str
    security: str = "PLAINTEXT"
    mechanism: str = ""
    user: str = ""
    password: str = ""
    ca: str = ""
    certificate: str = ""
    credentials: str = "KAFKA"

    def __repr__(self) -> str:
        return f"KafkaAccess({self.brokers!r}, {self.security!r}, {self.user!r})"

    @property
    def has_login(self) -> bool:
        """Whether the brokers ask for a user."""
        return self.security.startswith("SASL")

    @property
    def has_tls(self) -> bool:
        """Whether the brokers speak TLS."""
        return self.security.endswith("SSL")

    def require_files(self, path: str) -> None:
        """Raise SourceError where a file is not there, or not what it should be."""
        if self.ca:
            require_authorities(path, self.ca)
        if self.certificate:
            require_key(path, self.certificate)

    def of_python(self) -> dict[str, Any]:
        """The settings of librdkafka."""
        found: dict[str, Any] = {
            "bootstrap.servers": self.brokers,
            "client.id": CLIENT,
            "security.protocol": self.security,
            "socket.connection.setup.timeout.ms": max(int(SECONDS * 1000) // 2, 1000),
        }
        if self.ca:
            found["ssl.ca.location"] = self.ca
        if self.certificate:
            found |= {
                "ssl.certificate.location": self.certificate,
                "ssl.key.location": self.certificate,
            }
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
        for kind, file in (("truststore", self.ca), ("keystore", self.certificate)):
            if file:
                found |= {f"kafka.ssl.{kind}.type": "PEM", f"kafka.ssl.{kind}.location": file}
        if self.has_login:
            user, password = _escaped(self.user), _escaped(self.password)
            login = (
                f'{_JAVA_LOGINS[self.mechanism]} required username="{user}" password="{password}";'
            )
            found |= {"kafka.sasl.mechanism": self.mechanism, "kafka.sasl.jaas.config": login}
        return found


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')

"""How the broker of the tests is reached over TLS: by a user's password, or by a certificate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from incremental_assets_tests.databases.server import LOADER
from incremental_assets_tests.kafka.certificates import Authority

NAME = "localhost"
"""The host that the broker's certificate is of; its address is none."""
PASSWORD = 'se"cr\\et'  # with what Java's settings have to escape
PASSWORD_QUOTED = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_MODULES = "org.apache.kafka.common.security"
PLAIN = f'{_MODULES}.plain.PlainLoginModule required user_{LOADER}="{PASSWORD_QUOTED}";'
_SCRAM = f"{_MODULES}.scram.ScramLoginModule required;"


def secure_settings(
    authority: Authority, file: Callable[[str, str], Path], secure: str, mutual: str
) -> dict[str, str]:
    """The broker's settings of two listeners: one with users, one that asks for a certificate."""
    own = file("broker.pem", authority.signed(NAME))
    trusted = file("trusted.pem", authority.certificate)
    users, certificates = (f"listener.name.{name.lower()}" for name in (secure, mutual))
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own),
        f"{users}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{users}.plain.sasl.jaas.config": PLAIN,
        f"{users}.scram-sha-256.sasl.jaas.config": _SCRAM,
        f"{users}.scram-sha-512.sasl.jaas.config": _SCRAM,
        f"{certificates}.ssl.client.auth": "required",
        f"{certificates}.ssl.truststore.type": "PEM",
        f"{certificates}.ssl.truststore.location": str(trusted),
    }


def scram_users() -> list[str]:
    """What formats the broker's storage with the user of the tests."""
    scram = (name for name in MECHANISMS if name.startswith("SCRAM"))
    return [
        word
        for mechanism in scram
        for word in ("--add-scram", f'{mechanism}=[name="{LOADER}",password="{PASSWORD}"]')
    ]

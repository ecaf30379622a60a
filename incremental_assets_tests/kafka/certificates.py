"""Certificates for the tests, made anew for each run: authorities, and whom they sign."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

ENDED = datetime(2017, 1, 10, 12, tzinfo=UTC)
"""When a certificate ended that has expired."""
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """Who signs certificates."""

    name: str

    @cached_property
    def _key(self) -> EllipticCurvePrivateKey:
        return generate_private_key(SECP256R1())

    @cached_property
    def certificate(self) -> str:
        """Its own certificate, as PEM."""
        return self._signed(self.name, self._key, datetime.now(UTC) + _DAY, None)

    def signed(
        self, name: str, *, expired: bool = False, password: str = "", old_format: bool = False
    ) -> str:
        """Certificate and key, as PEM, of a host or a client.

        The key is encrypted where there is a password; the old format is one that Java does not
        read.
        """
        key = generate_private_key(SECP256R1())
        ends = ENDED if expired else datetime.now(UTC) + _DAY
        how = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        kind = PrivateFormat.TraditionalOpenSSL if old_format else PrivateFormat.PKCS8
        own = key.private_bytes(Encoding.PEM, kind, how).decode()
        return self._signed(name, key, ends, name) + own

    def _signed(
        self, name: str, key: EllipticCurvePrivateKey, ends: datetime, host: str | None
    ) -> str:
        of_authority = x509.BasicConstraints(ca=host is None, path_length=None)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(datetime.now(UTC), ends) - _DAY)
            .not_valid_after(ends)
            .add_extension(of_authority, critical=True)
        )
        if host is not None:
            names = x509.SubjectAlternativeName([x509.DNSName(host)])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM).decode()


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

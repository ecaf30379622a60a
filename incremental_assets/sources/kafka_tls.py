"""TLS to the brokers of Kafka: the files that it needs, and why a connection does not come about.

Its client reports alike that an authority is not known, that a certificate is of another host and
that it has expired. So what it could not verify is asked once more, with a connection of Python's.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from incremental_assets.errors import SourceError

SECONDS = 5.0
"""How long a broker may take to say who it is."""
_CERTIFICATE = re.compile(
    "-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.ASCII | re.DOTALL
)
_KEY = re.compile(r"-----BEGIN ((?:\w+ )?)PRIVATE KEY-----", re.ASCII)
_VERSION, _UTC_TIME = 0xA0, 0x17  # tags of a certificate's fields
_LONG, _LENGTH = 0x80, 0x7F  # of a length


def require_authorities(path: str, file: str) -> None:
    """Raise SourceError unless a file holds certificates of authorities."""
    try:
        _context().load_verify_locations(file)
    except OSError as error:  # so is ssl.SSLError
        found = "has no certificate" if isinstance(error, ssl.SSLError) else "cannot be read"
        raise SourceError(
            f"{path}: ca={file!r} {found} ({_reason(error)}). Nothing was loaded; expected a file "
            "(PEM) with the certificates of who signed the brokers', here and wherever Spark runs."
        ) from error


def require_key(path: str, file: str) -> None:
    """Raise SourceError unless a file holds a client's certificate and its key, for Java, too."""
    expected = (
        "expected a file (PEM) with the client's certificate, those between it and its authority, "
        "and its key, here and wherever Spark runs"
    )
    try:
        text = Path(file).read_text(encoding="ascii", errors="replace")
        key = _KEY.search(text)
        if key is None or not _CERTIFICATE.search(text):
            why = f"has no {'key' if key is None else 'certificate'}"
        elif key[1]:
            why = f"has a key that Java does not read ({key[0].strip('-')})"
            expected = (
                "convert it by `openssl pkcs8 -topk8 -nocrypt -in KEY -out NEW`: as PKCS#8, "
                "without a password"
            )
        else:
            _context().load_cert_chain(file, password="")
            return
    except OSError as error:  # so is ssl.SSLError
        fits = not isinstance(error, ssl.SSLError)
        what = "cannot be read" if fits else "has a certificate and a key that do not fit together"
        why = f"{what} ({_reason(error)})"
    raise SourceError(f"{path}: certificate={file!r} {why}. Nothing was loaded; {expected}.")


def why_not_verified(address: str, ca: str) -> ssl.SSLCertVerificationError | None:
    """Why the certificate of whoever listens at `host:port` is not accepted; None where it is."""
    context = _context()
    context.verify_mode, context.check_hostname = ssl.CERT_REQUIRED, True
    if ca:
        context.load_verify_locations(ca)
    else:
        context.load_default_certs()
    try:
        _shake_hands(_connected(address), address, context)
    except ssl.SSLCertVerificationError as error:
        return error
    except OSError:
        return None
    return None


def speaks_tls(address: str) -> bool | None:
    """Whether TLS is spoken at `host:port`; None where nobody listens."""
    try:
        connection = _connected(address)
    except OSError:
        return None
    try:
        _shake_hands(connection, address, _context())
    except ssl.SSLError as error:
        return "ALERT" in str(error.reason)  # only TLS has such
    except OSError:
        return False
    return True


def valid_until(file: str) -> str:
    """Until when the first certificate of a file is valid, in UTC; "" where that is not known."""
    try:
        (pem, *_) = _CERTIFICATE.findall(Path(file).read_text(encoding="ascii", errors="replace"))
        return f"{_ends(ssl.PEM_cert_to_DER_cert(pem)):%Y-%m-%d %H:%M UTC}"
    except (OSError, ValueError, LookupError, StopIteration):
        return ""


def _ends(certificate: bytes) -> datetime:
    """The end of its validity (RFC 5280, 4.1): that is the fourth field behind the version."""
    _, whole = next(_fields(certificate))
    _, signed = next(_fields(whole))
    fields = [content for tag, content in _fields(signed) if tag != _VERSION]
    _, (tag, text) = _fields(fields[3])
    year = "%y" if tag == _UTC_TIME else "%Y"
    return datetime.strptime(text.decode(), f"{year}%m%d%H%M%SZ")


def _fields(der: bytes) -> Iterator[tuple[int, bytes]]:
    """The tags and contents that follow one another in DER."""
    at = 0
    while at < len(der):
        tag, length = der[at], der[at + 1]
        at += 2
        if length & _LONG:
            size = length & _LENGTH
            length, at = int.from_bytes(der[at : at + size], "big"), at + size
        yield tag, der[at : at + length]
        at += length


def _context() -> ssl.SSLContext:
    """A client that verifies nothing yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), SECONDS)


def _shake_hands(connection: socket.socket, address: str, context: ssl.SSLContext) -> None:
    host = address.rpartition(":")[0].strip("[]")
    with connection, context.wrap_socket(connection, server_hostname=host):
        pass


def _reason(error: OSError) -> str:
    text = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return " ".join(str(text).split()).lower().replace("_", " ")

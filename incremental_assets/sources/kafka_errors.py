"""What the client of Kafka reports, as an error that names the remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from incremental_assets.errors import SourceError
from incremental_assets.sources.kafka_access import KafkaAccess
from incremental_assets.sources.kafka_tls import speaks_tls, valid_until, why_not_verified

_AT = re.compile(r"^\w+://(?P<at>[^/\s]+)/\S+: ")
_AFTER = re.compile(r" \(after \d+ms in state \w+\)")
_ALERT = " alert "  # of TLS: the broker does not accept the client's certificate, or misses it
_OF_NO_CERTIFICATE = re.compile(
    r" alert (protocol version|insufficient security|inappropriate fallback|unrecognized name"
    r"|no application protocol|internal error|decode error)"
)
_HOST, _EXPIRED, _NOT_YET = (62, 63, 64), 10, 9  # OpenSSL's X509_V_ERR_…
_AGAIN = "and run again"
_OF_JAVA = re.compile("S(sl|asl)AuthenticationException|SSL handshake failed|Failed to load PEM")


class ClientErrors:
    """What a client's connections failed of, as it reports that."""

    def __init__(self) -> None:
        self._found: list[Any] = []

    def add(self, error: Any) -> None:
        """Called by the client."""
        self._found.append(error)

    @property
    def final(self) -> Any | None:
        """An error that does not go away by waiting."""
        from confluent_kafka import KafkaError  # deferred: an extra

        final = (KafkaError._AUTHENTICATION, KafkaError._SSL)  # noqa: SLF001 - their public names
        return next((e for e in self._found if e.code() in final or _ALERT in e.str()), None)

    @property
    def last(self) -> Any | None:
        """The last error that names a cause: not only that no broker is left."""
        from confluent_kafka import KafkaError

        down = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001 - its public name
        why = [error for error in self._found if error.code() != down]
        return (why or self._found or [None])[-1]


def is_of_time(error: Any) -> bool:
    """Whether a KafkaException only reports that there was no answer, and not why."""
    from confluent_kafka import KafkaError

    late = (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)  # noqa: SLF001 - their public names
    return hasattr(error.args[0], "code") and error.args[0].code() in late


@contextmanager
def asking(path: str, access: KafkaAccess) -> Iterator[None]:
    """Inside, an error of the client is a SourceError with the topic, the cause and the remedy.

    Whatever a broker or its client reports is in it, and never a password.
    """
    if find_spec("confluent_kafka") is None:
        raise SourceError(
            f"{path}: the package confluent-kafka is not installed: pip install "
            "'incremental-assets[kafka]'."
        )
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        reason = error.args[0] if error.args else error
        code = reason.code() if hasattr(reason, "code") else None
        text = reason.str() if hasattr(reason, "str") else str(reason)
        raise SourceError(f"{path}: {_explained(access, code, text)}") from error


def _explained(access: KafkaAccess, code: int | None, text: str) -> str:
    from confluent_kafka import KafkaError

    text = " ".join(text.split())
    found = _AT.match(text)
    at = found["at"] if found else access.brokers.partition(",")[0]
    reason = _AFTER.sub("", text[found.end() :] if found else text)[:300]
    if code == KafkaError._AUTHENTICATION:  # noqa: SLF001 - its public name
        return _login(access, at, reason)
    if access.has_tls and _OF_NO_CERTIFICATE.search(text):
        return (
            f"the broker {at} ends TLS with this client ({reason}). Nothing was loaded; find out "
            "which versions and ciphers of TLS it takes, and what its log has on this client, "
            f"{_AGAIN}."
        )
    if access.has_tls and _ALERT in text:
        return _own_certificate(access, at, reason)
    if access.has_tls and code == KafkaError._SSL:  # noqa: SLF001 - its public name
        return _certificate(access, at, reason)
    silent = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)  # noqa: SLF001
    has_tls = speaks_tls(at) if code in silent else None
    if has_tls is not None and has_tls != access.has_tls:
        return _other_security(access, at, has_tls=has_tls)
    do = "put that right (the address, the user's rights, the topic's name)"
    if has_tls is not None and not access.has_login:
        right = f"SASL_{access.security}"
        do = f"find out whether it is well, and whether it asks for a user (security={right!r})"
    return f"the broker cannot be asked: {reason}. Nothing was loaded; {do}, {_AGAIN}."


def _login(access: KafkaAccess, at: str, reason: str) -> str:
    name = access.credentials
    return (
        f"the broker {at} does not let the user {access.user!r} in: {reason}. Nothing was loaded; "
        f"check {name}_USER and {name}_PASSWORD, and whether it is {access.mechanism} and "
        f"{access.security} that this port takes (mechanism=…, security=…), {_AGAIN}."
    )


def _certificate(access: KafkaAccess, at: str, reason: str) -> str:
    """Why the broker's certificate is not accepted."""
    error = why_not_verified(at, access.ca)
    code = None if error is None else error.verify_code
    why = reason if error is None else error.verify_message.rstrip(".")
    if code in _HOST:
        what = f"the certificate of the broker {at} is of another host ({why})"
        do = (
            "name the brokers as their certificates do, in brokers=… and in what they advertise, "
            "or have this name certified"
        )
    elif code in (_EXPIRED, _NOT_YET):
        what = f"the certificate of the broker {at} is not valid now ({why})"
        do = "have it renewed, or set this machine's clock"
    else:
        known = f"ca={access.ca!r}" if access.ca else "this machine"
        what = f"who signed the certificate of the broker {at} is not known to {known} ({why})"
        do = "give the file (PEM) with the certificate of its authority: ca=…"
    return f"{what}. Nothing was loaded; {do}, {_AGAIN}."


def _own_certificate(access: KafkaAccess, at: str, reason: str) -> str:
    """Why the broker does not accept the client's certificate."""
    if not access.certificate:
        return (
            f"the broker {at} asks for a client's certificate, and there is none ({reason}). "
            "Nothing was loaded; give the file (PEM) with one and its key: certificate=…, "
            f"{_AGAIN}."
        )
    until = valid_until(access.certificate)
    valid = f", valid until {until}," if until else ""
    return (
        f"the broker {at} does not accept certificate={access.certificate!r}{valid} of this client "
        f"({reason}). Nothing was loaded; renew it where it has expired, else have it signed by an "
        f"authority that the broker trusts, {_AGAIN}."
    )


def _other_security(access: KafkaAccess, at: str, *, has_tls: bool) -> str:
    if has_tls:
        right = "SASL_SSL" if access.has_login else "SSL"
        what, do = "speaks TLS at this port", f"set security={right!r}, or name another port"
    else:  # an ill broker is silent, too; and nobody is advised to send a password in the clear
        what = "does not answer in TLS at this port"
        do = "name its port with TLS, or find out whether it is well"
    return (
        f"the broker {at} {what}, and security is {access.security!r}. Nothing was loaded; {do}, "
        f"{_AGAIN}."
    )


def why_spark_is_refused(path: str, text: str) -> SourceError | None:
    """The error for what Java reports, where its client was not let in; None for anything else."""
    refused = _OF_JAVA.search(text)
    if refused is None:
        return None
    causes = re.findall(r"^(?:Caused by: )?[\w.]+(?:Exception|Error): .*$", text, re.MULTILINE)
    cause = [refused[0], *causes][-1].removeprefix("Caused by: ")[:300]
    return SourceError(
        f"{path}: Spark cannot reach the brokers, though this machine can: {cause}. Nothing was "
        "loaded; ca and certificate have to be on every machine where Spark runs, and without ca "
        "Java knows only the authorities of its own list (cacerts): give ca=…, and run again."
    )

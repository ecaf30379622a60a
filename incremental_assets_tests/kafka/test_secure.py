"""Topics over TLS: by a user's password, by a client's certificate, and why a broker refuses."""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets.sources.kafka import Kafka
from incremental_assets.sources.kafka_messages import TopicReading, read_messages
from incremental_assets_tests.databases.server import HOST, LOADER
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.kafka.broker import Broker
from incremental_assets_tests.kafka.certificates import Authority
from incremental_assets_tests.kafka.secure import MECHANISMS, NAME, PASSWORD
from incremental_assets_tests.kafka.world import BRONZE, DAYS, bronze_of, event, landed

ONLY_THE_TOPIC = {AclOperation.READ, AclOperation.DESCRIBE}
WRONG = "wr0ng"


class Files:
    """The certificates of a machine that reads."""

    def __init__(self, folder: Path, authority: Authority) -> None:
        other, certificate = Authority("other"), authority.signed("client")
        key = authority.signed("client").rpartition("-----END CERTIFICATE-----\n")[2]
        texts = {
            "ca": authority.certificate,
            "other_ca": other.certificate,
            "empty": "",
            "client": certificate,
            "expired": authority.signed("client", expired=True),
            "stranger": other.signed("client"),
            "encrypted": authority.signed("client", password="k3y"),
            "old": authority.signed("client", old_format=True),
            "mixed": certificate.partition("-----BEGIN PRIVATE")[0] + key,
        }
        self.of = {name: folder / f"{name}.pem" for name in texts}
        for name, text in texts.items():
            self.of[name].write_text(text)

    def __getitem__(self, name: str) -> str:
        return str(self.of.get(name, f"/nowhere/{name}.pem"))


@pytest.fixture
def files(tmp_path: Path, broker: Broker) -> Files:
    return Files(tmp_path, broker.authority)


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_USER", LOADER)
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)


def secure(broker: Broker, topic: str, files: Files, host: str = NAME, **options: str) -> Kafka:
    known = {"ca": files["ca"], "security": "SASL_SSL", "credentials": "SHOP"}
    return Kafka(f"{host}:{broker.secure_port}", topic, **known | options)  # type: ignore[arg-type]


def mutual(broker: Broker, topic: str, files: Files, certificate: str = "") -> Kafka:
    file = files[certificate] if certificate else ""
    where = f"{NAME}:{broker.mutual_port}"
    return Kafka(where, topic, security="SSL", ca=files["ca"], certificate=file)


def allow_only(broker: Broker, topic: str) -> None:
    """The loader may read and describe a topic, and has no right of any group."""
    user = f"User:{LOADER}"
    of_topic = [
        AclBinding(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            user,
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for operation in ONLY_THE_TOPIC
    ]
    of_groups = AclBinding(
        ResourceType.GROUP,
        "*",
        ResourcePatternType.LITERAL,
        user,
        "*",
        AclOperation.ALL,
        AclPermissionType.DENY,
    )
    for done in broker.admin.create_acls([*of_topic, of_groups]).values():
        done.result(30)


@pytest.mark.usefixtures("login")
def test_a_topic_is_looked_through_and_read_over_tls_with_few_rights_and_no_secret_is_told(
    lake: Lakes,
    broker: Broker,
    topic: str,
    files: Files,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.INFO)
    broker.create(f"{topic}.open")
    for name in (topic, f"{topic}.open"):
        broker.send(name, [event("a", "05 10"), event("b", "06 10")])
    allow_only(broker, topic)
    source = secure(broker, topic, files)
    shop = lake(bronze_of(source))
    with monkeypatch.context() as patched, pytest.raises(SourceError, match="SHOP_USER is not set"):
        patched.delenv("SHOP_USER")
        shop.load(DAYS)

    shop.load(DAYS)

    assert landed(shop) == [("05", "a"), ("06", "b")]
    open_port = f"{HOST}:{broker.login_port}"
    plain = replace(source, security="SASL_PLAINTEXT", mechanism="PLAIN", ca="")
    assert replace(plain, brokers=open_port).fix().height == 2
    others = [
        *(secure(broker, topic, files, mechanism=each) for each in MECHANISMS[1:]),
        mutual(broker, f"{topic}.open", files, "client"),
    ]
    for other in others:
        fixed = other.fix()
        with Frames.over(shop.spark) as frames:
            reading = TopicReading(other.access(), other.topic, {0: (0, 2)}, 2)
            assert read_messages(frames, reading).count() == fixed.height == 2
    out, err = capfd.readouterr()
    entries = list(shop.lakehouse.ledger.view().table(BRONZE).committed)
    logged = f"{caplog.text}{shop.logged}"
    shown = f"{out}{err}{logged}{entries}{source!r}{source.access()!r}"
    assert not re.search(r"cr\\+et", shown)
    assert "PRIVATE KEY" not in shown


# What Java says of a broker whose authority it does not know.
OF_JAVA = """An error occurred while calling o1.count.
: java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.SslAuthenticationException
\tat java.base/java.util.concurrent.CompletableFuture.reportGet(CompletableFuture.java:396)
Caused by: javax.net.ssl.SSLHandshakeException: PKIX path building failed: unable to find a path
\tat java.base/sun.security.ssl.Alert.createSSLException(Alert.java:131)
Caused by: sun.security.provider.certpath.SunCertPathBuilderException: unable to find a path
\t... 12 more"""


def test_where_only_spark_is_refused_the_error_says_so(broker: Broker, topic: str) -> None:
    fixed = Kafka(broker.url, topic).fix()

    found = fixed.explained(RuntimeError(OF_JAVA))

    assert fixed.explained(RuntimeError("Job aborted")) is None
    told = r"Spark cannot reach .*BuilderException: unable to find a path\. Nothing .*give ca="
    assert re.search(told, str(found))


REFUSED = {
    "wrong password": (
        {"password": WRONG},
        r"broker localhost:\d+ does not let the user 'loader' in: .*SCRAM-SHA-512.* SHOP_PASSWORD",
    ),
    "wrong password, PLAIN": (
        {"password": WRONG, "mechanism": "PLAIN"},
        "does not let the user 'loader' in: .*[Ii]nvalid username or password",
    ),
    "a mechanism that the port lacks": (
        {"port": "login", "security": "SASL_PLAINTEXT", "ca": ""},
        r"supported mechanisms: PLAIN\..*\(mechanism=…",
    ),
    "an authority that is another": (
        {"ca": "other_ca"},
        r"signed the certificate of the broker localhost:\d+ is not known to ca='.*other_ca.* ca=…",
    ),
    "no authority": ({"ca": ""}, r"is not known to this machine \(.*\).* ca=…"),
    "another host": (
        {"host": HOST},
        r"broker 127.0.0.1:\d+ is of another host \(IP address mismatch.* as their certificates do",
    ),
    "no certificate of the client": (
        {"port": "mutual", "security": "SSL"},
        r"broker localhost:\d+ asks for a client's certificate, and there is none.* certificate=…",
    ),
    "an expired certificate of the client": (
        {"port": "mutual", "security": "SSL", "certificate": "expired"},
        r"does not accept certificate='.*expired.pem', valid until 2017-01-10 12:00 UTC, .* renew",
    ),
    "a client's certificate that a stranger signed": (
        {"port": "mutual", "security": "SSL", "certificate": "stranger"},
        r"does not accept certificate='.*stranger.pem', valid until 2.* authority that the broker",
    ),
    "no TLS to a port with it": (
        {"port": "mutual", "security": "PLAINTEXT", "ca": ""},
        r"localhost:\d+ speaks TLS at this port, and security is 'PLAINTEXT'.*security='SSL'",
    ),
    "TLS to a port without": (
        {"port": "plain"},
        "does not answer in TLS at this port, and security is 'SASL_SSL'.*name its port with TLS",
    ),
    "no user where one is asked for": (
        {"security": "SSL"},
        r"cannot be asked: .*whether it asks for a user \(security='SASL_SSL'\)",
    ),
    "no file of authorities": ({"ca": "gone"}, "ca='/nowhere/gone.pem' cannot be read .*PEM"),
    "an empty file of authorities": ({"ca": "empty"}, "ca='.*empty.pem' has no certificate"),
    "no file of the client": ({"certificate": "gone"}, "certificate='/nowhere/gone.pem' cannot"),
    "no key": ({"certificate": "ca"}, "certificate='.*ca.pem' has no key.* and its key"),
    "another key": ({"certificate": "mixed"}, "do not fit together"),
    "an encrypted key": (
        {"certificate": "encrypted"},
        r"Java does not read \(BEGIN ENCRYPTED PRIVATE KEY\).*`openssl pkcs8 -topk8 -nocrypt",
    ),
    "a key as Java knows none": ({"certificate": "old"}, r"Java does not read \(BEGIN EC PRIV"),
}


@pytest.mark.usefixtures("login")
@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_who_is_refused_is_told_what_where_and_what_to_do(
    broker: Broker,
    files: Files,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    message: str,
) -> None:
    monkeypatch.setattr("incremental_assets.sources.kafka_access.SECONDS", 1.0)
    left = dict(options)
    port, host = left.pop("port", "secure"), left.pop("host", NAME)
    ports = {"login": broker.login_port, "mutual": broker.mutual_port, "plain": broker.port}
    if "password" in left:
        monkeypatch.setenv("SHOP_PASSWORD", left.pop("password"))
    named = {"ca": "ca"} | left
    named |= {name: files[named[name]] for name in ("ca", "certificate") if named.get(name)}
    where = f"{host}:{ports.get(port, broker.secure_port)}"
    source = Kafka(where, "shop", **{"security": "SASL_SSL", "credentials": "SHOP"} | named)  # type: ignore[arg-type]

    with pytest.raises(SourceError) as refused:
        source.fix()

    text = str(refused.value)
    assert re.search(message, text), text
    assert text.startswith(f"kafka://{where}/shop: ")
    assert text.count("Nothing was loaded; ") == 1
    assert not {WRONG, PASSWORD, "cr\\et", "PRIVATE KEY-"} & set(re.split(r"[\s'()]", text))


@pytest.mark.usefixtures("login")
def test_a_brokers_certificate_that_has_expired_is_named(
    broker: Broker, files: Files, tmp_path: Path
) -> None:
    own = tmp_path / "own.pem"
    own.write_text(broker.authority.signed(NAME, expired=True))

    with (
        _listening(own) as port,
        pytest.raises(SourceError, match=rf"broker {NAME}:{port} is not valid now \(cert.*expired"),
    ):
        Kafka(f"{NAME}:{port}", "shop", security="SSL", ca=files["ca"]).fix()


def test_a_broker_of_another_tls_is_not_taken_for_one_that_asks_for_a_certificate() -> None:
    fatal_protocol_version = b"\x15\x03\x03\x00\x02\x02\x46"

    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(fatal_protocol_version)

    with (
        _answering(answer) as port,
        pytest.raises(SourceError, match=rf"{HOST}:{port} ends TLS .*version.*which versions"),
    ):
        Kafka(f"{HOST}:{port}", "shop", security="SSL").fix()


@contextmanager
def _listening(certificate: Path) -> Iterator[int]:
    """Whoever says by TLS who it is, and no more."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answer(connection: socket.socket) -> None:
        context.wrap_socket(connection, server_side=True).close()

    with _answering(answer) as port:
        yield port


@contextmanager
def _answering(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Whoever answers each connection in this way, at a port of this machine."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with suppress(OSError), connection:
                        answer(connection)

        Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)

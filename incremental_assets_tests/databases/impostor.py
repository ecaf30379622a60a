"""Somebody in the place of a MariaDB server, who is after the password of its clients."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from incremental_assets_tests.databases.mariadb import Database
from incremental_assets_tests.databases.server import HOST

_TLS = 0x08  # in the higher byte of a server's first capabilities
_SALT = b"01234567890123456789"


@dataclass
class Impostor:
    """It greets as the server does, offers no TLS, and then asks for another way to log in."""

    of: Database
    plugin: str
    port: int
    told: bytes = b""

    @property
    def url(self) -> str:
        return f"jdbc:mariadb://{HOST}:{self.port}/{self.of.name}"

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:  # closed
                return
            with client, suppress(OSError):  # the client has gone
                self._ask(client)

    def _ask(self, client: socket.socket) -> None:
        client.settimeout(5)
        with closing(socket.create_connection((HOST, self.of.port))) as server:
            greeting = bytearray(server.recv(4096))
        # Its header, the protocol, the version, the number of the thread, salt, a zero.
        at = greeting.index(0, 5) + 1 + 4 + 8 + 1
        greeting[at + 1] &= ~_TLS
        client.sendall(greeting)
        login = client.recv(4096)
        if not login:
            return
        self.told += login
        asked = b"\xfe" + self.plugin.encode() + b"\0" + _SALT + b"\0"
        client.sendall(len(asked).to_bytes(3, "little") + bytes([login[3] + 1]) + asked)
        while answer := client.recv(4096):
            self.told += answer


@contextmanager
def impostor(of: Database, plugin: str) -> Iterator[Impostor]:
    """In the place of the server of a database; with `plugin` it asks for the password."""
    with closing(socket.create_server((HOST, 0))) as listener:
        found = Impostor(of, plugin, listener.getsockname()[1])
        thread = threading.Thread(target=found.serve, args=(listener,), daemon=True)
        thread.start()
        yield found
        listener.shutdown(socket.SHUT_RDWR)  # ends its wait for a client
    thread.join(10)

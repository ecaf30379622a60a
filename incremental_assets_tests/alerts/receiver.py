"""A real HTTP server that takes what is posted to it, or does not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "T0K3N-of-the-webhook"


class Receiver:
    """What was posted and taken. `answer` is the status of every answer; 0 gives none."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/hook/{TOKEN}"
        self.answer = 200
        self.elsewhere = ""
        self.taken: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.released = threading.Event()


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A server on a free port of this machine until the block is left."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            here.asked.append(f"{self.command} {self.path} {self.headers['Content-Type']}")
            if not here.answer:
                here.released.wait(30)
                return
            if here.answer == 200:
                here.taken.append(json.loads(body))
            self.send_response(here.answer)
            if here.elsewhere:
                self.send_header("Location", here.elsewhere)
            self.end_headers()

        def do_GET(self) -> None:
            here.asked.append(f"{self.command} {self.path}")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = Receiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield here
    finally:
        here.released.set()
        server.shutdown()
        thread.join()
        server.server_close()

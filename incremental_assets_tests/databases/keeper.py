"""Run a server until its starter asks for its end, or ends itself in whatever way.

The starter holds a pipe to the standard input of this process: a line in it stops the server. The
pipe ends without a line when the starter was killed; then the server's folder is removed, too.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import threading
from typing import Any


def account() -> dict[str, Any]:
    """For `subprocess`: root starts a server as the user nobody, others start it as they are."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def keep(stop_signal: int, folder: str, command: list[str]) -> int:
    """Run the command in the folder; its exit status."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=folder, **account())
    orphaned = threading.Event()

    def wait_for_starter() -> None:
        if not os.read(sys.stdin.fileno(), 1):
            orphaned.set()
        server.send_signal(stop_signal)

    threading.Thread(target=wait_for_starter, daemon=True).start()
    status = server.wait()
    if orphaned.is_set():
        shutil.rmtree(folder)
    return status


if __name__ == "__main__":
    sys.exit(keep(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))

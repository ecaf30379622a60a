"""Print where the UI's assets are, once it answers: below what Dagster prints while it starts.

    python scripts/say_where.py PORT &

Ends with the process that started it.
"""

import os
import sys
import time
import urllib.error
import urllib.request

SECONDS = 300


def main() -> None:
    root = f"http://127.0.0.1:{sys.argv[1]}"
    started_by, deadline = os.getppid(), time.monotonic() + SECONDS
    while os.getppid() == started_by and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{root}/server_info", timeout=5):
                break
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    else:
        return
    time.sleep(1)  # Dagster's own line, of a page that shows no asset, comes at the same moment
    if os.getppid() != started_by:  # it found the port taken
        return
    sys.stdout.write(
        f"\nThe assets are at {root}/assets, their graph is at {root}/asset-groups. "
        "Ctrl-C stops the UI.\n\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""The command line's way in: `incremental-assets …`, or `python -m incremental_assets …`."""

from __future__ import annotations

import io
import signal
import sys

from incremental_assets.errors import INTERRUPTED, STOPPED


def start() -> None:
    """Run the command line. Stopped while it is still being imported, it ends as it does later."""
    try:
        from incremental_assets.cli import main
        from incremental_assets.cli.interrupts import end_quietly
    except KeyboardInterrupt:
        sys.stderr.write(f"\n{STOPPED}\n")
        sys.exit(INTERRUPTED)
    if isinstance(sys.stdout, io.TextIOWrapper):  # an encoding may lack a sign, such as `…`
        sys.stdout.reconfigure(errors="replace")
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a script may ignore it
        end_quietly()
    main()


if __name__ == "__main__":
    start()

"""Load a day twice over a Spark Connect server, each time on a fresh lake.

    incremental-assets connect python -m benchmarks.warm_day FOLDER LANDING

Run by `benchmarks.quick`. The first load makes the server warm; of the second the wall and the
processor seconds of the client are printed, as JSON in the last line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from benchmarks.process import run
from benchmarks.quick import DAY, SCRIPT_TABLES, Bench, materialize_command, selected

SERVER = ("SPARK_REMOTE", "SPARK_CONNECT_AUTHENTICATE_TOKEN")


def main() -> None:
    folder, landing = (Path(word) for word in sys.argv[1:])
    folder.mkdir()
    bench = Bench(folder, landing)
    command = materialize_command(selected(SCRIPT_TABLES), "--partition", DAY)
    for _ in ("to be warm", "to be measured"):
        over_connect = {name: os.environ[name] for name in SERVER}
        done = run(command, bench.fresh() | over_connect, folder)
    print(json.dumps({"wall": done.wall, "cpu": done.cpu}))


if __name__ == "__main__":
    main()

"""Running the pipeline: its project folder, and `spark-pipelines run` as a whole process."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pyspark

from benchmarks.process import Run
from benchmarks.quick import Bench, environment
from incremental_assets.settings import PROJECT_ROOT, Settings

NAME = "Spark Declarative Pipelines"
TRANSFORMATIONS = Path(__file__).with_name("transformations")
SPARK_HOME = Path(pyspark.__file__).parent

# As `benchmarks.careful_script` sets Spark, and with one of the project's settings for Delta.
# The format is a default: with a `format` of its own the second update of a table fails with
# DELTA_CANNOT_CHANGE_PROVIDER. The catalog is Hive's, because Spark's own one lasts no longer than
# its process, and the next update must find the tables.
_DEFAULTS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.sources.default": "delta",
    "spark.sql.catalogImplementation": "hive",
}


@dataclass(frozen=True)
class Pipeline:
    """The pipeline with tables, catalog and checkpoints of its own, all of them below `folder`."""

    bench: Bench
    folder: Path
    name = NAME

    @classmethod
    def fresh(cls, bench: Bench) -> Pipeline:
        folder = bench.root / f"pipeline{len(list(bench.root.glob('pipeline*')))}"
        shutil.copytree(TRANSFORMATIONS, folder / "transformations")
        made = cls(bench, folder)
        made._configure()
        return made

    @property
    def silver(self) -> Path:
        return self.folder / "warehouse" / "silver_sales"

    @property
    def mart(self) -> Path:
        return self.folder / "warehouse" / "sales_mart"

    def update(self, what: str, *options: str) -> Run:
        """One update of the pipeline. Raises CommandError if it fails."""
        env = environment() | {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(PROJECT_ROOT),
        }
        command: list[str | Path] = [SPARK_HOME / "bin" / "spark-pipelines"]
        command += ["--remote", "local[*]", "run", "--spec", self.folder / "spark-pipeline.yml"]
        return self.bench.measure(f"{NAME}, {what}", [*command, *options], env)

    def rebuilt(self, what: str) -> tuple[Pipeline, Run]:
        """Another one, with all that landed in one full refresh."""
        other = Pipeline.fresh(self.bench)
        return other, other.update(f"{what}, from scratch", "--full-refresh-all")

    def remedy(self, what: str) -> Run:
        """Read all files again, and make silver and gold of them."""
        read_again = ("--full-refresh", "bronze_events", "--refresh", "silver_sales,sales_mart")
        return self.update(what, *read_again)

    def _configure(self) -> None:
        jars = sorted((Settings.from_environment().cache / "jars").glob("*.jar"))
        metastore = f"jdbc:derby:;databaseName={self.folder / 'metastore'};create=true"
        conf = _DEFAULTS | {
            "spark.driver.extraClassPath": ":".join(map(str, jars)),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.hadoop.javax.jdo.option.ConnectionURL": metastore,
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={self.folder}",
        }
        (self.folder / "conf").mkdir()
        lines = "".join(f"{name} {value}\n" for name, value in conf.items())
        (self.folder / "conf" / "spark-defaults.conf").write_text(lines)
        spec = {
            "name": "retail",
            "storage": (self.folder / "storage").as_uri(),
            "configuration": {"benchmark.landing": str(self.bench.landing)},
            "libraries": [{"glob": {"include": "transformations/**"}}],
        }
        # JSON is YAML.
        (self.folder / "spark-pipeline.yml").write_text(json.dumps(spec, indent=2))

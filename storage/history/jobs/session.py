"""A Spark session as the jobs need it: quiet, in UTC, its memory bounded; one line if there is no Java."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN: Final = 17
"""The oldest Java that Spark 4 runs on."""
MASTER: Final = "local[*]"
MEMORY: Final = "2g"
"""Memory of the driver; and of DuckDB in all tasks of one process together."""
PARTITIONS: Final = 8
"""Partitions of a shuffle, at most: adaptive execution joins small ones and splits what is skewed."""
LITTLE_BYTES: Final = 256 * 1024 * 1024
"""A history of fewer bytes is little: some 20 million events, read and done before the JVM's second
compiler has earned its keep."""
FAST_START: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Options of the JVM for a little history. With one compiler the JVM takes 48 MB for what it compiles:
Spark fills them before the last table, and the rest would be interpreted. 240 MB is what it takes with
two."""
HOT_ONLY: Final = " ".join(
    f"-XX:Tier4{name}={value}"
    for name, value in {
        "InvocationThreshold": 50_000,
        "MinInvocationThreshold": 6_000,
        "CompileThreshold": 150_000,
        "BackEdgeThreshold": 400_000,
    }.items()
)
"""Ten times the JVM's: most of a session's code runs too seldom to be worth its second compiler; what is hot
for long still gets it. Spark makes one method of a stage, and one over many columns is so long that the JVM
would only interpret it, unless told (-DontCompileHugeMethods)."""
JAVA_TIMEOUT_S: Final = 30
CONNECTORS: Final = {"s3": "hadoop-aws", "s3a": "hadoop-aws", "abfs": "hadoop-azure"}
"""Hadoop's connector for a URL, by what the URL begins with."""


class SparkMissing(Exception):
    """Spark cannot run here, or not on that folder; says what to install."""


@contextmanager
def session(
    master: str = MASTER, memory: str = MEMORY, *, size_bytes: int = 0, progress: bool = False
) -> Iterator[SparkSession]:
    """Start Spark for the time of the context. `size_bytes` is the size of the segments there are; with
    `progress` a bar on standard error shows what takes long. Raises SparkMissing."""
    require_spark()
    from pyspark.sql import SparkSession

    compiler = FAST_START if size_bytes < LITTLE_BYTES else HOT_ONLY
    log4j = Path(__file__).with_name("log4j2.properties")
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1" if master.startswith("local") else "0.0.0.0",  # noqa: S104
        # Few cores: a collector that stops and is done costs less than one that works beside.
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j.as_uri()} -Duser.timezone=UTC"
        f" -XX:+UseParallelGC -XX:-DontCompileHugeMethods {compiler}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": str(progress).lower(),
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        # What is kept is read a few times only: finding out how to pack it costs more than it saves.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        "spark.sql.files.openCostInBytes": "1000000",
        # Paths come from `look`: finding them again with a Spark job of its own is dear.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
        # What is written is moved into its place as a whole afterwards (`Store`).
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",  # fsspec's name of it
    }
    if master.startswith("local"):
        settings["spark.driver.host"] = "127.0.0.1"
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need what is installed beside us
    builder = SparkSession.builder.master(master).appName("groupd history")
    for name, value in settings.items():
        builder = builder.config(name, value)
    logging.getLogger("SQLQueryContextLogger").disabled = True  # tells the JVM's story of every refused query
    with _quiet_start():
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def require_spark() -> None:
    """Check that PySpark is installed, and a Java that it runs on. Raises SparkMissing."""
    require_java()
    if importlib.util.find_spec("pyspark") is None:
        raise SparkMissing("PySpark is not installed: pip install 'groupd[spark]'")


def require_java() -> None:
    """Check that there is a Java that Spark runs on. Raises SparkMissing."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    install = (
        f"install a JDK or JRE {JAVA_MIN} or later (Debian: apt install openjdk-{JAVA_MIN}-jre-headless)"
    )
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME={home} has none" if home else "there is none"
        raise SparkMissing(f"Spark needs Java, and {where}: {install}")
    told = subprocess.run(
        [java, "-version"], capture_output=True, text=True, check=False, timeout=JAVA_TIMEOUT_S
    ).stderr
    found = re.search(r'version "(\d+)', told)
    if found is None or int(found[1]) < JAVA_MIN:
        version = "of an unknown version" if found is None else found[1]
        raise SparkMissing(f"Spark needs Java {JAVA_MIN}, and {java} is {version}: {install}")


def require_connector(spark: SparkSession, url: str) -> None:
    """Check that Spark, too, can read the place that fsspec can read. Raises SparkMissing."""
    from py4j.protocol import Py4JJavaError

    hadoop: Any = spark.sparkContext._jvm.org.apache.hadoop
    try:
        hadoop.fs.Path(url).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    except Py4JJavaError as error:
        scheme = url.partition("://")[0]
        connector = (
            f"org.apache.hadoop:{CONNECTORS.get(scheme, '...')}:{hadoop.util.VersionInfo.getVersion()}"
        )
        raise SparkMissing(
            f"Spark has no way to {scheme}:// ({error.java_exception.getMessage()}); have it load one:"
            f" PYSPARK_SUBMIT_ARGS='--packages {connector} pyspark-shell'"
        ) from None


@contextmanager
def _quiet_start() -> Iterator[None]:
    """The launcher's own words go nowhere; errors come as exceptions."""
    with open(os.devnull, "wb") as nowhere, contextlib.ExitStack() as undo:
        kept = os.dup(2)
        undo.callback(os.close, kept)
        os.dup2(nowhere.fileno(), 2)
        undo.callback(os.dup2, kept, 2)
        yield

"""How the programs of real clients are started."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.peers.jars import jars_of

JAVA: Final = Path(__file__).with_name("java")
JVM_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")
"""The JVM's flags with which it starts fastest: many short-lived JVMs run on few cores."""
CLIENTS: Final = ("Java", "confluent-kafka")


class CannotRunError(Exception):
    """A client cannot run here; the text says why."""


def command_of(client: str, kafka_home: Path | None, classes: Path) -> list[str]:
    """The command line of one of CLIENTS, without topics and settings. `classes`: an empty directory, for
    what has to be compiled. Raises CannotRunError."""
    if client == "confluent-kafka":
        return [sys.executable, "-W", "ignore", "-m", "bench.clients.confluent"]
    jars, javac, java = jars_of(kafka_home), shutil.which("javac"), shutil.which("java")
    if jars is None:
        raise CannotRunError("Java: no jars of Kafka (--kafka-home or KAFKA_HOME)")
    if javac is None or java is None:
        raise CannotRunError("Java: no JDK")
    compile_it = [javac, "-d", str(classes), "-cp", f"{jars}/*", str(JAVA / "Member.java")]
    compiling = subprocess.run(compile_it, capture_output=True, text=True, check=False)
    if compiling.returncode:
        raise CannotRunError(f"javac: {compiling.stderr.strip()[-400:]}")
    logging = f"-Dlog4j2.configurationFile={JAVA / 'log4j2.properties'}"
    return [java, *JVM_FLAGS, logging, "-cp", f"{classes}:{jars}/*", "groupd.Member"]

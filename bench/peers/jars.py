"""Finds Kafka's jars: those of a distribution on this machine, or those of Maven Central, fetched once into a
cache."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from bench.ground.reference import KAFKA_VERSION

LOG4J_VERSION: Final = "2.24.3"
FETCH_TIMEOUT_S: Final = 600


def _pom(version: str) -> str:
    """Return the project whose dependencies are Kafka's jars."""
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>groupd.bench</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId>
      <version>{LOG4J_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>{LOG4J_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def cache() -> Path:
    """Where this command keeps what it fetched and built."""
    return Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "groupd-bench"


def jars_of(home: Path | None) -> Path | None:
    """The directory with Kafka's jars: `home` itself or its `libs`; without a home, where `fetch` has put
    them."""
    places = [_fetched()] if home is None else [home / "libs", home]
    return next((place for place in places if any(place.glob("kafka_2.*.jar"))), None)


def why_missing(home: Path | None) -> str:
    """Why there are no jars of Kafka; "" if there are. Without a home Maven fetches them."""
    try:
        if home is None:
            fetch()
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if jars_of(home) else f"no jars of Kafka ({home})"


def fetch(version: str = KAFKA_VERSION) -> Path:
    """Fetch the jars of a version, unless they are there, and return their directory. Raises RuntimeError
    without Maven, or with its last words."""
    fetched = _fetched(version)
    if jars_of(fetched) is not None:
        return fetched
    if shutil.which("mvn") is None:
        raise RuntimeError("no jars of Kafka: give --kafka-home or KAFKA_HOME, or install Maven")
    beside = fetched.with_name(f"{fetched.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    (beside / "pom.xml").write_text(_pom(version))
    goal = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={beside}")
    maven = ["mvn", "-q", "-B", "-f", str(beside / "pom.xml"), *goal]
    done = subprocess.run(maven, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines() or ["no word from it"]
        raise RuntimeError(f"no jars of Kafka: {said[0]}")
    beside.rename(fetched)
    return fetched


def _fetched(version: str = KAFKA_VERSION) -> Path:
    return cache() / f"kafka-{version}"

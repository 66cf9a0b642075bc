"""Where Kafka's jars and our Java programs come from: Maven, once, into a cache; and how a JVM is started."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from bench.clients.programs import JAVA, JVM_FLAGS
from bench.ground.reference import KAFKA_TOOLS_VERSION, KAFKA_VERSION

PROJECT = Path(__file__).parent / "java"
TOOLS_PROJECT = Path(__file__).parent / "java_tools"
CACHE = Path(os.environ.get("GROUPD_TEST_CACHE", Path.home() / ".cache" / "groupd-tests"))
BUILD_TIMEOUT_S = 600
"""How long a build may take: the first one fetches a hundred jars."""


def missing() -> str | None:
    """Why no JVM can be used here; None when one can."""
    absent = [command for command in ("java", "mvn") if shutil.which(command) is None]
    return (
        f"{' and '.join(absent)} not found: these tests run Kafka's own clients and tools" if absent else None
    )


def build() -> Path:
    """Fetch and compile unless the cache has it; returns the directory, with the reference's jars in `libs`.
    RuntimeError: Maven's words."""
    return _built(PROJECT, KAFKA_VERSION)


def build_tools() -> Path:
    """The same of Kafka's command line tools, with the jars of their version."""
    return _built(TOOLS_PROJECT, KAFKA_TOOLS_VERSION)


def _built(project: Path, version: str) -> Path:
    sources = sorted(path for place in (project, JAVA) for path in place.rglob("*") if path.is_file())
    contents = b"".join(path.read_bytes() for path in sources)
    digest = hashlib.sha256(version.encode() + contents).hexdigest()[:16]
    directory = CACHE / f"{project.name}-{version}-{digest}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "complete").exists():
            _run_maven(project, version, directory)
            (directory / "complete").touch()
    return directory


def command(directory: Path, main_class: str, *arguments: str) -> list[str]:
    """The command line that runs `main_class` with everything that was built into `directory`."""
    classpath = f"{directory / 'classes'}:{directory / 'libs'}/*"
    return ["java", *JVM_FLAGS, "-cp", classpath, main_class, *arguments]


def _run_maven(source: Path, version: str, directory: Path) -> None:
    project = directory / "project"
    shutil.copytree(source, project, dirs_exist_ok=True)
    for name, place in (("Member.java", "java/groupd"), ("log4j2.properties", "resources")):
        (project / "src" / "main" / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(JAVA / name, project / "src" / "main" / place)
    goals = ("dependency:copy-dependencies", "compile")
    places = (f"-Dbuild.dir={directory}", f"-DoutputDirectory={directory / 'libs'}", "-DincludeScope=runtime")
    given = (f"-Dkafka.version={version}", *places)
    maven = ["mvn", "-q", "-B", "-f", str(project / "pom.xml"), *given, *goals]
    done = subprocess.run(maven, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(maven)}\n{done.stdout}\n{done.stderr}")

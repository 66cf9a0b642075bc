"""Where Kafka's jars and our Java programs come from: Maven, once, into a cache; and how a JVM is started."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.clients.programs import JAVA, JVM_FLAGS
from bench.ground.reference import KAFKA_TOOLS_VERSION, KAFKA_VERSION

PROJECT = Path(__file__).parent / "java"
TOOLS_PROJECT = Path(__file__).parent / "java_tools"
CACHE_VARIABLE = "KAFKA_JARS_DIR"
"""The variable of the environment that names another cache. Those that begin with GROUPD_ are settings."""
CACHE = Path(os.environ.get(CACHE_VARIABLE, Path.home() / ".cache" / "groupd-tests"))
GOALS = ("dependency:copy-dependencies", "compile")
BUILD_TIMEOUT_S = 600
"""How long a build may take: the first one fetches a hundred jars."""


def missing() -> str | None:
    """Why no JVM can be used here; None when one can."""
    absent = [command for command in ("java", "mvn") if shutil.which(command) is None]
    return (
        f"{' and '.join(absent)} not found: these tests run Kafka's own clients and tools" if absent else None
    )


def build(
    project: Path = PROJECT, *, kafka_version: str | None = KAFKA_VERSION, goals: Sequence[str] = GOALS
) -> Path:
    """Fetch and compile a Maven project unless the cache has it; returns the directory, with jars of that
    version (None: of the project's own) in `libs`. RuntimeError: Maven's words."""
    asked = (*(() if kafka_version is None else (f"-Dkafka.version={kafka_version}",)), *goals)
    sources = sorted(path for place in (project, JAVA) for path in place.rglob("*") if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    digest.update(" ".join(asked).encode())
    directory = CACHE / f"{_name(project)}-{kafka_version or 'own'}-{digest.hexdigest()[:16]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "complete").exists():
            _run_maven(project, directory, asked)
            (directory / "complete").touch()
    return directory


def command(directory: Path, main_class: str, *arguments: str) -> list[str]:
    """The command line that runs `main_class` with everything that was built into `directory`."""
    classpath = f"{directory / 'classes'}:{directory / 'libs'}/*"
    return ["java", *JVM_FLAGS, "-cp", classpath, main_class, *arguments]


def build_tools() -> Path:
    """Build Kafka's command line tools, with the jars of their version."""
    return build(TOOLS_PROJECT, kafka_version=KAFKA_TOOLS_VERSION)


def _name(project: Path) -> str:
    """What the cache calls a project: the folder that has a project in Java, or its own name."""
    return project.parent.name if project.name == "java" else project.name


def _run_maven(project: Path, directory: Path, asked: Sequence[str]) -> None:
    copy = directory / "project"
    shutil.copytree(project, copy, dirs_exist_ok=True)
    for name, place in (("Member.java", "java/groupd"), ("log4j2.properties", "resources")):
        (copy / "src" / "main" / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(JAVA / name, copy / "src" / "main" / place)
    places = (f"-Dbuild.dir={directory}", f"-DoutputDirectory={directory / 'libs'}", "-DincludeScope=runtime")
    maven = ["mvn", "-q", "-B", "-f", str(copy / "pom.xml"), *places, *asked]
    done = subprocess.run(maven, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(maven)}\n{done.stdout}\n{done.stderr}")

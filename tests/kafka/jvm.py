"""Where Kafka's jars and our Java programs come from: Maven, once, into a cache; and how a JVM is started."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from bench.clients.programs import JAVA, JVM_FLAGS

PROJECT = Path(__file__).parent / "java"
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
    """Fetch and compile unless the cache has it; returns the directory. RuntimeError: Maven's words."""
    sources = sorted(path for place in (PROJECT, JAVA) for path in place.rglob("*") if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    directory = CACHE / f"kafka-{digest}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "complete").exists():
            _run_maven(directory)
            (directory / "complete").touch()
    return directory


def command(directory: Path, main_class: str, *arguments: str) -> list[str]:
    """The command line that runs `main_class` with everything that was built into `directory`."""
    classpath = f"{directory / 'classes'}:{directory / 'libs'}/*"
    return ["java", *JVM_FLAGS, "-cp", classpath, main_class, *arguments]


def _run_maven(directory: Path) -> None:
    project = directory / "project"
    shutil.copytree(PROJECT, project, dirs_exist_ok=True)
    for name, place in (("Member.java", "java/groupd"), ("log4j2.properties", "resources")):
        (project / "src" / "main" / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(JAVA / name, project / "src" / "main" / place)
    goals = ("dependency:copy-dependencies", "compile")
    places = (f"-Dbuild.dir={directory}", f"-DoutputDirectory={directory / 'libs'}", "-DincludeScope=runtime")
    maven = ["mvn", "-q", "-B", "-f", str(project / "pom.xml"), *places, *goals]
    done = subprocess.run(maven, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(maven)}\n{done.stdout}\n{done.stderr}")

"""How the programs of a client's version are made: each version apart from all others, once, in the cache.

Python's clients have a virtual environment each, Go's a module file that pins their versions, Java's a
directory of jars, JavaScript's a directory of packages. What is fetched comes from the language's registry,
by name.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from bench.clients.programs import JVM_FLAGS
from tests.kafka import jvm

MEMBERS = Path(__file__).parent / "members"
JAVA_NEWEST = "4.4.0"
"""The version that the Java programs are compiled with; they run with older ones too."""
BUILD_TIMEOUT_S = 900


@cache
def python_with(*requirements: str) -> str:
    """The interpreter of a virtual environment that has these packages."""
    digest = hashlib.sha256("\n".join((sys.version, *requirements)).encode())
    name = re.sub(r"(\[.*])?==", "-", requirements[0])

    def make(directory: Path) -> None:
        _run([sys.executable, "-m", "venv", str(directory)], directory)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        _run([str(directory / "bin" / "python"), *install], directory)

    return str(_once(f"{name}-{digest.hexdigest()[:16]}", make) / "bin" / "python")


@cache
def go_program(source: str, module_file: str) -> str:
    """The program of a folder of members in Go, with the versions of a module file in it."""

    def make(directory: Path) -> None:
        shutil.copytree(MEMBERS / source, directory, dirs_exist_ok=True)
        _run(["go", "build", f"-modfile={module_file}", "-o", "member", "."], directory)

    return str(_once(f"{source}-{module_file}-{_digest(source)}", make) / "member")


@cache
def node_programs() -> Path:
    """The folder of kafkajs' programs, with its packages."""

    def make(directory: Path) -> None:
        shutil.copytree(MEMBERS / "kafkajs", directory, dirs_exist_ok=True)
        _run(["npm", "install", "--no-audit", "--no-fund"], directory)

    return _once(f"kafkajs-{_digest('kafkajs')}", make)


@cache
def java_with(version: str, main: str) -> list[str]:
    """The command of a Java program, run with this version of the client."""
    newest = jvm.build(MEMBERS / "java", kafka_version=JAVA_NEWEST)
    libraries = newest
    if version != JAVA_NEWEST:
        libraries = jvm.build(MEMBERS / "java", kafka_version=version, goals=jvm.GOALS[:1])
    classpath = f"{newest / 'classes'}:{libraries / 'libs'}/*"
    return ["java", *JVM_FLAGS, "-cp", classpath, f"groupd.{main}"]


def _once(name: str, make: Callable[[Path], None]) -> Path:
    """A directory of the cache that `make` has filled, now or before. RuntimeError: a command's words."""
    directory = jvm.CACHE / name
    jvm.CACHE.mkdir(parents=True, exist_ok=True)
    with (jvm.CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "complete").exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            make(directory)
            (directory / "complete").touch()
    return directory


def _digest(source: str) -> str:
    files = sorted(path for path in (MEMBERS / source).iterdir() if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _run(command: Sequence[str], directory: Path) -> None:
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")

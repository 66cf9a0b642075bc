"""Kafka's assignors in a JVM of their own: `KafkaAssignors.java`, compiled here against Kafka's jars."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Final

from bench.kernels.ours import Sample
from bench.kernels.shapes import Shape
from bench.peers.jars import jars_of, why_missing

SOURCE: Final = Path(__file__).with_name("KafkaAssignors.java")
HEAP: Final = "-Xmx3g"
WARM_MEMBERS, WARM_TOPICS, WARM_RATIO = 1_000, 100, 10


class JavaError(Exception):
    """Kafka's side cannot run, or broke off; the text says why."""


def missing(home: Path | None) -> str | None:
    """Why Kafka's side cannot run here, None if it can."""
    absent = [program for program in ("javac", "java") if shutil.which(program) is None]
    if absent:
        return f"no {' and no '.join(absent)} (a JDK)"
    if reason := why_missing(home):
        return reason
    jars = jars_of(home)
    if jars is None or not any(jars.glob("kafka-group-coordinator-4*.jar")):
        return "no jars of Kafka 4 (--kafka-home or KAFKA_HOME)"
    return None


def software(home: Path | None) -> dict[str, str]:
    jars = jars_of(home)
    assert jars is not None
    command = [_program("java"), "-version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return {"jar": next(jars.glob("kafka-group-coordinator-4*.jar")).name, "java": said.splitlines()[0]}


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found is not None, name
    return found


class KafkaAssignors:
    """The JVM with Kafka's assignors, while the context is entered. Raises JavaError."""

    def __init__(self, home: Path | None, warm_s: float) -> None:
        self._jars = jars_of(home)
        self._warm_s = warm_s
        self._classes = tempfile.TemporaryDirectory(prefix="groupd-kernels-")
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> KafkaAssignors:
        classes, jars = self._classes.name, f"{self._jars}/*"
        compile_it = [_program("javac"), "-d", classes, "-cp", jars, str(SOURCE)]
        compiling = subprocess.run(compile_it, capture_output=True, text=True, check=False)
        if compiling.returncode:
            self._classes.cleanup()
            raise JavaError(f"javac: {compiling.stderr.strip()[-400:]}")
        command = [_program("java"), HEAP, "-cp", f"{classes}:{jars}", SOURCE.stem]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._warm()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._classes.cleanup()

    def _warm(self) -> None:
        """Assign until the JIT compiler has seen every assignor, full and incremental, at a middle size."""
        kinds = list(product(("uniform", "range"), (False, True), (False, True)))
        for assignor, heterogeneous, incremental in kinds:
            self.take(
                Shape(
                    assignor, WARM_MEMBERS, WARM_TOPICS, WARM_RATIO, heterogeneous, incremental, racks=False
                )
            )
            self.run(self._warm_s / len(kinds))

    def take(self, shape: Shape) -> None:
        flags = [str(int(flag)) for flag in (shape.heterogeneous, shape.incremental, shape.racks)]
        words = [shape.assignor, shape.members, shape.topics, shape.topic_partitions, *flags]
        answer = self._ask(f"shape {' '.join(map(str, words))}")
        if answer != ["ready", str(shape.partitions)]:
            raise JavaError(f"{shape}: Kafka assigned {' '.join(answer)} of {shape.partitions} partitions")

    def run(self, seconds: float) -> Sample:
        word, cpu_ns, wall_ns, assignments = self._ask(f"run {seconds}")
        assert word == "sample"
        return Sample(int(cpu_ns) / 1e6, int(wall_ns) / 1e6, int(assignments))

    def _ask(self, line: str) -> list[str]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            raise JavaError(f"the JVM ended with {process.wait()}") from None
        answer = process.stdout.readline().split()
        if not answer:
            raise JavaError(f"the JVM ended with {process.wait()} at {line!r}")
        return answer

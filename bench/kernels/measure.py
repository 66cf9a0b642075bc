"""Measures our assignors and Kafka's in turn on each shape, so that both meet the same state of the
machine."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.kernels.java import JavaError, KafkaAssignors, missing, software
from bench.kernels.ours import Ours, Sample
from bench.kernels.shapes import Shape


class Plan(NamedTuple):
    runs: int
    """How many runs each side has on each shape."""
    seconds: float
    """The seconds of each run, which has at least one assignment."""
    warm_s: float
    """The seconds for which the JVM warms up before anything counts; on each shape both sides have one more
    run that does not count."""
    kafka_home: Path | None


class Figures(NamedTuple):
    """The figures of one shape. `kafka` is empty if Kafka's side does not run here."""

    shape: Shape
    ours: list[Sample]
    kafka: list[Sample]
    newcomer_ms: float
    """The CPU time to put the newcomer into the arrays; 0 if none joins."""
    records_ms: float
    """The CPU time of an assignment up to the records' values of all members whose target changes."""

    @property
    def times_faster(self) -> float | None:
        return median_ms(self.kafka) / median_ms(self.ours) if self.kafka else None


class Result(NamedTuple):
    figures: list[Figures]
    kafka: dict[str, str]
    """The versions of Kafka and Java; empty if Kafka's side does not run here."""
    skipped: str | None
    """Why Kafka's side does not run; None: it runs."""
    load_before: float
    """How many other processes wanted a core in the minute before."""
    seconds: float


def median_ms(samples: Iterable[Sample]) -> float:
    return statistics.median(sample.cpu_ms for sample in samples)


def measure(shapes: Sequence[Shape], plan: Plan, say: Callable[[str], None]) -> Result:
    """Measure all shapes. Raises JavaError if Kafka's side breaks off."""
    load, began = os.getloadavg()[0], time.monotonic()
    reason = missing(plan.kafka_home)
    figures = []
    with contextlib.ExitStack() as stack:
        kafka = None
        if reason is None:
            say(f"Kafka's assignors: compiled, warmed up for {plan.warm_s:g} s")
            kafka = stack.enter_context(KafkaAssignors(plan.kafka_home, plan.warm_s))
        else:
            say(f"Kafka's assignors are skipped: {reason}")
        for number, shape in enumerate(shapes, 1):
            say(f"{number} of {len(shapes)}: {describe(shape)}")
            figures.append(_figures(shape, plan, kafka))
    described = {} if reason else software(plan.kafka_home)
    return Result(figures, described, reason, load, time.monotonic() - began)


def _figures(shape: Shape, plan: Plan, kafka: KafkaAssignors | None) -> Figures:
    ours = Ours(shape)
    ours.run(plan.seconds)
    if kafka is not None:
        kafka.take(shape)
        kafka.run(2 * plan.seconds)
    mine, theirs = [], []
    for _ in range(plan.runs):
        mine.append(ours.run(plan.seconds))
        if kafka is not None:
            theirs.append(kafka.run(plan.seconds))
    return Figures(shape, mine, theirs, ours.newcomer_ms, min(ours.records_ms() for _ in range(3)))


def describe(shape: Shape) -> str:
    kind = "heterogeneous" if shape.heterogeneous else "homogeneous"
    how = "one joined" if shape.incremental else "full"
    racks = ", racks" if shape.racks else ""
    return (
        f"{shape.assignor}, {kind}, {how}{racks}: {shape.members:,} members, {shape.topics:,} topics, "
        f"{shape.partitions:,} partitions"
    )


__all__ = ["Figures", "JavaError", "Plan", "Result", "describe", "measure", "median_ms"]

"""`groupd bench kernels`: its groups are those of Kafka's benchmark, and it does without Kafka if it must."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from bench.kernels import table
from bench.kernels.measure import Figures, Plan, Result, measure, median_ms
from bench.kernels.ours import Ours, Sample
from bench.kernels.shapes import Choice, Shape

SMALL = Shape("uniform", 20, 10, 5, heterogeneous=True, incremental=True, racks=False)


def test_shapes_are_those_of_kafkas_benchmark() -> None:
    """Sizes that give a topic no partition are left out; a newcomer is in the bucket of the last member."""
    shapes = list(Choice([100, 10_000], [1_000], [5, 50], racks=True).shapes())
    assert {(shape.members, shape.ratio) for shape in shapes} == {(100, 50), (10_000, 5), (10_000, 50)}
    assert len(shapes) == 3 * 16
    assert (SMALL.topic_partitions, SMALL.partitions) == (10, 100)
    assert [SMALL.bucket_of_member(number) for number in (0, 3, 4, 18, 19)] == [0, 0, 1, 4, 4]
    assert [list(SMALL.topics_of(bucket)) for bucket in (0, 4)] == [[0, 1], [8, 9]]
    with pytest.raises(ValueError, match="at least 10 members"):
        list(Choice([9], [10], [5], racks=False).shapes())


@pytest.mark.parametrize("shape", list(Choice([20], [10], [5], racks=True).shapes()))
def test_every_group_is_assigned_whole(shape: Shape) -> None:
    targets = Ours(shape)._assign()
    assert len(targets.numbers) == shape.partitions
    assert len(targets.assignment()) == shape.members


def test_without_kafka_ours_is_measured_alone() -> None:
    said: list[str] = []
    plan = Plan(runs=2, seconds=0.001, warm_s=0, kafka_home=Path("nowhere"))
    result = measure([SMALL], plan, said.append)
    [figures] = result.figures
    assert (len(figures.ours), figures.kafka, figures.times_faster) == (2, [], None)
    assert "skipped" in said[0]
    console = Console(record=True, width=120)
    table.show(console, result, "a machine")
    assert "Kafka's assignors skipped: no " in console.export_text()
    [row] = table.as_json(result, "a machine")["figures"]
    assert (row["kafka"], row["partitions"]) == (None, 100)


def test_goals_are_of_one_size_alone() -> None:
    """Figures of this size say whether they meet their goal."""
    big = SMALL._replace(members=10_000, topics=1_000, ratio=50, heterogeneous=False)
    assert (table.goal_ms(big), table.goal_ms(SMALL)) == (3.0, None)
    assert table.goal_ms(big._replace(racks=True)) is None
    samples = [Sample(2.0, 2.0, 1), Sample(9.0, 9.0, 1), Sample(2.5, 2.5, 1)]
    figures = Figures(big, samples, [Sample(10.0, 11.0, 1)], 0.1, 4.0)
    assert (median_ms(samples), figures.times_faster) == (2.5, 4.0)
    row = table.as_json(Result([figures], {"jar": "x"}, None, 0.0, 1.0), "m")["figures"][0]
    assert row["groupd"]["cpu_ms"] == {"min": 2.0, "median": 2.5, "max": 9.0}


@pytest.mark.kafka
@pytest.mark.skipif(not shutil.which("javac"), reason="no JDK")
def test_beside_kafkas_own() -> None:
    """KAFKA_HOME: a distribution, or a directory with Kafka's jars; without it Maven fetches them."""
    home = os.environ.get("KAFKA_HOME")
    plan = Plan(runs=1, seconds=0.01, warm_s=0.1, kafka_home=None if home is None else Path(home))
    result = measure([SMALL, SMALL._replace(assignor="range", racks=True)], plan, lambda _: None)
    assert all(figures.times_faster for figures in result.figures)

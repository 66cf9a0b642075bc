"""A tier in front of a real Kafka, both under attack: Kafka's brokers and its operators' hands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from bench.chaos import scenario as scenarios
from bench.chaos import schedule_file
from bench.chaos.faults import KINDS
from bench.chaos.schedule import Played
from bench.chaos.schedule_file import Schedule
from bench.chaos.targets import sites
from bench.chaos.targets.attached_site import AttachedSite, attached
from bench.peers import kafka_nodes
from tests.chaos.load import Load
from tests.chaos.scene import Scene, suffer
from tests.chaos.test_run import TIMEOUT_S, chaos, ended, results

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.ray, pytest.mark.timeout(3 * TIMEOUT_S)]

HERE = [name for name, kind in KINDS.items() if "upstream" in kind.needs]


@pytest.fixture(scope="module", autouse=True)
def _java() -> None:
    """Leave the stories out where Kafka cannot run, and say why."""
    if reason := kafka_nodes.missing(None):
        pytest.skip(reason)


@pytest.fixture(scope="module")
def site() -> Iterator[AttachedSite]:
    with sites.in_front_of_kafka(
        "--set", "group.max.session.timeout.ms=7200000", brokers=3, home=None
    ) as found:
        site = attached(found)
        site.attach()
        site.wait_until_whole()
        yield site


@pytest.fixture(scope="module")
def load(site: AttachedSite) -> Iterator[Load]:
    with Load(site) as running:
        yield running


def numbers_hit(scene: Scene) -> set[int]:
    return {int(each.split()[1]) for each in scene.injury.target.split(", ")}


def ended_brokers(scene: Scene) -> None:
    kafka = attached(scene.site).kafka
    hit = numbers_hit(scene)
    scene.until(lambda: not hit & {each.number for each in kafka.brokers()}, "the brokers have ended")
    assert "does not run" in scene.site.complaints()


def frozen_brokers(scene: Scene) -> None:
    hit = numbers_hit(scene)
    found = [each for each in attached(scene.site).kafka.brokers() if each.number in hit]
    assert {psutil.Process(each.pid).status() for each in found} == {psutil.STATUS_STOPPED}
    assert {each.groups for each in found} == {-1}


def others_run(scene: Scene) -> None:
    before = {each.pid for each in attached(scene.site).kafka.brokers()}
    scene.injury.undo()
    assert not {each.pid for each in attached(scene.site).kafka.brokers()} & before


def nothing_is_felt(scene: Scene) -> None:
    scene.load.progress()


EFFECTS: dict[str, Callable[[Scene], None]] = {
    **{name: ended_brokers for name in HERE if name.startswith("kill-")},
    **{name: ended_brokers for name in HERE if name.startswith("term-")},
    **{name: frozen_brokers for name in HERE if name.startswith("freeze-")},
    "kafka-rolling-restart": others_run,
    **{name: nothing_is_felt for name in HERE if name.startswith("detach")},
    "kafka-reassigned": nothing_is_felt,
    "kafka-elected": nothing_is_felt,
}


@pytest.mark.parametrize("name", HERE)
def test_what_hits_kafka_is_felt_and_healed(name: str, site: AttachedSite, load: Load) -> None:
    suffer(site, load, name, EFFECTS[name])


def test_a_swarm_outlives_the_take_over_and_faults_of_both(tmp_path: Path) -> None:
    """The groups are taken over while the swarm works, and the first fault comes meanwhile."""
    kinds = ("kill-leader", "kill-kafka-controller", "freeze-kafka-broker", "kafka-reassigned", "kill-node")
    faults = [Played(kind=kind, at_s=15 + 6 * n, for_s=2, seed=1) for n, kind in enumerate(kinds)]
    scenario = scenarios.load("attached", KINDS)
    schedule = Schedule(scenario=scenario, seed=4, faults=tuple(faults))
    schedule_file.write(tmp_path / "schedule.json", schedule)
    running = chaos("run", "--schedule", "schedule.json", "--out", "out", cwd=tmp_path)
    said = ended(running, 2 * TIMEOUT_S)
    assert running.returncode == 0, said
    told = results(tmp_path / "out")
    assert {*kinds, "all faults"} == {row["kind"] for row in told["availability"]}
    assert "in front of Apache Kafka 4" in told["run"]["software"]

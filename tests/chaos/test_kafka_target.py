"""Apache Kafka under attack: its brokers are hit, missed and brought back, and told when they stay away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psutil
import pytest

from bench.chaos import scenario as scenarios
from bench.chaos import schedule_file
from bench.chaos.faults import KINDS
from bench.chaos.schedule import Played
from bench.chaos.schedule_file import Schedule
from bench.chaos.targets import kafka_site
from bench.chaos.targets.fault import Injury
from bench.chaos.targets.kafka_site import KafkaSite
from bench.chaos.targets.target import FOLLOWER, LEADER, until
from bench.peers.lines import coordinators
from bench.peers.settling import settle_group
from tests.chaos.test_run import TIMEOUT_S, chaos, ended, results

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(2 * TIMEOUT_S)]

GROUPS = ("orders", "clicks", "ledger")
EFFECT_TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def site() -> Iterator[KafkaSite]:
    with kafka_site.throw_away(3, ["--set", "group.max.session.timeout.ms=7200000"]) as brokers:
        host, port = brokers.bootstrap.split(",")[0].split(":")
        for group in GROUPS:
            asyncio.run(settle_group((host, int(port)), group, 1))
        yield brokers


def begin(site: KafkaSite, name: str) -> Injury:
    site.wait_until_whole()
    return KINDS[name].begin(site, Random(1), 1.0)


def pids(site: KafkaSite) -> set[int]:
    return {broker.pid for broker in site.brokers()}


def test_the_leader_is_the_broker_that_coordinates_most_groups(site: KafkaSite) -> None:
    site.wait_until_whole()
    clients = [(host, int(port)) for host, port in (each.split(":") for each in site.bootstrap.split(","))]
    at = list(asyncio.run(coordinators(clients[0], GROUPS)).values())
    [leader], [follower] = site.find(LEADER, Random(1)), site.find(FOLLOWER, Random(1))
    number = int(leader.label.split()[1])
    assert at.count(clients[number - 1]) == max(at.count(each) for each in clients)
    assert follower.pid != leader.pid


@pytest.mark.parametrize("name", ["kill-leader", "term-broker"])
def test_a_broker_that_was_ended_is_missed_and_comes_back(site: KafkaSite, name: str) -> None:
    before = pids(site)
    injury = begin(site, name)
    until(lambda: len(pids(site)) == 2, "a broker is gone", EFFECT_TIMEOUT_S)
    assert "does not run" in site.complaints()
    injury.undo()
    site.wait_until_whole()
    assert len(pids(site)) == 3
    assert len(pids(site) & before) == 2


def test_a_broker_that_stands_still_is_missed_and_goes_on(site: KafkaSite) -> None:
    before = pids(site)
    injury = begin(site, "freeze-broker")
    try:
        assert "no answer" in site.complaints()
    finally:
        injury.undo()
    site.wait_until_whole()
    assert pids(site) == before


def test_a_rolling_restart_leaves_no_broker_as_it_was(site: KafkaSite) -> None:
    before = pids(site)
    begin(site, "rolling-restart").undo()
    assert not pids(site) & before
    assert site.is_whole()


def test_both_targets_are_attacked_by_the_command_with_one_schedule(tmp_path: Path) -> None:
    faults = [
        Played(kind=kind, at_s=at_s, for_s=1, seed=1)
        for kind, at_s in (("kill-leader", 12), ("clients-reset", 16), ("links-slow", 20))
    ]
    scenario = scenarios.load("both", KINDS)
    schedule = Schedule(scenario=scenario, seed=4, faults=tuple(faults))
    schedule_file.write(tmp_path / "schedule.json", schedule)
    running = chaos("run", "--target", "kafka", "--schedule", "schedule.json", "--out", "kafka", cwd=tmp_path)
    said = ended(running)
    assert running.returncode == 0, said
    told = results(tmp_path / "kafka")
    assert {row["kind"] for row in told["availability"]} == {"kill-leader", "clients-reset", "all faults"}
    assert told["run"]["software"].startswith("Apache Kafka 4")
    assert "Left out, Kafka cannot have them: links-slow." in said


def test_a_broker_that_does_not_come_back_is_told_by_name(site: KafkaSite) -> None:
    """This is the file's last test, because its broker stays away."""
    injury = begin(site, "kill-node")
    number = int(injury.target.split()[1])
    until(lambda: len(pids(site)) == 2, "it has ended", EFFECT_TIMEOUT_S)
    # Beside the settings of another broker, which its command line names.
    settings = Path(psutil.Process(site.brokers()[0].pid).cmdline()[-1])
    settings.with_name(f"server{number}.properties").write_text("process.roles=nonsense\n")
    injury.undo()
    until(lambda: not site.is_whole() and len(pids(site)) == 2, "it has ended again", EFFECT_TIMEOUT_S)
    with pytest.raises(TimeoutError, match=f"broker {number} does not run: "):
        site.wait_until_whole(1.0)

"""A tier of one machine grows to four, splits its partitions twice, loses its first machine for good and goes
on as three: under one swarm, which the judge believes and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from bench.chaos.targets import machine_site
from bench.chaos.targets.machine_site import MachineSite
from tests.machines.long_story import (
    BACK_S,
    QUIET_S,
    LongStory,
    add_machine,
    check,
    check_whole_start,
    wait_until_even,
)
from tests.machines.operator import copies, groupd, let_pass, look, nodes, status

pytestmark = [pytest.mark.machines, pytest.mark.timeout(2_400)]

KAFKA_PORT = 9092
CLIENT_S = 30.0
"""How long clients wait for an answer of a machine that is silent (request.timeout.ms of Kafka's clients)."""


@pytest.fixture
def one(possible: None) -> Iterator[MachineSite]:
    """A tier on one machine: one node, four partitions, one copy of each."""
    with machine_site.throw_away("--partitions", "4", "--replicas", "1", count=1) as found:
        yield found


def test_one_machine_becomes_four_and_then_three_while_groups_are_served(
    one: MachineSite, tmp_path: Path
) -> None:
    first = one.machines.all[0]
    network = first.host.rpartition(".")[0]
    bootstrap = ",".join(f"{network}.{number}:{KAFKA_PORT}" for number in (1, 2, 3, 4))
    with LongStory(one, bootstrap, tmp_path) as story:
        story.begin()
        for number in (2, 3, 4):
            with story.step(f"machine {number} joins"):
                assert add_machine(one) == number
                wait_until_even(one, set(range(1, number + 1)))
        with story.step("1 copy becomes 3"):
            groupd(one, "replicas", "resize", "--all", "3")
            wait_until_even(one, {1, 2, 3, 4})
            assert copies(one) == {3}
        for before in (4, 8):
            with story.step(f"{before} partitions become {2 * before}"):
                shown = groupd(one, "partitions", "split").splitlines()
                check_progress(shown, before)
                wait_until_even(one, {1, 2, 3, 4})
        with story.step("machine 1 is lost"), story.fault("machine-lost", "machine 1"):
            first.cut()
            first.lose_power()
            look(lambda: is_led_without(one, 1), "the other nodes lead", BACK_S)
            let_pass(CLIENT_S + QUIET_S)
        with story.step("node 1 is given up"):
            groupd(one, "nodes", "remove", "1", "--lost")
            wait_until_even(one, {2, 3, 4})
            assert copies(one) == {3}
        with story.step("nothing happens"):
            let_pass(QUIET_S)
        told = story.told()
    check(told, {"machine 1 is lost"})
    assert brokers(f"{network}.2:{KAFKA_PORT}") == {2, 3, 4}
    check_whole_start(one, {2, 3, 4}, 16)


def check_progress(shown: list[str], before: int) -> None:
    """Check that the split's command says how far it is, and more and more."""
    first, *course, last = shown
    assert first == f"{before} offsets partitions become {2 * before}."
    assert last == f"The tier has {2 * before} offsets partitions."
    moved = [int(line.split()[0]) for line in course if "partitions have handed their groups over" in line]
    assert moved == sorted(moved)
    assert moved, "something was said before the end"


def is_led_without(site: MachineSite, node_id: int) -> bool:
    """Return whether the controller knows that a node is silent, and everything is led by others."""
    if nodes(site)[node_id]["alive"]:
        return False
    found = status(site)
    leaders = {group["leader_node"] for group in (found["controller"], *found["partitions"])}
    return not leaders & {None, node_id}


def brokers(bootstrap: str) -> set[int]:
    """The brokers that a client is told of."""
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).brokers)

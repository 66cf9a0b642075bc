"""A tier grows from one node to four and loses its first one for good, while members commit without pause."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from bench.ground.throwaway import Tier
from cluster.ports import free_ports
from tests.polling import DEADLINE_S, until
from tests.tier.committer import under_load

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.clients, pytest.mark.timeout(300)]

NODES = 4
GROUPS = 4
EVEN_S = 90.0
TOPIC = "orders"


@pytest.fixture(scope="module")
def growing() -> Iterator[Tier]:
    """A tier of one node, with two partitions of three replicas, and room for more ports."""
    flags = ["--nodes", "1", "--partitions", "2", "--set", "group.initial.rebalance.delay.ms=0"]
    with Tier(*flags, port=free_ports(NODES), nodes=1) as running:
        running.run("topics", "create", TOPIC)
        yield running


def nodes(tier: Tier) -> dict[int, dict[str, Any]]:
    rows = json.loads(tier.run("nodes", "list", "--json", fine=(0, 1)))
    return {row["node_id"]: row for row in rows}


def brokers(tier: Tier, node: int) -> set[int]:
    """The brokers that a client is told of by one node."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{tier.port + node - 1}"})
    return set(admin.list_topics(timeout=10).brokers)


def wait_until_even(tier: Tier, count: int) -> None:
    """Wait until all nodes have the same number of replicas, and the tier is whole."""

    def even() -> bool:
        held = [row["replicas"] for row in nodes(tier).values()]
        return len(held) == count and max(held) - min(held) <= 1 and bool(tier.status()["healthy"])

    until(even, f"{count} nodes share the work", EVEN_S)


def check_refused(tier: Tier) -> None:
    """Check what a tier of three nodes with three copies refuses."""
    before = nodes(tier)
    wrong = [
        (["add", "--port", str(tier.port + 1)], "is node 2's: it is in the tier already"),
        (["add", "--id", "2", "--port", str(tier.port + 9)], "there is a node 2 already"),
        (["add", "--machine", "10.0.0.1:9900"], "this tier lives on one machine"),
        (["drain", "1"], "without node 1 there are 2 nodes for the 3 copies of"),
        (["drain", "9"], "there is no node 9; the tier has 1, 2, 3"),
        (["remove", "1"], "node 1 still holds replica"),
        (["remove", "1", "--lost"], "node 1 answers, so it is not lost"),
    ]
    for arguments, said in wrong:
        with pytest.raises(RuntimeError, match=said):
            tier.run("nodes", *arguments)
    assert nodes(tier) == before


def test_a_tier_grows_and_its_first_node_leaves_while_members_commit(growing: Tier) -> None:
    def grow_and_shrink() -> None:
        for _ in range(2):
            growing.run("nodes", "add")
        wait_until_even(growing, 3)
        check_refused(growing)
        growing.run("nodes", "add")
        growing.run("nodes", "drain", "1")
        assert (nodes(growing)[1]["replicas"], nodes(growing)[1]["leads"]) == (0, 0)
        assert brokers(growing, 2) == {1, 2, 3, 4}
        growing.run("nodes", "remove", "1")
        until(lambda: brokers(growing, 2) == {2, 3, 4}, "clients are not told of node 1", DEADLINE_S)
        wait_until_even(growing, 3)

    bootstraps = [("127.0.0.1", growing.port + node) for node in range(NODES)]
    under_load(bootstraps, [f"group-{number}" for number in range(GROUPS)], TOPIC, grow_and_shrink)


def test_the_next_start_has_the_nodes_of_now(growing: Tier) -> None:
    growing.run("down")
    growing.run("up", "--detach", "--port", str(growing.port))
    assert growing.status()["healthy"]
    found = nodes(growing)
    assert [(row["node_id"], row["port"]) for row in found.values()] == [
        (node, growing.port + node - 1) for node in (2, 3, 4)
    ]
    assert "group-0" in growing.run("groups", "list")

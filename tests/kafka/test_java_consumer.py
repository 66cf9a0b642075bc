"""The Java consumer in both protocols: B, C, E, M and O rows as its users see them."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from tests.kafka.conftest import SESSION_TIMEOUT_MS, Start, new_topic
from tests.kafka.members import partitions_of, shared_out
from tests.tier.consumers import produce

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(400)]

ASSIGNORS = "org.apache.kafka.clients.consumer."
CLASSIC = {"group_protocol": "classic", "heartbeat_interval_ms": 300}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {**CLASSIC, "partition_assignment_strategy": f"{ASSIGNORS}RangeAssignor"},
    "cooperative": {**CLASSIC, "partition_assignment_strategy": f"{ASSIGNORS}CooperativeStickyAssignor"},
    "consumer": {"group_protocol": "consumer"},
}
BOTH = ("range", "consumer")
"""Protocols of stories that do not depend on the assignor."""


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    return PROTOCOLS[request.param]


@pytest.fixture
def incremental(protocol: dict[str, Any]) -> bool:
    """Whether a member keeps consuming what a rebalance does not take from it."""
    return protocol is not PROTOCOLS["range"]


def test_partitions_move_when_a_member_joins_and_when_it_leaves(
    start: Start, topic: str, group_id: str, protocol: dict[str, Any], incremental: bool
) -> None:
    """B2, B7, M11 to M13: nobody loses its partitions, and incrementally only what moves is revoked."""
    first = start(topic, group_id, **protocol)
    shared_out([first], partitions_of(topic))
    second = start(topic, group_id, **protocol)
    shared_out([first, second], partitions_of(topic))
    revoked = [set(event["partitions"]) for event in first.told("revoked") if event["partitions"]]
    assert revoked == [second.owned if incremental else partitions_of(topic)], first.story()
    second.close()
    shared_out([first], partitions_of(topic))
    first.close()
    assert first.told("lost") == second.told("lost") == []


def test_next_member_reads_on_where_the_group_committed(
    start: Start, bootstrap: str, topic: str, group_id: str, protocol: dict[str, Any]
) -> None:
    """O9, O17, W16: commitSync is acknowledged, read back by the client, and where the next one starts."""
    produce(bootstrap, topic, 300)
    first = start(topic, group_id, **protocol)
    first.until(lambda: len(first.seen) == 300, "all records read")
    expected = dict.fromkeys(partitions_of(topic), 50)
    assert first.ask("commit", "committed")["offsets"] == expected
    assert first.ask("committed", "stored")["offsets"] == expected
    first.close()
    produce(bootstrap, topic, 60)
    second = start(topic, group_id, **protocol)
    second.until(lambda: len(second.seen) == 60, "the new records read")
    assert set(second.seen) == {(name, offset) for name in partitions_of(topic) for offset in range(50, 60)}
    second.close()


@pytest.mark.parametrize("name", BOTH)
def test_static_member_comes_back_to_its_partitions(
    start: Start, topic: str, group_id: str, name: str
) -> None:
    """E3, E8, A16, M20, M21: the restarted instance has what it had; its neighbour sees no rebalance."""
    settings = PROTOCOLS[name]
    neighbour = start(topic, group_id, group_instance_id="a", **settings)
    shared_out([neighbour], partitions_of(topic))
    restarted = start(topic, group_id, group_instance_id="b", **settings)
    shared_out([neighbour, restarted], partitions_of(topic))
    before, quiet = set(restarted.owned), len(neighbour.events)
    restarted.close()
    again = start(topic, group_id, group_instance_id="b", **settings)
    again.until(lambda: again.owned == before, "the same partitions as before the restart")
    assert again.ask("committed", "stored")["offsets"] == {}
    assert neighbour.events[quiet:] == []


@pytest.mark.parametrize("name", BOTH)
def test_killed_member_is_replaced_when_its_session_ends(
    start: Start, topic: str, group_id: str, name: str
) -> None:
    """B6, E8, M17: who stops without a word loses its partitions to the others after its session timeout."""
    settings = dict(PROTOCOLS[name])
    if settings["group_protocol"] == "classic":
        settings["session_timeout_ms"] = SESSION_TIMEOUT_MS
    stays = start(topic, group_id, **settings)
    shared_out([stays], partitions_of(topic))
    dies = start(topic, group_id, **settings)
    shared_out([stays, dies], partitions_of(topic))
    dies.kill()
    shared_out([stays], partitions_of(topic))


@pytest.mark.parametrize("assignor", ["range", "uniform"])
def test_server_assignor_is_the_one_the_member_names(
    start: Start, admin: AdminClient, topic: str, group_id: str, assignor: str
) -> None:
    """A3: range gives a member the same numbers of both topics; uniform the same amounts."""
    other = new_topic(admin)
    settings = {**PROTOCOLS["consumer"], "group_remote_assignor": assignor}
    members = [start(f"{topic},{other}", group_id, **settings) for _ in range(2)]
    shared_out(members, partitions_of(topic) | partitions_of(other))
    if assignor == "range":
        for member in members:
            numbers = [
                sorted(int(p.rsplit("-", 1)[1]) for p in member.owned if p.rsplit("-", 1)[0] == name)
                for name in (topic, other)
            ]
            assert numbers[0] == numbers[1], member.story()


def test_server_resolves_a_pattern(start: Start, bootstrap: str, admin: AdminClient, group_id: str) -> None:
    """A17, M25: the pattern's topics are the server's business, those made later too."""
    first = new_topic(admin)
    produce(bootstrap, first, 6)
    member = start(f"pattern:{first}(-later)?", group_id, **PROTOCOLS["consumer"])
    member.until(lambda: len(member.seen) == 6, "the matching topic's records")
    assert member.owned == partitions_of(first)
    member.close()

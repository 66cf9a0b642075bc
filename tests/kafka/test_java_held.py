"""The Java consumer with held heartbeats, in both protocols. Asserted by counters and by what members own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.ground.throwaway import Tier
from cluster.ports import free_ports
from tests.kafka.conftest import DEADLINE_S, Start
from tests.kafka.members import JavaMember, partitions_of, shared_out
from tests.polling import until
from tests.tier.scrape import ONE_NODE, scraped

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(400)]

BOTH = pytest.mark.parametrize("protocol", ["classic", "consumer"])
SLOW_REVOCATION_MS = 6_000
HELD_DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def holding(built: Path) -> Iterator[Tier]:
    """A tier of one node that holds heartbeats, as every tier does by default, and has metrics."""
    flags = (*ONE_NODE, "--set", "group.initial.rebalance.delay.ms=200")
    with Tier(*flags, port=free_ports(1)) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for made in admin.create_topics([NewTopic(name, 6, 1) for name in ("held", "other")]).values():
            made.result(DEADLINE_S)
        yield running


@pytest.fixture
def begin(built: Path, holding: Tier) -> Iterator[Start]:
    """Starts a Java consumer of that tier; it is killed when the test is over."""
    members: list[JavaMember] = []

    def started(topic: str, group_id: str, **settings: Any) -> JavaMember:
        member = partial(JavaMember, built, holding.bootstrap)(topic, group_id, **settings)
        members.append(member)
        return member

    yield started
    for member in members:
        member.kill()


def ended(tier: Tier, cause: str) -> float:
    """Return how many holds have ended for this cause since the tier began."""
    return scraped(tier)["heartbeat_hold_ends_total", (cause,)]


def until_held(tier: Tier, count: int) -> None:
    until(lambda: scraped(tier)["heartbeats_held", ()] == count, f"{count} held", HELD_DEADLINE_S)


@BOTH
def test_a_join_and_a_leave_reach_a_settled_group_as_news(
    holding: Tier, begin: Start, group_id: str, protocol: str
) -> None:
    settled = [begin("held", group_id, group_protocol=protocol) for _ in range(2)]
    shared_out(settled, partitions_of("held"))
    until_held(holding, 2)
    before = ended(holding, "news")
    newcomer = begin("held", group_id, group_protocol=protocol)
    shared_out([*settled, newcomer], partitions_of("held"))
    assert ended(holding, "news") >= before + 1
    until_held(holding, 3)
    before = ended(holding, "news")
    newcomer.close()
    shared_out(settled, partitions_of("held"))
    assert ended(holding, "news") >= before + 1
    for member in settled:
        assert member.told("lost") == []
        member.close()
    until_held(holding, 0)


@BOTH
def test_a_synchronous_commit_and_a_close_do_not_wait_for_a_held_answer(
    holding: Tier, begin: Start, group_id: str, protocol: str
) -> None:
    member = begin("held", group_id, group_protocol=protocol)
    shared_out([member], partitions_of("held"))
    before = ended(holding, "request")

    def commit_while_held() -> bool:
        if scraped(holding)["heartbeats_held", ()]:
            member.ask("committed", "stored")
        return ended(holding, "request") > before

    until(commit_while_held, "a further request ended a hold", HELD_DEADLINE_S)
    until_held(holding, 1)
    member.close()
    until_held(holding, 0)


@BOTH
def test_a_new_subscription_comes_through(holding: Tier, begin: Start, group_id: str, protocol: str) -> None:
    member = begin("held", group_id, group_protocol=protocol)
    shared_out([member], partitions_of("held"))
    until_held(holding, 1)
    member.tell("subscribe held,other")
    shared_out([member], partitions_of("held") | partitions_of("other"))
    assert member.told("lost") == []
    member.close()


@BOTH
def test_a_slow_revocation_is_acknowledged_without_waiting_for_a_held_answer(
    holding: Tier, begin: Start, group_id: str, protocol: str
) -> None:
    """A member that owes an acknowledgement is never held: none of its holds ends by its own request."""
    slow = begin("held", group_id, group_protocol=protocol)
    shared_out([slow], partitions_of("held"))
    slow.tell(f"revoke {SLOW_REVOCATION_MS}")
    until_held(holding, 1)
    newcomer = begin("held", group_id, group_protocol=protocol)
    shared_out([slow, newcomer], partitions_of("held"))
    assert slow.told("lost") == newcomer.told("lost") == []
    newcomer.close()
    slow.close()

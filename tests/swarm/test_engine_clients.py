"""Members that are some client: what they say they are, and what they do while a heartbeat is held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gevent
import pytest

from actors.protocol.messages import HeartbeatRequest, LeaveGroupRequest, OffsetCommitRequest
from bench.swarm.members.member import Leaving
from bench.swarm.planning import scenario
from bench.swarm.planning.clients import CLIENTS
from bench.swarm.planning.scenario import BadScenario, Changes
from tests.swarm.broker import ScriptedBroker
from tests.swarm.test_engine_members import PLAN, Script, Stage

QUIET_S = 0.3
"""A time of silence in which a member would have committed ten times."""


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with ScriptedBroker(Script()) as broker:
        stage = Stage(broker, tmp_path)
        yield stage
        stage.end()


def test_a_member_says_which_software_it_is_as_that_software_does(stage: Stage) -> None:
    """Members never named their software, so the tier never held their heartbeats."""
    for place, client in enumerate(CLIENTS):
        stage.start(PLAN._replace(name=f"orders/{place}", client=client))
    named = {client.software for client in CLIENTS.values() if client.software is not None}
    stage.until(lambda: set(stage.broker.software) >= named, "all have said it")
    stage.until(lambda: len(stage.asked(HeartbeatRequest)) >= 3 * len(CLIENTS), "all beat")
    assert set(stage.broker.software) == named
    assert ("apache-kafka-java", "4.3.1") in named
    assert {client.name for client in CLIENTS.values() if client.software is None} == {
        *("aiokafka", "kafkajs", "kafka-go")
    }


def test_a_broker_that_knows_no_such_version_of_api_versions_is_asked_in_an_older_one(stage: Stage) -> None:
    stage.broker.api_versions_max = 2
    stage.start(PLAN)
    stage.until(lambda: len(stage.asked(HeartbeatRequest)) >= 2, "it beats")
    assert stage.broker.software == []


@pytest.mark.parametrize("client", ["apache-kafka-java", "librdkafka", "kafka-python", "aiokafka"])
def test_while_its_heartbeat_is_held_a_client_of_this_kind_commits_and_leaves_at_once(
    stage: Stage, client: str
) -> None:
    stage.broker.holds = {HeartbeatRequest}
    stage.start(PLAN._replace(client=client))
    stage.until(lambda: len(stage.asked(HeartbeatRequest)) >= 3, "it beats")
    commits = len(stage.asked(OffsetCommitRequest))
    stage.until(lambda: len(stage.asked(OffsetCommitRequest)) > commits, "it commits on")
    stage.end(Leaving)
    assert len(stage.asked(LeaveGroupRequest)) == 1


@pytest.mark.parametrize("client", ["sarama", "kafkajs", "franz-go"])
def test_while_its_heartbeat_is_held_a_client_of_this_kind_stands_still(stage: Stage, client: str) -> None:
    stage.broker.holds = {HeartbeatRequest}
    stage.start(PLAN._replace(client=client))
    stage.until(lambda: stage.asked(HeartbeatRequest), "it beats")
    commits = len(stage.asked(OffsetCommitRequest))
    gevent.sleep(QUIET_S)
    assert len(stage.asked(HeartbeatRequest)) == 1
    assert len(stage.asked(OffsetCommitRequest)) == commits


def test_a_client_that_gives_up_early_accuses_nobody(stage: Stage) -> None:
    """kafka-go waits for 5 s: whoever is slower has not refused to answer."""
    assert CLIENTS["kafka-go"].heartbeat_timeout_ms < 30_000
    stage.start(PLAN._replace(client="kafka-go"))
    stage.until(lambda: len(stage.asked(HeartbeatRequest)) >= 2, "it beats")
    stage.recorder.flush()
    timeouts = {call.timeout_ms for call in stage.history().calls if call.api == "Heartbeat"}
    assert timeouts == {5_000}


def test_a_scenario_says_which_client_its_members_are_and_what_that_cannot_be() -> None:
    chosen = scenario.load("steady")
    assert {member.client for member in chosen.plan(1).members} == {"apache-kafka-java"}
    sarama = chosen.changed(Changes(client="sarama", protocol="range")).plan(1).members
    assert {(member.client, member.session_timeout_ms) for member in sarama} == {("sarama", 10_000)}
    with pytest.raises(BadScenario, match="sarama does not speak the consumer protocol; choose another"):
        chosen.changed(Changes(client="sarama")).plan(1)
    with pytest.raises(BadScenario, match=r"saramo: there is no such client; did you mean sarama\?"):
        chosen.changed(Changes(client="saramo"))
    text = scenario.read("steady").replace('name = "orders"', 'name = "orders"\nclient = "jova"')
    with pytest.raises(BadScenario, match=r"my.toml:6: groups\[0\].client: jova: there is no such client"):
        scenario.parse(text, "my.toml")

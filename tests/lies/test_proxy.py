"""The proxy itself, and some lies told to one member of a scripted broker: a second each, without a tier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest

from actors.protocol.messages import HeartbeatRequest, OffsetCommitRequest
from bench.swarm.planning.plan import MemberPlan
from storage.history.calls import History
from storage.history.judge.verdict import judge
from tests.lies.lie import BROKEN, Lie
from tests.lies.of_answers import AnotherRequestsId
from tests.lies.of_commits import HidesRefusals, ReplaysOldCommits, SwallowsCommits
from tests.lies.of_epochs import EpochGoesBack, FencedIsServed
from tests.lies.proxy import LyingProxy
from tests.swarm.broker import ScriptedBroker
from tests.swarm.test_engine_members import KIP848, PLAN, Script, Stage

ANSWERS = 40


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def broker(script: Script) -> Iterator[ScriptedBroker]:
    with ScriptedBroker(script) as running:
        yield running


def told(broker: ScriptedBroker, lie: Lie, plan: MemberPlan, directory: Path) -> History:
    """Return the record of one member that is lied to from the beginning."""
    host, port = broker.bootstrap.split(":")
    with LyingProxy([(host, int(port))], lie, plan.group_id) as proxy:
        stage = Stage(_Behind(broker, proxy), directory)  # type: ignore[arg-type]  # it needs no more of it
        stage.start(plan)
        stage.until(lambda: len(broker.requests) > ANSWERS, "it is served for a while")
        stage.end(gevent.GreenletExit)
    assert not proxy.errors
    return stage.history()


class _Behind:
    """A broker that clients reach through a proxy."""

    def __init__(self, broker: ScriptedBroker, proxy: LyingProxy) -> None:
        self.bootstrap = proxy.bootstrap
        self.requests = broker.requests


def from_the_beginning(lie: type[Lie]) -> Lie:
    """Return this lie, told from the beginning and not some seconds after the first join."""
    made: Lie = type(lie.__name__, (lie,), {"from_s": 0.0, "__doc__": lie.__doc__})()
    return made


@pytest.mark.parametrize("plan", [PLAN, KIP848], ids=["classic", "consumer"])
def test_without_a_lie_the_proxy_is_not_noticed(
    broker: ScriptedBroker, plan: MemberPlan, tmp_path: Path
) -> None:
    lie = Lie()
    verdict = judge(told(broker, lie, plan, tmp_path))
    assert verdict.by_rule == {}
    assert not lie.told


@pytest.mark.parametrize(
    ("lie", "plan"), [(AnotherRequestsId, PLAN), (FencedIsServed, PLAN), (EpochGoesBack, KIP848)]
)
def test_a_lie_is_seen_through_by_one_member(
    broker: ScriptedBroker, lie: type[Lie], plan: MemberPlan, tmp_path: Path
) -> None:
    verdict = judge(told(broker, from_the_beginning(lie), plan, tmp_path))
    expected = lie.expected
    (promise,) = (each for each in verdict.promises if each.name == expected.promise)
    assert (promise.status, verdict.status) == (BROKEN, BROKEN)
    assert expected.words in verdict.by_rule


def commits(broker: ScriptedBroker) -> list[int]:
    """Offsets of partition 0, as they reached the broker."""
    asked = [each for each in broker.requests if isinstance(each, OffsetCommitRequest)]
    return [row[1] for each in asked for row in each.topics[0][1] if row[0] == 0]


def test_a_swallowed_commit_never_reaches_the_broker(broker: ScriptedBroker, tmp_path: Path) -> None:
    told(broker, from_the_beginning(SwallowsCommits), PLAN, tmp_path)
    assert commits(broker) == []
    assert any(isinstance(each, HeartbeatRequest) for each in broker.requests)


def test_a_replayed_commit_overwrites_a_newer_one(broker: ScriptedBroker, tmp_path: Path) -> None:
    told(broker, from_the_beginning(ReplaysOldCommits), PLAN, tmp_path)
    first, second, third, *_ = commits(broker)
    assert (first, second > first, third) == (first, True, first)


def test_a_refusal_is_hidden_from_the_member(broker: ScriptedBroker, script: Script, tmp_path: Path) -> None:
    script.errors[OffsetCommitRequest] = [22] * 1_000
    history = told(broker, from_the_beginning(HidesRefusals), PLAN, tmp_path)
    generations = {e.generation_id_or_member_epoch for e in broker.requests if _is_commit(e)}
    assert generations == {1_003}
    assert all(call.is_fine for call in history.calls if call.api == "OffsetCommit" and call.is_answered)


def _is_commit(request: Any) -> bool:
    return isinstance(request, OffsetCommitRequest)

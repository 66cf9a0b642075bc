"""Who tells the tier of a new leader: its node's broker, and the leader itself only if that could not."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from actors import runtime
from actors.ground.image import MetadataImage
from actors.ground.spec import NodeSpec, TierSpec, copies
from actors.leader import leadership
from actors.leader.leadership import Leadership
from actors.machines.far import FarActor
from actors.node.leader_news import tell_the_tier
from tests.polling import passed, reached

NODES = tuple(NodeSpec(node_id=n, host="h", port=9_092) for n in (1, 2, 3))
SPEC = TierSpec("tier", "s", "/data", "/run", NODES, (copies((1, 2, 3)),), copies((1, 2)))
OWN_NODE, TERM = 2, 7
NEWS = (0, OWN_NODE, TERM)


class Actors:
    """The tier's actors, as `actors.runtime` reaches them. Broker 3 does not answer."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def find(self, name: str, namespace: str) -> FarActor:
        return FarActor("", name, namespace)

    def call(
        self, handle: FarActor, method: str, args: Sequence[Any], timeout_s: float
    ) -> concurrent.futures.Future[Any]:
        assert (method, tuple(args)) == ("on_leader", NEWS)
        answered: concurrent.futures.Future[Any] = concurrent.futures.Future()
        if handle.name == "broker-3":
            answered.set_exception(runtime.ActorCallError("it does not answer"))
        else:
            self.told.append(handle.name)
            answered.set_result(None)
        return answered


def elected(image: MetadataImage) -> Leadership:
    """Return the leadership of a replica that has just been elected."""
    raft = SimpleNamespace(stand=object(), term=TERM, is_leader=True)
    host: Any = SimpleNamespace(
        raft=raft, leader_node=OWN_NODE, node_id=OWN_NODE, replica=SimpleNamespace(serving=True)
    )
    known: Any = SimpleNamespace(spec=SPEC, image=image)
    link = SimpleNamespace(announce=lambda *_: None)
    clients: Any = SimpleNamespace(link=link, began_to_lead=lambda: None)
    history: Any = SimpleNamespace(elected=lambda: None)
    new = Leadership(0, host, known, clients, history)
    new.on_turn()
    return new


@pytest.fixture
def actors(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(leadership, "TELL_AFTER_S", 0.05)
    made: Any = Actors()
    runtime.use(made)
    yield made
    runtime.use(None)


def test_the_broker_of_the_leaders_node_tells_everybody_else(actors: Actors) -> None:
    asyncio.run(tell_the_tier(SPEC, MetadataImage(), NEWS))
    assert sorted(actors.told) == ["broker-1", "controller-0", "controller-1"]


def test_a_new_leader_calls_nobody_if_the_tier_knows(actors: Actors) -> None:
    async def story() -> None:
        new = elected(MetadataImage(offsets_leaders=(OWN_NODE,)))
        await reached(lambda: not len(new._tasks))

    asyncio.run(story())
    assert actors.told == []


def test_a_new_leader_tells_the_tier_itself_if_its_broker_could_not(actors: Actors) -> None:
    async def story() -> None:
        elected(MetadataImage(offsets_leaders=(1,)))
        assert actors.told == [], "not in the moment of its election"
        await reached(lambda: len(actors.told) == 4)
        await passed(0.01)

    asyncio.run(story())
    assert sorted(actors.told) == ["broker-1", "broker-2", "controller-0", "controller-1"]

"""The controller's leader drives splits, and lets nobody begin one that could not end."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from actors import runtime
from actors.ground.spec import NodeSpec, TierSpec, copies
from actors.machines.far import FarActor
from actors.metadata.split_commands import NoteDropped, NoteMoved
from cluster import backup, restore
from cluster.group_leaders import GroupLeaders
from cluster.reconcile import Reconciler
from cluster.splits import Splits
from cluster.tier_file import TierError
from tests.polling import reached

NODES = tuple(NodeSpec(node_id=n, host="h", port=9_092) for n in (1, 2, 3))
ROWS = (copies((1, 2, 3)), copies((2, 3, 1)))
SPLIT = TierSpec(
    "tier", "s", "/data", "/run", NODES, ROWS, copies((1,)), unmoved=(0,), undropped=(0,), formed=True
)
"""A tier of one offsets partition that is being split."""


class Actors:
    """The actors of a tier, as `actors.runtime` reaches them. All are well and replica 0 of each group leads,
    unless a test says otherwise."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.called: list[tuple[str, str, tuple[Any, ...]]] = []
        self.answers: dict[str, Any] = {"hand_over": 7, "drop_moved": (0, None)}
        """Method -> its answer; None: it is never given."""
        self.replaced: set[str] = set()
        """Leaders that are alive, and that somebody else was elected instead of."""

    def find(self, name: str, namespace: str) -> FarActor | None:
        return None if name in self.silent else FarActor("", name, namespace)

    def list_actors(self, namespace: str) -> set[str]:
        return set()

    def call(
        self, handle: FarActor, method: str, args: Sequence[Any], timeout_s: float
    ) -> concurrent.futures.Future[Any]:
        answered: concurrent.futures.Future[Any] = concurrent.futures.Future()
        if handle.name in self.silent:  # whoever knows it already need not look it up
            answered.set_exception(runtime.ActorCallError("it does not answer"))
            return answered
        if method == "status":
            answered.set_result(self._status(handle.name))
            return answered
        self.called.append((handle.name, method, tuple(args)))
        answer = self.answers[method]
        if isinstance(answer, Exception):
            answered.set_exception(answer)
        elif answer is not None:
            answered.set_result(answer)
        return answered

    def _status(self, name: str) -> dict[str, Any]:
        group, _, replica = name.rpartition("-")
        peers = (0,) if group == "controller" else range(3)
        lost = self.silent | self.replaced
        leads = int(replica) == min(n for n in peers if f"{group}-{n}" not in lost)
        return {
            "replica": int(replica),
            "node_id": int(replica) + 1,
            "serving": leads,
            "term": 1 + len(self.replaced),
            "problem": None,
            "member_id": f"{replica}.1",
            "members": [{"id": f"{n}.1", "node_id": n + 1, "votes": True} for n in peers],
            "members_committed": True,
        }


@pytest.fixture
def actors() -> Iterator[Actors]:
    made = Actors()
    runtime.use(made)
    yield made
    runtime.use(None)


def drive(spec: TierSpec) -> tuple[list[Any], list[str]]:
    """Carry out what is due now. Return the commands and what was done, in words."""
    commands: list[Any] = []
    done: list[str] = []

    async def submit(command: Any) -> Any:
        commands.append(command)

    async def steps() -> None:
        splits = Splits(submit)
        splits.step(spec)
        await reached(lambda: not splits.is_busy, "nothing is under way")
        done.extend(splits.step(spec._replace(undropped=())))

    asyncio.run(steps())
    return commands, done


def test_what_moves_is_handed_over_then_noted_then_dropped_and_noted(actors: Actors) -> None:
    commands, done = drive(SPLIT)
    assert actors.called == [
        ("partition-0-0", "hand_over", (1, 2, "partition-1-0")),
        ("partition-0-0", "drop_moved", (1,)),
    ]
    assert commands == [NoteMoved(0), NoteDropped(0)]
    assert done == ["partition 0 has handed 7 records over to partition 1"]


def test_a_parent_that_has_moved_only_drops(actors: Actors) -> None:
    commands, _ = drive(SPLIT._replace(unmoved=()))
    assert [method for _, method, _ in actors.called] == ["drop_moved"]
    assert commands == [NoteDropped(0)]


def test_nothing_is_noted_that_did_not_succeed(actors: Actors) -> None:
    actors.answers["hand_over"] = runtime.ActorCallError("the seal was refused")
    assert drive(SPLIT) == ([], [])
    actors.answers |= {"hand_over": 7, "drop_moved": (15, "no")}
    assert drive(SPLIT)[0] == [NoteMoved(0)]
    actors.silent |= {f"partition-1-{n}" for n in range(3)}
    assert drive(SPLIT)[0] == []


@pytest.mark.parametrize(
    ("fallen", "asked", "to"),
    [
        ("partition-0-0", "partition-0-1", "partition-1-0"),
        ("partition-1-0", "partition-0-0", "partition-1-1"),
    ],
)
def test_a_leader_that_was_replaced_is_not_waited_for(
    actors: Actors, fallen: str, asked: str, to: str
) -> None:
    """Nobody serves what moves until it has moved, and whoever has fallen need not answer."""
    actors.answers["hand_over"] = None
    story: list[str] = []

    async def submit(command: Any) -> Any:
        story.append(type(command).__name__)

    async def steps() -> None:
        splits = Splits(submit, look_every_s=0.01)
        splits.step(SPLIT)
        await reached(lambda: actors.called, "a leader is asked")
        actors.replaced.add(fallen)
        await reached(lambda: not splits.is_busy, "nothing is under way")
        actors.answers["hand_over"] = 7
        splits.step(SPLIT)
        await reached(lambda: story == ["NoteMoved", "NoteDropped"], "the split is over")

    asyncio.run(steps())
    assert actors.called[1] == (asked, "hand_over", (1, 2, to))


def test_a_tier_is_split_only_while_every_group_has_a_majority(actors: Actors) -> None:
    whole = SPLIT._replace(unmoved=(), undropped=())

    def refusal() -> str | None:
        async def nothing(command: Any) -> Any:
            raise AssertionError(command)

        return asyncio.run(Reconciler(whole, nothing).may_split(whole))

    assert refusal() is None
    actors.silent = {"partition-1-2"}
    assert refusal() is None
    actors.silent = {"partition-1-1", "partition-1-2"}
    assert refusal() == "less than a majority of partition-1 answers: a split needs one of every group"
    actors.silent = {f"partition-1-{n}" for n in range(3)}
    assert refusal() == "partition-1 has no leader: a split needs a majority of every group"


def test_what_reads_or_writes_every_group_waits_until_a_split_is_over(tmp_path: Path) -> None:
    leaders = GroupLeaders(SPLIT)
    for what, refused in (
        ("a backup", lambda: backup.take(leaders, tmp_path / "backup", lambda *_: None)),
        ("a restore", lambda: restore.restore(leaders, tmp_path, lambda *_: None)),
    ):
        with pytest.raises(TierError, match=f"{what} has to wait: the offsets partitions are being split"):
            refused()
    assert list(tmp_path.iterdir()) == []

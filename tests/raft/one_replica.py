"""One replica against scripted peers; the test moves its clock and ends its disk's work."""

from __future__ import annotations

import random
from typing import Any

from storage.raft.contract import RaftConfig
from storage.raft.journal import Genesis, Identity, Journal
from storage.raft.members import FOUNDING_INCARNATION, Member, Members
from storage.raft.messages import (
    APPEND,
    APPEND_ANSWER,
    PRE_VOTE_ANSWER,
    VOTE_ANSWER,
    Append,
    AppendAnswer,
    PreVoteAnswer,
    VoteAnswer,
)
from storage.raft.raft import APPLY_LATER_S, Raft
from storage.raft.records import Entry
from storage.raft.skeleton import REGULAR, Node, RaftTransport
from storage.raft.snapshot import SnapshotStore
from tests.simulation.disk import SimDisk

CONFIG = RaftConfig(heartbeat_s=0.05, election_min_s=0.25, election_max_s=0.5)


class Wire(RaftTransport):
    def __init__(self) -> None:
        super().__init__(None, None, [])
        self.sent: list[tuple[str, Any]] = []

    def send(self, node: Node, message: Any) -> bool:
        self.sent.append((node.id, message))
        return True

    def set_members(self, members: Any) -> None:
        self.members = members

    def destroy(self) -> None:
        pass


class Sheet:
    """A state machine that writes down what it is told."""

    def __init__(self) -> None:
        self.applied: list[tuple[int, int, bytes]] = []
        self.restored: list[bytes] = []
        self.leads = 0

    def apply(self, index: int, term: int, command: bytes) -> None:
        self.applied.append((index, term, command))

    def begin_snapshot(self) -> Sheet:
        return self

    def step(self) -> bytes | None:
        return b"state"

    def restore(self, data: bytes) -> None:
        self.restored.append(data)

    def on_leading(self, term: int) -> None:
        self.leads += 1

    def on_fallen(self) -> None:
        self.leads -= 1


class Syncs:
    """An executor that ends its work when a test says so."""

    def __init__(self) -> None:
        self.tasks: list[tuple[Any, Any]] = []
        self.takes_s = 0.01

    def submit(self, work: Any, done: Any) -> None:
        self.tasks.append((work, done))

    def finish(self) -> None:
        tasks, self.tasks = self.tasks, []
        for work, done in tasks:
            work()
            done(None, self.takes_s)

    def close(self) -> None:
        pass


MEMBERS = tuple(Member(name, 1, True) for name in "abc")


class Bench:
    """Replica "a" of "a", "b", "c", its clock and its disk."""

    def __init__(self, members: Members = MEMBERS) -> None:
        self.now = 100.0
        self.members = members
        self.disk = SimDisk(random.Random(1))
        self.start()

    def start(self) -> None:
        identity = Identity(tier_id="t", replica_id="a")
        self.syncs = Syncs()
        self.wire = Wire()
        self.sheet = Sheet()
        self.raft = Raft(
            self_id="a",
            transport=self.wire,
            journal=Journal(
                self.disk,
                "j",
                identity,
                executor=self.syncs,
                notify=lambda: None,
                genesis=Genesis(FOUNDING_INCARNATION, self.members),
            ),
            snapshots=SnapshotStore(self.disk, "s", identity),
            machine=self.sheet,
            clock=lambda: self.now,
            random=random.Random(2),
            settings=CONFIG,
        )
        for peer in ("b", "c", "d"):
            self.wire._connected(Node(peer))

    def power_loss(self) -> None:
        self.disk.lose_power()
        self.start()

    def tell(self, peer: str, message: Any) -> list[Any]:
        """Give "a" a message of a peer. Returns what "a" answers at once; `is_done` is whether it needs no
        tick then."""
        self.wire.sent.clear()
        fields = tuple(message) if hasattr(message, "_fields") else message  # as a frame holds it
        self.is_done = self.wire._arrived(Node(peer), fields)
        return [answer for target, answer in self.wire.sent if target == peer]

    def tick(self, *, sync: bool = True) -> list[tuple[str, Any]]:
        self.wire.sent.clear()
        self.raft.tick()
        if sync:
            self.syncs.finish()
            self.raft.tick()
        return self.wire.sent

    def later(self, seconds: float) -> None:
        self.now += seconds

    def apply_all(self, leader: str) -> None:
        """Let the time pass after which a follower applies what is committed, with a leader that is heard."""
        self.tick()
        last, term = self.raft.last_index, self.raft.term
        until = self.now + APPLY_LATER_S
        while self.now < until:
            self.later(CONFIG.heartbeat_s)
            heartbeat = Append(APPEND, term, self.now, self.raft.commit_index, last, self.raft.last_term, ())
            self.tell(leader, heartbeat)
            self.tick()

    def lead(self) -> None:
        """Let "a" be elected in the next term, with the no-op committed by "b"."""
        self.later(1.0)
        self.tick()
        self.tell("b", PreVoteAnswer(PRE_VOTE_ANSWER, self.raft.term, self.raft.term + 1, True))
        self.tell("b", VoteAnswer(VOTE_ANSWER, self.raft.term, True))
        self.tick()
        self.confirm("b")

    def confirm(self, peer: str) -> None:
        """Let the peer say that it holds all entries."""
        last, term, now = self.raft.last_index, self.raft.term, self.now
        self.tell(peer, AppendAnswer(APPEND_ANSWER, term, now, True, last - 1, last, last, 0))
        self.tick()


def entries(*terms: int, first: int = 1, mark: bytes = b"x") -> tuple[Entry, ...]:
    return tuple((REGULAR + mark, first + offset, term) for offset, term in enumerate(terms))


def append(term: int, previous: tuple[int, int], sent: tuple[Entry, ...] = (), commit: int = 0) -> Append:
    return Append(APPEND, term, 7.5, commit, *previous, sent)

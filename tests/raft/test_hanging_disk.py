"""A leader whose loop waits for its own disk, which hangs: a quick disk is synced where that is needed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storage.raft.disk import KNOWN_SYNCS_MIN
from storage.raft.messages import APPEND_ANSWER, AppendAnswer
from tests.raft.one_replica import CONFIG, Bench, append

HANGS_S = 2 * CONFIG.election_max_s


@pytest.fixture
def leader() -> Bench:
    """A leader with a lease, whose disk counts as light. Its next sync takes `HANGS_S`."""
    bench = Bench()
    bench.syncs.takes_s = 0.0001
    bench.lead()
    for _ in range(KNOWN_SYNCS_MIN):
        bench.raft.propose(b"x")
        bench.tick()
        bench.confirm("b")
    assert bench.raft.has_lease()

    def hang(sync: Callable[[], None]) -> None:
        bench.later(HANGS_S)
        sync()

    bench.raft._core.journal._wait_for = hang
    return bench


def test_a_leader_that_was_held_up_by_its_disk_believes_no_lease(leader: Bench) -> None:
    """It was silent for two election timeouts: others may lead by now. What it sent before it hung reaches
    its followers, and their late answers give it no lease either."""
    sent_at = leader.now
    index = leader.raft.propose(b"x")
    sent = leader.tick(sync=False)
    assert leader.now == sent_at + HANGS_S, "the loop waited"
    assert [peer for peer, _ in sent], "entries leave before the disk is waited for"
    assert not leader.raft.has_lease()
    late = AppendAnswer(APPEND_ANSWER, leader.raft.term, sent_at, True, index - 1, index, index, 0)
    leader.tell("b", late)
    assert not leader.raft.has_lease()


def test_a_leader_that_was_held_up_follows_whoever_was_elected_meanwhile(leader: Bench) -> None:
    leader.raft.propose(b"x")
    leader.tick(sync=False)
    leader.tick(sync=False)
    assert not leader.raft.is_leader, "it has heard nobody for too long"
    last, term = leader.raft.last_index, leader.raft.term
    leader.tell("c", append(term + 1, (last - 1, term)))
    assert leader.raft.leader_id == "c"
    assert leader.sheet.leads == 0, "whoever waited for it was told"

"""What is stored of push groups: it survives a snapshot, and what was not committed leaves no trace (R4)."""

from __future__ import annotations

import msgpack
import pytest

from actors.coordinator.push.state import kept
from actors.ground.contract import Request
from actors.protocol import api_keys
from actors.replica.log_level import FORMAT_VERSION
from tests.coordinator.batches import one_by_one
from tests.coordinator.push.pushing import Pushing


@pytest.fixture
def group() -> Pushing:
    return Pushing()


def test_a_snapshot_has_all_of_it(group: Pushing) -> None:
    group.register("a")
    group.register("b", auto_commit=False)
    group.read("a", 3)
    group.advance(15_000)
    records = dict(one_by_one(group.shard.records()))
    replica = Pushing().replica
    pack = msgpack.Packer().pack
    replica.restore(b"".join(map(pack, ((FORMAT_VERSION + 1, 0), *group.shard.records()))))
    assert dict(one_by_one(replica.shard.records())) == records


def test_what_was_not_committed_leaves_no_trace(group: Pushing) -> None:
    """A registration, and the rebalance that it began, are undone."""
    group.register("a")
    before = dict(one_by_one(group.shard.records()))
    body = group.member("b").register()
    request = Request(999, api_keys.REGISTER_CONSUMER, 0, "client", "/127.0.0.1", body)
    assert group.replica.submit(request, group.now_ms) is None
    group.replica.run_timers(group.now_ms)
    assert dict(one_by_one(group.shard.records())) != before
    group.replica.on_fallen()
    assert dict(one_by_one(group.shard.records())) == before
    assert kept(group.shard.state).groups == {}
    assert kept(group.shard.state).groups_of_topic == {}

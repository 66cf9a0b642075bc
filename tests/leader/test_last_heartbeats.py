"""What a connection remembers of the heartbeats of those who share it."""

from __future__ import annotations

from actors.ground.contract import Request
from actors.ground.limits import REMEMBERED_HEARTBEATS_MAX
from actors.leader.group_server import LastHeartbeat, LastHeartbeats
from actors.metrics.counts import RequestCounts
from actors.network.wire import request_frame
from actors.protocol.api_keys import HEARTBEAT
from actors.protocol.messages import HeartbeatRequest


def frame_of(number: int, generation: int = 1, correlation_id: int = 1) -> bytes:
    """Return a heartbeat's frame, its length cut off."""
    fields = {"group_id": "g", "generation_id": generation, "member_id": f"m{number}"}
    return request_frame("heartbeat", 2, correlation_id, "client", fields)[4:]


def heartbeat(number: int, generation: int = 1) -> LastHeartbeat:
    body = HeartbeatRequest("g", generation, f"m{number}")
    request = Request(number, HEARTBEAT, 2, "client", "/127.0.0.1", body)
    counts = RequestCounts().of(HEARTBEAT)
    return LastHeartbeat(request, frame_of(number, generation), counts, lambda request, now_ms: None)


def test_each_member_of_a_connection_is_found_whatever_the_correlation_id() -> None:
    heartbeats = LastHeartbeats()
    noted = [heartbeat(number) for number in range(3)]
    for each in noted:
        heartbeats.note(each)
    assert [heartbeats.find(frame_of(number, correlation_id=7)) for number in range(3)] == noted
    assert heartbeats.find(frame_of(3)) is None
    assert heartbeats.find(b"\1" + frame_of(0)[1:]) is None, "a byte before the correlation id is another"


def test_a_members_newer_heartbeat_takes_the_place_of_its_older_one() -> None:
    heartbeats = LastHeartbeats()
    heartbeats.note(heartbeat(0, generation=1))
    newer = heartbeat(0, generation=2)
    heartbeats.note(newer)
    assert heartbeats.find(frame_of(0, generation=1)) is None
    assert heartbeats.find(frame_of(0, generation=2)) is newer


def test_where_there_are_too_many_members_most_are_found() -> None:
    heartbeats = LastHeartbeats()
    found = 0
    for _ in range(2):
        for number in range(REMEMBERED_HEARTBEATS_MAX + 10):
            if heartbeats.find(frame_of(number)) is None:
                heartbeats.note(heartbeat(number))
            else:
                found += 1
    assert found == REMEMBERED_HEARTBEATS_MAX - 1

"""The history names refused requests as Kafka's schemas do, not as metrics do."""

from __future__ import annotations

from pathlib import Path

from kio.schema.errors import ErrorCode

from actors.leader.history import INTERVAL_S, History
from actors.metrics.counts import RequestCounts
from actors.protocol import api_keys
from actors.protocol.messages import HeartbeatResponse, JoinGroupResponse
from storage.history.schema import Stretch
from tests.fuzz.leaping import LeapingLoop
from tests.fuzz.stack import Stack

TOY_API = 12_345


def test_a_refused_request_has_the_name_of_its_schema(tmp_path: Path) -> None:
    async def story() -> None:
        stack = Stack(loop, str(tmp_path))
        await stack.start()
        counts, kept = RequestCounts(), list[Stretch]()
        history = History(0, stack.partitions[0]._host, counts, kept.append)
        counts.count(api_keys.JOIN_GROUP, JoinGroupResponse(ErrorCode.invalid_session_timeout))
        for key in (api_keys.HEARTBEAT, TOY_API):
            counts.count(key, HeartbeatResponse(ErrorCode.unknown_member_id))
        history.start()
        await stack.leap(INTERVAL_S, 2)
        history.close()
        told = [event for stretch in kept for event in stretch.events if event.kind == "requests_refused"]
        assert [(event.api, event.error_code, event.count) for event in told] == [
            ("JoinGroup", 26, 1),
            ("Heartbeat", 25, 1),
            (str(TOY_API), 25, 1),
        ]

    loop = LeapingLoop()
    loop.run_until_complete(story())
    loop.close()

"""What a leader's actor does between the sockets of push consumers and its replica (D6): bytes in, bytes
out."""

from __future__ import annotations

from itertools import count

import pytest

from actors.catalog.headers import parse_header
from actors.ground.features import GROUPD_VERSION, PUSH_LEVEL, Features
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage
from actors.leader.consumer_channels import OWED_MAX
from actors.leader.group_server import GroupServer, Share
from actors.network.wire import parse_answer, request_frame
from actors.protocol import api_keys
from actors.protocol.errors import MalformedRequest
from actors.protocol.partitioning import Partitioning
from actors.protocol.push_codec import FIRST_ID, is_of_coordinator, read_push, written_answer
from actors.protocol.push_messages import PingRequest, Pushed
from tests.coordinator.alone import commit, lead, new_replica
from tests.coordinator.driver import image_of
from tests.coordinator.shards import new_shard
from tests.leader.asking import Line

CLIENT = ClientIdentity("/127.0.0.1", "127.0.0.1:1")
ASKED = {
    "group_id": "g",
    "topic_counts": ({"topic": "t", "wildcard": False, "streams": 1},),
    "auto_commit": True,
    "auto_offset_reset": "smallest",
    "session_timeout": 30_000,
}
API = "register_consumer"


def image() -> MetadataImage:
    made = image_of(t=2)
    made.features = Features(1, ((GROUPD_VERSION, PUSH_LEVEL),))
    return made


class Leader:
    """A GroupServer over a leading replica, and clients' connections to it."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.late: list[bytes] = []
        self.replica = new_replica(lambda: new_shard(image=image()), lambda *each: self.server.release(*each))
        self.server = GroupServer(self.replica, Share(0, lambda: Partitioning(1)), lambda: self.now_ms)
        self._ids = count(1)
        lead(self.replica)

    def line(self) -> Line:
        return Line(CLIENT, self.late.append)

    def register(self, line: Line, consumer_id: str = "a", group_id: str = "g") -> int:
        """Register on a connection. Returns the error code."""
        fields = {**ASKED, "consumer_id": consumer_id, "group_id": group_id}
        frame = request_frame(API, 0, next(self._ids), "test", fields)[4:]
        header, body_offset = parse_header(frame)
        answered = self.server.serve(header, frame, body_offset, line)[0]
        self.turn()
        frame = self.late.pop() if answered is None else answered
        return int(parse_answer(API, 0, frame[4:])[1]["error_code"])

    def turn(self, by_ms: int = 0) -> None:
        self.now_ms += by_ms
        commit(self.replica)
        self.replica.run_timers(self.now_ms)
        commit(self.replica)

    def answer(self, line: Line, frame: bytes) -> None:
        correlation_id, api_key, request = read_push(frame)
        answer = written_answer(correlation_id, api_key, request.consumer_id)
        self.server.channels.answered(line, answer[4:])
        self.turn()


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_a_consumer_is_stopped_and_started_on_the_connection_it_registered_on(leader: Leader) -> None:
    line, other = leader.line(), leader.line()
    assert leader.register(line) == 0
    [stop] = line.pushed
    assert is_of_coordinator(stop)
    assert read_push(stop)[:2] == (FIRST_ID, api_keys.STOP_FETCHER)
    leader.answer(line, stop)
    start = line.pushed[1]
    assert read_push(start)[:2] == (FIRST_ID + 1, api_keys.START_FETCHER)
    leader.answer(line, start)
    assert len(line.pushed) == 2
    assert other.pushed == []


def test_answers_and_requests_of_both_sides_are_told_apart_by_their_first_bit(leader: Leader) -> None:
    line = leader.line()
    leader.register(line)
    frame = request_frame("heartbeat", 4, 7, "c", {"group_id": "g", "generation_id": 1, "member_id": "m"})
    assert not is_of_coordinator(frame[4:])
    assert is_of_coordinator(line.pushed[0])
    assert not is_of_coordinator(b"")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (written_answer(-1, api_keys.PING, "a"), "it sent none"),
        (written_answer(FIRST_ID, api_keys.STOP_FETCHER, "b"), "consumer b"),
        (written_answer(FIRST_ID, api_keys.START_FETCHER, "a")[:-1], "cut short"),
    ],
)
def test_an_answer_to_nothing_that_was_asked_is_malformed(leader: Leader, answer: bytes, says: str) -> None:
    """Whoever reads the socket closes the connection with that one line."""
    line = leader.line()
    leader.register(line)
    with pytest.raises(MalformedRequest, match=says):
        leader.server.channels.answered(line, answer[4:])


def test_an_answer_given_twice_is_malformed(leader: Leader) -> None:
    line = leader.line()
    leader.register(line)
    leader.answer(line, line.pushed[0])
    with pytest.raises(MalformedRequest, match="it sent none"):
        leader.answer(line, line.pushed[0])


def test_an_answer_where_nobody_has_registered_is_malformed(leader: Leader) -> None:
    with pytest.raises(MalformedRequest, match="no consumer registered"):
        leader.server.channels.answered(leader.line(), written_answer(-1, api_keys.PING, "a")[4:])


def test_each_consumer_needs_a_connection_of_its_own(leader: Leader) -> None:
    line = leader.line()
    assert leader.register(line) == 0
    assert leader.register(line, "b") == 42
    assert leader.register(leader.line(), "b") == 0
    assert len(leader.server.channels) == 2


def test_a_refused_consumer_may_try_again_on_its_connection(leader: Leader) -> None:
    first, second = leader.line(), leader.line()
    leader.register(first)
    assert leader.register(second) == 111
    leader.server.channels.closed(first)
    assert leader.register(second) == 0


def test_a_relayed_consumer_is_told_that_it_needs_a_connection(leader: Leader) -> None:
    frame = request_frame(API, 0, 7, "test", {**ASKED, "consumer_id": "a"})[4:]
    header, body_offset = parse_header(frame)
    answered = leader.server.serve_relayed(header, frame, body_offset, CLIENT, leader.late.append)
    assert answered is not None
    fields = parse_answer(API, 0, answered[4:])[1]
    assert fields["error_code"] == 42
    assert "connection of its own" in fields["error_message"]
    assert len(leader.server.channels) == 0


def test_a_request_that_is_too_old_is_not_sent(leader: Leader) -> None:
    """It has waited for its commit for more than a tenth of the session."""
    line = leader.line()
    fields = {**ASKED, "consumer_id": "a"}
    frame = request_frame(API, 0, 1, "test", fields)[4:]
    header, body_offset = parse_header(frame)
    assert leader.server.serve(header, frame, body_offset, line)[0] is None
    leader.replica.run_timers(leader.now_ms)
    leader.now_ms += 3_001
    commit(leader.replica)
    assert leader.late
    assert line.pushed == []


def test_a_silent_consumers_connection_is_closed(leader: Leader) -> None:
    line = leader.line()
    leader.register(line)
    leader.turn(20_000)
    assert line.closed_for == "consumer a of group g has left 1 of its coordinator's requests unanswered"


def test_a_leader_that_falls_closes_the_connections_of_its_consumers(leader: Leader) -> None:
    line = leader.line()
    leader.register(line)
    leader.replica.on_fallen()
    leader.server.channels.close_all()
    assert line.closed_for == "closed"
    leader.server.channels.closed(line)
    assert len(leader.server.channels) == 0


def test_consumers_of_a_group_that_has_moved_are_let_go(leader: Leader) -> None:
    line = leader.line()
    leader.register(line)
    leader.server.channels.review(leader.server._gate, lambda group_id: True)
    assert line.closed_for is None
    leader.server.channels.review(leader.server._gate, lambda group_id: False)
    assert line.closed_for is not None


def test_requests_that_have_no_answer_are_remembered_up_to_a_bound(leader: Leader) -> None:
    line = leader.line()
    leader.register(line)
    channel = line.channel
    assert channel is not None
    for number in range(3 * OWED_MAX):
        channel.send(Pushed(api_keys.PING, number, 0, PingRequest("g", "a", number)))
    assert len(channel.owed) == OWED_MAX


def test_correlation_ids_stay_negative_when_they_begin_anew(leader: Leader) -> None:
    line = leader.line()
    leader.register(line)
    channel = line.channel
    assert channel is not None
    channel.next_id = -1
    for number in range(2):
        channel.send(Pushed(api_keys.PING, number, 0, PingRequest("g", "a", number)))
    assert [read_push(frame)[0] for frame in line.pushed[-2:]] == [-1, FIRST_ID]

"""A push group whose offsets partition is split: its consumers go on at the child, where they were."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from actors.ground.contract import Push, Request
from actors.protocol import api_keys
from actors.protocol.push_messages import (
    ConsumedOffsets,
    ConsumerAnswer,
    Pushed,
    RegisterConsumerRequest,
    StartFetcherRequest,
    TopicCount,
)
from tests.coordinator.driver import image_of
from tests.coordinator.push.pushing import at_level
from tests.coordinator.split.halves import MOVES, Half, Split

SESSION_MS = 30_000
REGISTER = RegisterConsumerRequest(MOVES, "a", (TopicCount("t", False, 1),), True, "smallest", SESSION_MS)


class Consumer:
    """The one consumer of the group, at one of the leaders."""

    def __init__(self, half: Half) -> None:
        self._half = half
        self._pushes: list[Push] = []
        half.replica.push = self._pushes.append
        half.replica.on_metadata(at_level(image_of(2, t=4)), half.now_ms)
        self.session = 0

    def register(self) -> int:
        self.session = self._half.send(api_keys.REGISTER_CONSUMER, REGISTER, 0)
        self._half.advance(0)
        self._half.commit()
        return int(self._half.replies[self.session].error_code)

    def asked(self) -> Pushed:
        """Return the coordinator's last request."""
        self._half.commit()
        pushed = self._pushes.pop().body
        assert isinstance(pushed, Pushed)
        return pushed

    def answer(self, pushed: Pushed, offsets: ConsumedOffsets = ()) -> None:
        body = ConsumerAnswer(MOVES, "a", self.session, pushed.number, 0, offsets, False)
        self._half.replica.tell(Request(0, pushed.api_key, 0, "", "", body), self._half.now_ms)
        self._half.commit()


def test_a_push_group_goes_on_at_the_child() -> None:
    """D10: it is started with what it owned, and from the last offset that it told; nobody has to stop."""
    split = Split()
    at_parent, at_child = Consumer(split.parent), Consumer(split.child)
    assert at_parent.register() == 0
    for api_key, offsets in (
        (api_keys.STOP_FETCHER, ()),
        (api_keys.START_FETCHER, ()),
        (api_keys.PING, (("t", ((0, 7),)),)),
    ):
        split.parent.advance(SESSION_MS // 3 if api_key == api_keys.PING else 0)
        pushed = at_parent.asked()
        assert pushed.api_key == api_key
        at_parent.answer(pushed, offsets)
    split.hand_over()
    assert at_parent.register() == ErrorCode.not_coordinator
    assert at_child.register() == 0
    start = at_child.asked().request
    assert isinstance(start, StartFetcherRequest)
    [owned] = start.ownership
    assert start.generation_id == 1
    assert [position[1:] for position in owned.partitions] == [(0, 7), (1, -1), (2, -1), (3, -1)]
    assert split.parent.drop().error_code == 0
    assert [group.group_id for group in split.child.list_groups()] == [MOVES]

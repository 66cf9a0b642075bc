"""Requests are passed on to brokers as they are, within bounds, and survive the loss of the broker asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from actors.network.wire import Wire, parse_answer, request_frame
from actors.protocol.api_keys import API_VERSIONS, DESCRIBE_CLUSTER
from actors.upstream import forwarding
from actors.upstream.connecting import connector
from actors.upstream.controllers import Address, Versions
from actors.upstream.forwarding import Forwarding, Unreachable
from tests.polling import reached
from tests.upstream.speaking_broker import VERSION, SpeakingBroker, question


def answered_by(frame: bytes | None, correlation_id: int) -> int:
    assert frame is not None
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    found, fields = parse_answer("describe_cluster", VERSION, frame[4:])
    assert found == correlation_id
    return int(fields["controller_id"])


@asynccontextmanager
async def brokers(*ids: int) -> AsyncIterator[list[SpeakingBroker]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(SpeakingBroker(each).listening()) for each in ids]


def way_to(*made: SpeakingBroker) -> Forwarding:
    return Forwarding(connector("story"), lambda: [broker.address for broker in made])


def test_a_request_comes_back_answered_as_it_went() -> None:
    async def story() -> None:
        async with brokers(7) as (broker,):
            way = way_to(broker)
            answers = await asyncio.gather(*(way.forward(question(n), may_repeat=True) for n in range(50)))
            assert [answered_by(answer, n) for n, answer in enumerate(answers)] == [7] * 50
            assert broker.asked == 50
            await way.close()

    asyncio.run(story())


def test_one_broker_is_asked_as_long_as_it_is_there() -> None:
    async def story() -> None:
        async with brokers(7, 8) as (first, second):
            known = [first.address, second.address]
            way = Forwarding(connector("story"), lambda: known)
            assert answered_by(await way.forward(question(1), may_repeat=True), 1) == 7
            known.reverse()
            assert answered_by(await way.forward(question(2), may_repeat=True), 2) == 7
            known.remove(first.address)
            assert answered_by(await way.forward(question(3), may_repeat=True), 3) == 8
            await way.close()

    asyncio.run(story())


def test_those_that_ask_at_the_same_time_ask_the_same_broker() -> None:
    async def story() -> None:
        async with brokers(7, 8) as (first, second):
            known = [first.address, second.address]
            way = Forwarding(connector("story"), lambda: known)
            await way.greet()
            known.reverse()
            answers = await asyncio.gather(*(way.forward(question(n), may_repeat=True) for n in range(5)))
            assert [answered_by(answer, n) for n, answer in enumerate(answers)] == [7] * 5
            await way.close()

    asyncio.run(story())


def test_the_answer_to_another_request_is_none() -> None:
    async def story() -> None:
        async with brokers(7) as (broker,):
            way = way_to(broker)
            await way.greet()
            broker.is_confused = True
            assert await way.forward(question(3), may_repeat=False) is None
            broker.is_confused = False
            assert answered_by(await way.forward(question(4), may_repeat=False), 4) == 7
            await way.close()

    asyncio.run(story())


def test_what_changes_nothing_is_asked_again_when_a_broker_is_lost() -> None:
    async def story() -> None:
        async with brokers(7) as (broker,):
            way = way_to(broker)
            broker.hangs_up = True
            assert answered_by(await way.forward(question(1), may_repeat=True), 1) == 7
            assert broker.asked == 2
            broker.hangs_up = True
            assert await way.forward(question(2), may_repeat=False) is None
            assert broker.asked == 3, "it may have been carried out"
            assert answered_by(await way.forward(question(3), may_repeat=False), 3) == 7
            await way.close()

    asyncio.run(story())


def test_a_connection_that_the_broker_has_closed_is_not_used() -> None:
    async def story() -> None:
        async with brokers(7) as (broker,):
            way = way_to(broker)
            await way.forward(question(1), may_repeat=False)
            await broker.hang_up()
            await reached(lambda: all(line.wire.is_closed for line in way._idle), "the end is seen")
            assert answered_by(await way.forward(question(2), may_repeat=False), 2) == 7
            await way.close()

    asyncio.run(story())


def test_who_hangs_is_given_up_in_time_and_nobody_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "ANSWER_TIMEOUT_S", 0.2)

    async def story() -> None:
        async with brokers(7) as (broker,):
            way = way_to(broker)
            await way.greet()
            broker.is_frozen = True
            assert await way.forward(question(1), may_repeat=True) is None
            await way.close()
        assert await way.forward(question(2), may_repeat=True) is None
        assert way.problem is not None
        assert str(broker.address[1]) in way.problem
        with pytest.raises(Unreachable):
            await way.greet()

    asyncio.run(story())


def test_another_broker_is_asked_when_one_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "ANSWER_TIMEOUT_S", 0.2)

    async def story() -> None:
        async with brokers(7, 8) as (first, second):
            known = [first.address, second.address]
            way = Forwarding(connector("story"), lambda: known)
            await asyncio.gather(*(way.forward(question(n), may_repeat=True) for n in range(5)))
            first.is_frozen = True
            assert await way.forward(question(6), may_repeat=True) is None
            known.reverse()
            assert answered_by(await way.forward(question(7), may_repeat=True), 7) == 8
            await way.close()

    asyncio.run(story())


def test_what_is_too_much_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "FORWARDED_MAX", 2)

    async def story() -> None:
        async with brokers(7) as (broker,):
            way = way_to(broker)
            await way.greet()
            broker.is_frozen = True
            waiting = [asyncio.ensure_future(way.forward(question(n), may_repeat=True)) for n in (1, 2)]
            await asyncio.sleep(0)
            assert await way.forward(question(3), may_repeat=True) is None
            broker.is_frozen = False
            answers = await asyncio.gather(*waiting)
            assert [answered_by(answer, n) for n, answer in zip((1, 2), answers, strict=True)] == [7, 7]
            monkeypatch.setattr(forwarding, "FORWARDED_BYTES_MAX", len(question(4)) - 1)
            assert await way.forward(question(4), may_repeat=True) is None
            await way.close()

    asyncio.run(story())


def test_no_more_connections_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "FORWARDING_CONNECTIONS_MAX", 3)
    open_now = most = 0

    async def counted(address: Address) -> tuple[Wire, Versions]:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        return await connector("story")(address)

    async def story() -> None:
        async with brokers(7) as (broker,):
            way = Forwarding(counted, lambda: [broker.address])
            await asyncio.gather(*(way.forward(question(n), may_repeat=True) for n in range(30)))
            assert most == 3
            await way.close()

    asyncio.run(story())


class SlowBroker(SpeakingBroker):
    """A broker that answers those late who want to know what they may do."""

    def __init__(self) -> None:
        super().__init__(7)
        self.goes_on = asyncio.Event()
        self.waiting = 0

    async def _describe_cluster(self, asked: Any) -> dict[str, Any]:
        if asked["include_cluster_authorized_operations"]:
            self.waiting += 1
            await self.goes_on.wait()
        return await super()._describe_cluster(asked)


def test_who_asks_does_not_wait_for_what_is_changed() -> None:
    """Topics are made for as long as their clients say."""

    async def story() -> None:
        async with SlowBroker().listening() as broker:
            way = way_to(broker)
            fields = {"include_cluster_authorized_operations": True, "endpoint_type": 1}
            slow = request_frame("describe_cluster", VERSION, 1, "client", fields)[4:]
            changes = [asyncio.ensure_future(way.forward(slow, may_repeat=False)) for _ in range(100)]
            await reached(lambda: broker.waiting >= forwarding.FORWARDING_CONNECTIONS_MAX // 2)
            async with asyncio.timeout(forwarding.ANSWER_TIMEOUT_S / 3):
                assert answered_by(await way.forward(question(2), may_repeat=True), 2) == 7
            broker.goes_on.set()
            assert {answered_by(answer, 1) for answer in await asyncio.gather(*changes)} == {7}
            await way.close()

    asyncio.run(story())


def test_what_a_broker_offers_is_known_once_it_was_greeted() -> None:
    async def story() -> None:
        async with brokers(7) as (broker,):
            way = way_to(broker)
            assert way.offered is None
            await way.greet()
            assert way.offered is not None
            assert way.offered.versions == {API_VERSIONS: (0, 3), DESCRIBE_CLUSTER: (0, 1)}
            assert [row["name"] for row in way.offered.supported] == ["feature-7"]
            await way.close()

    asyncio.run(story())


def test_a_request_of_any_version_is_passed_on_unread() -> None:
    """The broker closes the connection on what it does not know; the next one has another connection."""

    async def story() -> None:
        async with brokers(7) as (broker,):
            way = way_to(broker)
            unknown = b"\x00\x2d\x7f\xff\x00\x00\x00\x09" + bytes(40)
            assert await way.forward(unknown, may_repeat=False) is None
            assert answered_by(await way.forward(question(1), may_repeat=False), 1) == 7
            await way.close()

    asyncio.run(story())

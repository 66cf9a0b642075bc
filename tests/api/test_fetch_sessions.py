"""Fetch sessions over the wire (KIP-227): what is left out of an answer, and what ends a session."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from actors.ground.spec import BrokerSettings
from actors.metadata.commands import CreateTopics, DeleteTopics, NewTopic, TopicToDelete
from actors.protocol.api_keys import FETCH
from tests.api.brokers import Broker, brokers, part
from tests.api.test_fetch import LONG, NO_WAIT, append, fetch, id_of, one_topic, parts, run, settle

WITH_SESSIONS = (7, 12, 13, 18)


def told(answer: Any) -> dict[int, ErrorCode]:
    """Partition -> error code, of an answer about topic t or none."""
    assert answer.error_code == ErrorCode.none
    return {each.partition_index: each.error_code for topic in answer.responses for each in topic.partitions}


@pytest.mark.parametrize("version", WITH_SESSIONS)
def test_a_session_remembers_its_partitions_and_tells_news_only(version: int) -> None:
    async def story() -> None:
        _, one = one_topic()
        append(one, b"a")
        first = await fetch(one, {0: 1, 1: 0}, version=version, session_epoch=0)
        assert told(first) == {0: ErrorCode.none, 1: ErrorCode.none}
        session = {"version": version, "session_id": first.session_id}
        assert first.session_id > 0
        quiet = await fetch(one, {}, session_epoch=1, **session)
        assert (quiet.session_id, told(quiet)) == (first.session_id, {})
        append(one, b"b", partition=1)
        assert told(await fetch(one, {}, session_epoch=2, **session)) == {1: ErrorCode.none}
        assert told(await fetch(one, {1: 1}, session_epoch=3, **session)) == {}

    run(story())


@pytest.mark.parametrize("version", WITH_SESSIONS)
def test_a_fetch_without_a_session_opens_none(version: int) -> None:
    async def story() -> None:
        _, one = one_topic()
        assert (await fetch(one, {0: 0}, version=version, session_epoch=-1)).session_id == 0
        assert len(one.context.fetch_sessions) == 0

    run(story())


@pytest.mark.parametrize("version", WITH_SESSIONS)
def test_a_wrong_session_or_epoch_is_refused_at_once(version: int) -> None:
    async def story() -> None:
        _, one = one_topic()
        session_id = (await fetch(one, {0: 0}, version=version, session_epoch=0)).session_id
        for wrong, epoch, code in (
            (session_id + 1, 1, ErrorCode.fetch_session_id_not_found),
            (0, 1, ErrorCode.fetch_session_id_not_found),
            (session_id, 2, ErrorCode.invalid_fetch_session_epoch),
            (session_id, -2, ErrorCode.invalid_fetch_session_epoch),
        ):
            fields = {"session_id": wrong, "session_epoch": epoch, "max_wait": LONG}
            answer = await fetch(one, {0: 0}, version=version, **fields)
            assert (answer.error_code, answer.session_id, answer.responses) == (code, 0, ())
        other = 12 if version >= 13 else 13
        fields = {"session_id": session_id, "session_epoch": 1, "max_wait": LONG}
        answer = await fetch(one, {0: 0}, version=other, **fields)
        assert answer.error_code == ErrorCode.fetch_session_topic_id_error
        assert (await fetch(one, {}, version=version, session_id=session_id, session_epoch=1)).error_code == 0

    run(story())


@pytest.mark.parametrize("version", WITH_SESSIONS)
def test_a_session_ends_with_its_last_partition_with_epoch_minus_1_and_with_a_new_one(version: int) -> None:
    async def gone(broker: Broker, session_id: int) -> bool:
        answer = await fetch(broker, {}, version=version, session_id=session_id, session_epoch=1)
        return bool(answer.error_code == ErrorCode.fetch_session_id_not_found)

    async def story() -> None:
        _, one = one_topic()
        begun = [(await fetch(one, {0: 0}, version=version, session_epoch=0)).session_id for _ in range(3)]
        forgotten = part(FETCH, version, "ForgottenTopic", topic="t", topic_id=id_of(one), partitions=(0,))
        nothing = await fetch(
            one,
            {},
            version=version,
            session_id=begun[0],
            session_epoch=1,
            forgotten_topics_data=(forgotten,),
            max_wait=LONG,
        )
        assert (nothing.session_id, told(nothing)) == (0, {})
        last = await fetch(one, {0: 0}, version=version, session_id=begun[1], session_epoch=-1)
        assert (last.session_id, told(last)) == (0, {0: ErrorCode.none})
        other = await fetch(one, {0: 0}, version=version, session_id=begun[2], session_epoch=0)
        assert other.session_id not in (0, begun[2])
        assert [await gone(one, session_id) for session_id in begun] == [True] * 3

    run(story())


def test_a_session_waits_for_partitions_that_the_request_does_not_name() -> None:
    async def story() -> None:
        _, one = one_topic()
        session_id = (await fetch(one, {0: 0, 1: 0}, version=18, session_epoch=0)).session_id
        session = {"session_id": session_id, "session_epoch": 1}
        waiting = asyncio.ensure_future(fetch(one, {}, version=18, max_wait=LONG, **session))
        await settle()
        assert not waiting.done()
        append(one, b"a", partition=1)
        (read,) = parts(await waiting)
        assert (read.partition_index, read.high_watermark) == (1, 1)

    run(story())


def test_of_two_requests_that_go_on_at_once_the_first_is_told_that_it_is_late() -> None:
    async def story() -> None:
        _, one = one_topic()
        session_id = (await fetch(one, {0: 0}, version=18, session_epoch=0)).session_id
        first, second = (
            asyncio.ensure_future(
                fetch(one, {}, version=18, session_id=session_id, session_epoch=epoch, max_wait=LONG)
            )
            for epoch in (1, 2)
        )
        await settle()
        append(one, b"a")
        assert (await first).error_code == ErrorCode.invalid_fetch_session_epoch
        assert told(await second) == {0: ErrorCode.none}

    run(story())


def test_no_partition_starves_in_answers_that_have_room_for_one() -> None:
    async def story() -> None:
        _, one = one_topic()
        size = append(one, b"x" * 100)
        append(one, b"x" * 100, partition=1)
        first = await fetch(one, {0: 0, 1: 0}, version=18, session_epoch=0, max_bytes=size)
        given = [[len(each.records) for each in parts(first)]]
        for epoch in (1, 2, 3):
            session = {"session_id": first.session_id, "session_epoch": epoch}
            answer = await fetch(one, {}, version=18, max_bytes=size, **session)
            given.append([each.partition_index for each in parts(answer) if each.records])
        assert given == [[size, 0], [0], [1], [0]]

    run(story())


def test_a_topic_that_is_deleted_and_made_again_is_another_one_to_a_session_of_ids() -> None:
    """A session remembers the topic's name with its id: without a topic of that name the partition is
    unknown, and with another topic of that name the id is inconsistent."""

    async def story() -> None:
        controller, one = one_topic()
        old_id = id_of(one)
        by_id = (await fetch(one, {0: 0}, version=18, session_epoch=0)).session_id
        by_name = (await fetch(one, {0: 0}, version=12, session_epoch=0)).session_id
        controller.decide(DeleteTopics((TopicToDelete("t"),)))
        unknown = {0: ErrorCode.unknown_topic_or_partition}
        for version, session_id in ((18, by_id), (12, by_name)):
            assert told(await go_on(one, version, session_id, 1)) == unknown
        controller.decide(CreateTopics((NewTopic("t", assignments=((0, (1,)),)),)))
        assert told(await go_on(one, 18, by_id, 2)) == {0: ErrorCode.inconsistent_topic_id}
        assert told(await go_on(one, 12, by_name, 2)) == {0: ErrorCode.none}
        wanted = part(FETCH, 18, "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=9)
        topic = part(FETCH, 18, "FetchTopic", topic_id=old_id, partitions=(wanted,))
        fields = {"max_wait": LONG, "min_bytes": 1, "forgotten_topics_data": ()}
        assert told(await one.ask(FETCH, 18, topics=(topic,), **fields)) == {0: ErrorCode.unknown_topic_id}

    async def go_on(broker: Broker, version: int, session_id: int, epoch: int) -> Any:
        fields = {"max_wait": NO_WAIT, "min_bytes": 1, "forgotten_topics_data": (), "topics": ()}
        return await broker.ask(FETCH, version, session_id=session_id, session_epoch=epoch, **fields)

    run(story())


def test_a_topic_id_that_is_unknown_at_first_is_found_once_the_topic_is_there() -> None:
    async def story() -> None:
        controller, (one, *_) = brokers()
        wanted = part(FETCH, 18, "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=9)
        nobodys = part(FETCH, 18, "FetchTopic", topic_id=uuid.UUID(int=1), partitions=(wanted,))
        fields: dict[str, Any] = {"max_wait": LONG, "min_bytes": 0, "forgotten_topics_data": ()}
        first = await one.ask(FETCH, 18, topics=(nobodys,), session_epoch=0, **fields)
        assert told(first) == {0: ErrorCode.unknown_topic_id}
        controller.decide(CreateTopics((NewTopic("t", assignments=((0, (1,)),)),)))
        assert id_of(one) == uuid.UUID(int=1)
        session = {"session_id": first.session_id, "session_epoch": 1}
        assert told(await one.ask(FETCH, 18, topics=(), **session, **fields)) == {0: ErrorCode.none}

    run(story())


def test_without_slots_every_fetch_is_a_full_one() -> None:
    async def story() -> None:
        settings = BrokerSettings(max_incremental_fetch_session_cache_slots=0)
        controller, (one, *_) = brokers(settings)
        controller.decide(CreateTopics((NewTopic("t", assignments=((0, (1,)),)),)))
        answer = await fetch(one, {0: 0}, version=18, session_epoch=0)
        assert (answer.session_id, told(answer)) == (0, {0: ErrorCode.none})

    run(story())


@pytest.mark.parametrize("version", [12, 18])
def test_a_client_that_has_read_on_where_the_log_ended_is_told_up_to_where_both_agree(version: int) -> None:
    """KIP-595: the answer comes at once, whatever the wait."""

    async def ask(broker: Broker, offset: int, epoch: int) -> Any:
        wanted = part(
            FETCH,
            version,
            "FetchPartition",
            partition=0,
            fetch_offset=offset,
            last_fetched_epoch=epoch,
            partition_max_bytes=10**6,
        )
        topic = part(FETCH, version, "FetchTopic", topic="t", topic_id=id_of(broker), partitions=(wanted,))
        fields = {"max_wait": LONG, "min_bytes": 1, "forgotten_topics_data": ()}
        (read,) = parts(await broker.ask(FETCH, version, topics=(topic,), **fields))
        return read

    async def story() -> None:
        _, one = one_topic()
        append(one, b"a", b"b")
        ahead = await ask(one, 5, 0)
        assert (ahead.error_code, ahead.records) == (ErrorCode.none, b"")
        assert (ahead.diverging_epoch.epoch, ahead.diverging_epoch.end_offset) == (0, 2)
        right = await ask(one, 0, 0)
        assert right.records
        assert right.diverging_epoch.end_offset == -1
        assert (await ask(one, 0, 1)).error_code == ErrorCode.offset_out_of_range

    run(story())


def test_a_negative_size_counts_only_where_there_is_something_to_read() -> None:
    """An offset that the log does not have is told first (W34); once every partition was refused instead."""

    async def story() -> None:
        _, one = one_topic()
        found = [
            parts(await fetch(one, {0: offset}, partition_max_bytes=-1))[0].error_code
            for offset in (0, 9, -1)
        ]
        assert found == [ErrorCode.none, ErrorCode.offset_out_of_range, ErrorCode.offset_out_of_range]

    run(story())


@pytest.mark.parametrize("version", [4, 7, 12])
def test_an_isolation_level_that_there_is_not_is_not_looked_at_for_partitions_that_are_not_there(
    version: int,
) -> None:
    """The partition's own error is told (W34); every partition was refused with UNKNOWN_SERVER_ERROR."""

    async def story() -> None:
        _, one = one_topic()
        answer = await fetch(one, {7: 0}, version=version, isolation_level=2, max_wait=LONG)
        assert [each.error_code for each in parts(answer)] == [ErrorCode.unknown_topic_or_partition]
        if version >= 7:
            assert answer.error_code == ErrorCode.none

    run(story())


@pytest.mark.parametrize("version", WITH_SESSIONS)
def test_what_the_last_request_of_a_session_names_is_answered(version: int) -> None:
    """W35: it follows a partition and forgets it at once. The answer was empty."""

    async def story() -> None:
        _, one = one_topic()
        session_id = (await fetch(one, {}, version=version, session_epoch=0)).session_id
        forgotten = part(FETCH, version, "ForgottenTopic", topic="t", topic_id=id_of(one), partitions=(0,))
        fields = {"session_id": session_id, "session_epoch": 1, "forgotten_topics_data": (forgotten,)}
        answer = await fetch(one, {0: 5}, version=version, **fields)
        assert answer.session_id == 0
        assert told(answer) == {0: ErrorCode.offset_out_of_range}

    run(story())


@pytest.mark.parametrize("version", WITH_SESSIONS)
def test_a_session_goes_on_after_an_isolation_level_that_there_is_not(version: int) -> None:
    """W34: the answer told no session, so that clients began another one."""

    async def story() -> None:
        _, one = one_topic()
        session_id = (await fetch(one, {0: 0}, version=version, session_epoch=0)).session_id
        session = {"version": version, "session_id": session_id}
        answer = await fetch(one, {}, isolation_level=2, session_epoch=1, **session)
        assert (answer.error_code, answer.session_id) == (ErrorCode.unknown_server_error, session_id)
        answer = await fetch(one, {}, session_epoch=2, **session)
        assert (answer.error_code, answer.session_id) == (ErrorCode.none, session_id)

    run(story())


@pytest.mark.parametrize("version", [4, 6, 7, 18])
def test_an_isolation_level_that_there_is_not_refuses_the_whole_request(version: int) -> None:
    async def story() -> None:
        _, one = one_topic()
        answer = await fetch(one, {0: 0, 1: 0}, version=version, isolation_level=2, max_wait=LONG)
        wrong = ErrorCode.unknown_server_error
        if version >= 7:
            assert answer.error_code == wrong
        told_each = [] if version >= 13 else parts(answer)
        assert [each.error_code for each in told_each] == [wrong] * len(told_each)
        assert bool(answer.responses) == bool(told_each)

    run(story())

"""What a follower does with what controllers answer: only what is committed counts, and nothing is lost or
kept that should not be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.static.primitive import i16

from actors.ground.limits import METADATA_BATCH_BYTES_MAX, METADATA_SNAPSHOT_CHUNK_BYTES
from actors.topics.batch import BatchHeader
from actors.upstream import controllers, following
from actors.upstream.applying import apply_batch
from actors.upstream.control_records import SNAPSHOT_FOOTER
from actors.upstream.controllers import CannotFollow
from actors.upstream.following import Follower
from actors.upstream.image import ClusterImage
from tests.polling import reached
from tests.upstream.kafka import connector, run
from tests.upstream.log import batch, control_batch, framed, record, topic_id
from tests.upstream.scripted import ScriptedController

READ_S = 10.0


def named(number: int) -> bytes:
    return record("topic", name=f"topic-{number}", topic_id=topic_id(number))


def names(image: ClusterImage | None) -> list[str]:
    return [] if image is None else sorted(image.topic_ids)


def snapshot(*values: bytes, has_end: bool = True) -> bytes:
    """The bytes of a snapshot with a batch for each record."""
    batches = [batch(number, value) for number, value in enumerate(values)]
    footer = control_batch(len(values), SNAPSHOT_FOOTER, SnapshotFooterRecord(version=i16(0)))
    return b"".join([*batches, footer] if has_end else batches)


@asynccontextmanager
async def followed(*controllers: ScriptedController) -> AsyncIterator[Follower]:
    """A follower that runs."""
    follower = Follower(connector(), [each.address for each in controllers])
    task = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def test_what_is_not_committed_is_not_seen() -> None:
    async def story() -> None:
        async with ScriptedController().listening() as controller:
            controller.batches = [batch(0, named(1)), batch(1, named(2), named(3))]
            controller.high_watermark = 2
            async with followed(controller) as follower:
                await reached(lambda: len(controller.fetches) > 5)
                assert follower.image is None
                controller.high_watermark = 3
                await reached(lambda: names(follower.image) == ["topic-1", "topic-2", "topic-3"])
                await reached(lambda: set(controller.fetches) == {0, 1, 3})

    run(story())


def test_a_new_leader_may_have_another_end() -> None:
    """What was never committed is simply something else on the next controller."""

    async def story() -> None:
        async with ScriptedController().listening() as old, ScriptedController().listening() as new:
            old.batches = [batch(0, named(1)), batch(1, named(2))]
            old.high_watermark = 1
            new.batches = [batch(0, named(1)), batch(1, named(3), epoch=2)]
            new.high_watermark, new.epoch = 2, 2
            new.leader = old.address
            async with followed(old) as follower:
                await reached(lambda: names(follower.image) == ["topic-1"])
                first = follower.image
                new.leader, old.leader = None, new.address
                await reached(lambda: names(follower.image) == ["topic-1", "topic-3"])
                assert follower.image is first
                assert follower.active is not None
                assert follower.active.address == new.address
                await reached(lambda: follower.problem is None)

    run(story())


def test_a_frozen_controller_is_left_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "REQUEST_TIMEOUT_S", 0.2)

    async def story() -> None:
        async with ScriptedController().listening() as old, ScriptedController().listening() as new:
            for each in (old, new):
                each.batches, each.high_watermark = [batch(0, named(1))], 1
            new.leader = old.address
            async with followed(new) as follower:
                await reached(lambda: names(follower.image) == ["topic-1"])
                old.is_frozen, new.leader = True, None
                new.epoch, new.high_watermark = 2, 2
                new.batches.append(batch(1, named(2), epoch=2))
                await reached(lambda: names(follower.image) == ["topic-1", "topic-2"])
                old.is_frozen = False

    run(story())


def test_another_history_is_read_from_its_beginning() -> None:
    async def story() -> None:
        async with ScriptedController().listening() as controller:
            controller.batches = [batch(0, named(1)), batch(1, named(2))]
            controller.high_watermark = 2
            async with followed(controller) as follower:
                await reached(lambda: names(follower.image) == ["topic-1", "topic-2"])
                before = follower.image
                controller.batches = [batch(0, named(3))]
                controller.diverging, controller.high_watermark = {"epoch": 1, "end_offset": 0}, 1
                await reached(lambda: names(follower.image) == ["topic-3"])
                assert names(before) == ["topic-1", "topic-2"]

    run(story())


@pytest.mark.parametrize("chunk_bytes", [1, 50, 1 << 20])
def test_a_snapshot_comes_in_pieces_of_any_size(chunk_bytes: int) -> None:
    async def story() -> None:
        async with ScriptedController().listening() as controller:
            controller.snapshot = (10, 3, snapshot(*(named(number) for number in range(5))))
            controller.start, controller.chunk_bytes = 10, chunk_bytes
            controller.epoch, controller.high_watermark = 4, 11
            controller.batches = [batch(10, named(9), epoch=4)]
            follower = Follower(connector(), [controller.address])
            image = await follower.read_once(READ_S)
            assert names(image) == [f"topic-{number}" for number in (0, 1, 2, 3, 4, 9)]
            assert (image.offset, image.epoch, follower.snapshots) == (10, 4, 1)
            assert controller.fetches[:2] == [0, 10]

    run(story())


def test_an_image_stays_until_the_one_from_a_snapshot_is_whole() -> None:
    """A follower that was away for too long gets a snapshot; what was deleted meanwhile is not in it."""

    async def story() -> None:
        async with ScriptedController().listening() as controller:
            controller.batches, controller.high_watermark = [batch(0, named(1))], 1
            async with followed(controller) as follower:
                await reached(lambda: names(follower.image) == ["topic-1"])
                before = follower.image
                controller.snapshot, controller.start = (50, 1, snapshot(named(2))), 50
                controller.batches, controller.high_watermark = [batch(50, named(3))], 51
                await reached(lambda: follower.image is not before)
                assert names(before) == ["topic-1"]
                assert names(follower.image) == ["topic-2", "topic-3"]

    run(story())


def test_a_snapshot_without_an_end_is_no_image() -> None:
    async def story() -> None:
        async with ScriptedController().listening() as controller:
            controller.snapshot, controller.start = (10, 1, snapshot(named(1), has_end=False)), 10
            controller.high_watermark = 10
            with pytest.raises(CannotFollow, match="the snapshot of offset 10 has no end"):
                await Follower(connector(), [controller.address]).read_once(0.5)

    run(story())


def test_an_open_transaction_holds_the_offset_back_and_not_the_follower() -> None:
    async def story() -> None:
        async with ScriptedController().listening() as controller:
            controller.batches = [batch(0, named(1)), batch(1, record("begin_transaction"), named(2))]
            controller.high_watermark = 3
            async with followed(controller) as follower:
                await reached(lambda: names(follower.image) == ["topic-1"])
                assert follower.image is not None
                assert follower.image.offset == 0
                controller.batches.append(batch(3, record("end_transaction")))
                controller.high_watermark = 4
                await follower.changed()
                assert (names(follower.image), follower.image.offset) == (["topic-1", "topic-2"], 3)

    run(story())


def test_records_of_a_newer_kafka_do_not_stop_the_follower() -> None:
    async def story() -> None:
        async with ScriptedController().listening() as controller:
            controller.batches, controller.high_watermark = [batch(0, framed(77, 0), named(1))], 2
            image = await Follower(connector(), [controller.address]).read_once(READ_S)
            assert names(image) == ["topic-1"]
            assert [kind.what for kind in image.unknown] == [
                "record type 77 version 0; the type is not known here"
            ]

    run(story())


def test_damage_is_told_and_read_again() -> None:
    async def story() -> None:
        async with ScriptedController().listening() as controller:
            good = batch(0, named(1))
            controller.batches, controller.high_watermark = [good[:-1] + bytes([good[-1] ^ 1])], 1
            with pytest.raises(CannotFollow, match="the batch at offset 0 does not match its CRC"):
                await Follower(connector(), [controller.address]).read_once(READ_S)

    run(story())


def test_what_nobody_foresaw_does_not_end_the_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record breaks the code that applies it, when half of its batch is in the image."""
    mistakes = iter([ZeroDivisionError("nobody foresaw this")])

    def applied(image: ClusterImage, header: BatchHeader, raw: bytes) -> bool:
        is_snapshots_end = apply_batch(image, header, raw)
        for mistake in mistakes:
            raise mistake
        return is_snapshots_end

    monkeypatch.setattr(following, "apply_batch", applied)
    monkeypatch.setattr(following, "CHANGED_PAUSE_S", 0.5)

    async def story() -> None:
        async with ScriptedController().listening() as controller:
            controller.batches, controller.high_watermark = [batch(0, named(1), named(2))], 2
            async with followed(controller) as follower:
                await reached(lambda: "nobody foresaw this" in (follower.problem or ""))
                assert follower.image is None
                await reached(lambda: names(follower.image) == ["topic-1", "topic-2"])
                await reached(lambda: follower.problem is None)
                assert follower.image is not None
                assert follower.image.changes == 2, "nothing is applied twice"

    run(story())


def test_answers_that_cannot_be_read_are_asked_for_again() -> None:
    async def story() -> None:
        async with ScriptedController().listening() as controller:
            controller.batches, controller.high_watermark = [batch(0, named(1))], 1
            async with followed(controller) as follower:
                await reached(lambda: names(follower.image) == ["topic-1"])
                controller.is_garbled = True
                await reached(lambda: "cannot be read" in (follower.problem or ""))
                controller.is_garbled = False
                await reached(lambda: follower.problem is None)

    run(story())


def test_controllers_of_another_cluster_are_not_followed() -> None:
    async def story() -> None:
        async with ScriptedController().listening() as first, ScriptedController().listening() as second:
            first.batches, first.high_watermark = [batch(0, named(1))], 1
            second.batches, second.high_watermark, second.cluster_id = [batch(0, named(2))], 1, "other"
            async with followed(first) as follower:
                await reached(lambda: names(follower.image) == ["topic-1"])
                first.leader = second.address
                await reached(lambda: "is a controller of cluster other" in (follower.problem or ""))
                assert names(follower.image) == ["topic-1"]

    run(story())


def test_the_cluster_that_is_to_be_followed_is_followed_and_no_other() -> None:
    async def story() -> None:
        async with ScriptedController().listening() as controller:
            follower = Follower(connector(), [controller.address], "mine")
            with pytest.raises(CannotFollow, match="the one that is followed is mine"):
                await follower.read_once(10)
            assert follower.image is None

    run(story())


def test_a_snapshot_is_read_in_bounded_memory() -> None:
    assert METADATA_SNAPSHOT_CHUNK_BYTES < METADATA_BATCH_BYTES_MAX

"""Follow the upstream cluster's metadata log: fetch it from the active controller into the followed image.

A controller gives away what it has, committed or not (KafkaRaftClient reads with UNCOMMITTED). So only
batches below the high watermark are applied; what is above it is not kept but asked for again a little later,
which bounds memory and leaves nothing to take back when a new leader decides otherwise. What is committed
never changes: if a controller has another history all the same (DivergingEpoch), the image is built anew.

The image that readers see is always whole: the first one appears when the log has been read to its end, and
one that comes from a snapshot takes the place of the image before it when the same is true of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final, NoReturn
from uuid import UUID

from kio.schema.errors import ErrorCode

from actors.ground.limits import METADATA_BATCH_BYTES_MAX, METADATA_SNAPSHOT_CHUNK_BYTES
from actors.network.wire import Closed
from actors.topics.batch_contents import whole_batches
from actors.topics.errors import LogError
from actors.upstream.applying import TransactionTooLarge, apply_batch, stand_at
from actors.upstream.controllers import (
    METADATA_TOPIC,
    ActiveController,
    Address,
    CannotFollow,
    Connect,
    Elsewhere,
    NotAllowed,
    call,
    find_active,
    version_of,
    words,
)
from actors.upstream.image import ClusterImage

log = logging.getLogger("groupd.upstream")

METADATA_TOPIC_ID: Final = UUID(int=1)
FETCH_VERSIONS: Final = (17, 16, 15, 14, 13)
SNAPSHOT_VERSIONS: Final = (1, 0)
FETCH_WAIT_MS: Final = 500
"""How long a controller may hold a fetch if there is nothing new; it answers at once when there is."""
UNCOMMITTED_PAUSES_S: Final = (0.005, 0.01, 0.02, 0.05)
"""How long, in seconds, to wait before what was not committed is asked for again; the last one repeats."""
TURN_S: Final = 0.01
"""How long, in seconds, batches are applied before the actor's other work has its turn."""
AGAIN_PAUSES_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""How long, in seconds, to wait before a controller is looked for again; the last one repeats."""
CHANGED_PAUSE_S: Final = 5.0
"""How long, in seconds, to wait before trying again what cannot work until somebody changes something."""
_NONE: Final = -1
_LOST: Final = (OSError, TimeoutError, Closed, Elsewhere)


class Follower:
    """One follower of the metadata log of cluster `cluster_id`; None: of the one whose controllers are found
    first. Run it as a task; cancelling the task ends it."""

    def __init__(
        self, connect: Connect, controllers: Sequence[Address], cluster_id: str | None = None
    ) -> None:
        self._connect = connect
        self._named = tuple(controllers)
        self._told: tuple[Address, ...] = ()
        self._left: Address | None = None
        self._cluster_id = cluster_id
        self._working = ClusterImage()
        self._next_offset = 0
        self._last_epoch = 0
        self._news = asyncio.Event()
        self.image: ClusterImage | None = None
        """The image, which changes while it is followed. It is None until the log has been read once."""
        self.active: ActiveController | None = None
        """The controller that is being asked."""
        self.snapshots = 0
        """How many snapshots were loaded: one at the beginning of most clusters' logs, and one whenever the
        log went on without this follower for so long that its next records are gone."""
        self.problem: str | None = None
        """Why nothing can be read now, in words; None if all is well."""

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id, as soon as a controller has told it."""
        return self._cluster_id

    async def run(self) -> NoReturn:
        """Follow for ever, through every change of the active controller."""
        failures = 0
        while True:
            try:
                await self._follow(until_caught_up=False)
            except CannotFollow as error:
                self.problem, pause_s = str(error), CHANGED_PAUSE_S
            except _LOST as error:
                # A controller that could be read from is asked for again at once.
                failures = 0 if self.problem is None else failures + 1
                self.problem = str(error) or "the controller does not answer"
                pause_s = AGAIN_PAUSES_S[min(failures, len(AGAIN_PAUSES_S) - 1)]
            except Exception as error:
                # Whoever has stopped reading decides on metadata that are old, and as a broker holds up the
                # shutdown of others.
                log.exception("the cluster's metadata cannot be followed; next try in %s s", CHANGED_PAUSE_S)
                self.problem, pause_s = f"a mistake of this release: {error!r}", CHANGED_PAUSE_S
                self._begin_anew()  # half of a batch may be applied
            await asyncio.sleep(pause_s)

    async def read_once(self, timeout_s: float) -> ClusterImage:
        """Read the log to its end and return the image. Raises CannotFollow, also if that takes longer than
        `timeout_s`."""
        tries = 0
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        await self._follow(until_caught_up=True)
                        assert self.image is not None, "it is up to date"
                        return self.image
                    except _LOST as error:
                        self.problem = str(error) or "the controller does not answer"
                    await asyncio.sleep(AGAIN_PAUSES_S[min(tries, len(AGAIN_PAUSES_S) - 1)])
                    tries += 1
        except TimeoutError:
            said = self.problem or "its metadata log could not be read to the end"
            raise CannotFollow(f"no answer within {timeout_s:.0f} s: {said}") from None

    async def changed(self) -> None:
        """Wait until the image has changed."""
        await self._news.wait()

    async def _follow(self, *, until_caught_up: bool) -> None:
        """Ask the active controller until it is none any more, or until the image is up to date. Raises
        CannotFollow, OSError, TimeoutError, Closed and Elsewhere."""
        # The one that was left last may be frozen: everybody else is asked before it.
        known = sorted(dict.fromkeys((*self._told, *self._named)), key=lambda address: address == self._left)
        active = await find_active(self._connect, known)
        try:
            self._check_cluster(active)
            self.active = active
            self._told = active.addresses or self._told
            idle = 0
            while True:
                moved, is_caught_up = await self._step(active)
                if is_caught_up:
                    self._publish()
                    if until_caught_up:
                        return
                if moved:
                    idle = 0
                    self._tell()
                elif not is_caught_up:
                    await asyncio.sleep(UNCOMMITTED_PAUSES_S[min(idle, len(UNCOMMITTED_PAUSES_S) - 1)])
                    idle += 1
        except (LogError, TransactionTooLarge) as error:
            self._begin_anew()
            raise CannotFollow(f"the metadata log cannot be read: {error}") from error
        finally:
            self.active = None
            self._left = active.address
            await active.wire.close()

    def _check_cluster(self, active: ActiveController) -> None:
        if self._cluster_id is None:
            self._cluster_id = active.cluster_id
        elif active.cluster_id not in (None, self._cluster_id):
            raise CannotFollow(
                f"{words(active.address)} is a controller of cluster {active.cluster_id}; "
                f"the one that is followed is {self._cluster_id}"
            )

    def _publish(self) -> None:
        self.problem = None
        if self.image is not self._working:
            self.image = self._working
            self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _begin_anew(self) -> None:
        self._working = ClusterImage()
        self._next_offset = self._last_epoch = 0

    async def _step(self, active: ActiveController) -> tuple[bool, bool]:
        """Fetch once and apply what is committed. Return whether anything was, and whether nothing is
        left."""
        partition = await self._fetch(active)
        snapshot = partition["snapshot_id"]
        if snapshot["end_offset"] != _NONE:
            await self._load_snapshot(active, snapshot)
            return True, False
        if partition["diverging_epoch"]["end_offset"] != _NONE:
            self._begin_anew()
            return False, False
        high_watermark, before = partition["high_watermark"], self._next_offset
        records = partition["records"] or b""
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        for header, batch in whole_batches(records):
            if header.last_offset >= high_watermark:
                break
            if loop.time() - began_at > TURN_S:
                await asyncio.sleep(0)
                began_at = loop.time()
            if header.last_offset >= self._next_offset:
                apply_batch(self._working, header, batch)
                self._next_offset, self._last_epoch = header.last_offset + 1, header.leader_epoch
        return self._next_offset > before, self._next_offset >= high_watermark > 0

    async def _fetch(self, active: ActiveController) -> dict[str, Any]:
        version = version_of("fetch", active.versions, FETCH_VERSIONS)
        if version is None:
            raise CannotFollow(f"{words(active.address)} offers no Fetch from version 13 on (Kafka 3.1)")
        asked = {
            "partition": 0,
            "current_leader_epoch": active.epoch,
            "fetch_offset": self._next_offset,
            "last_fetched_epoch": self._last_epoch,
            "partition_max_bytes": METADATA_BATCH_BYTES_MAX,
        }
        answer = await call(
            active.wire,
            "fetch",
            version,
            max_wait=FETCH_WAIT_MS,
            min_bytes=0,
            max_bytes=METADATA_BATCH_BYTES_MAX,
            topics=[{"topic_id": METADATA_TOPIC_ID, "partitions": [asked]}],
            forgotten_topics_data=[],
            rack_id="",
        )
        return _partition(answer, "responses", "Fetch")

    async def _load_snapshot(self, active: ActiveController, snapshot: dict[str, int]) -> None:
        """Build a new image from a snapshot, in chunks: only one, and a batch that is cut by its end, are in
        memory."""
        version = version_of("fetch_snapshot", active.versions, SNAPSHOT_VERSIONS)
        if version is None:
            raise CannotFollow(f"{words(active.address)} offers no FetchSnapshot in a version that is spoken")
        image, rest, position, is_whole = ClusterImage(), b"", 0, False
        while True:
            asked = {
                "partition": 0,
                "current_leader_epoch": active.epoch,
                "snapshot_id": snapshot,
                "position": position,
            }
            topics = [{"name": METADATA_TOPIC, "partitions": [asked]}]
            answer = await call(
                active.wire, "fetch_snapshot", version, max_bytes=METADATA_SNAPSHOT_CHUNK_BYTES, topics=topics
            )
            part = _partition(answer, "topics", "FetchSnapshot")
            chunk = part["unaligned_records"]
            position += len(chunk)
            data, read = rest + chunk, 0
            for header, batch in whole_batches(data):
                is_whole = apply_batch(image, header, batch) or is_whole
                read += len(batch)
            rest = data[read:]
            if position >= part["size"]:
                break
            if not chunk or len(rest) > METADATA_BATCH_BYTES_MAX:
                raise Elsewhere(f"the snapshot of offset {snapshot['end_offset']} does not go on")
        if not is_whole or rest:
            raise Elsewhere(f"the snapshot of offset {snapshot['end_offset']} has no end")
        stand_at(image, snapshot["end_offset"] - 1, snapshot["epoch"])
        self._working = image
        self.snapshots += 1
        self._next_offset, self._last_epoch = snapshot["end_offset"], snapshot["epoch"]


def _partition(answer: dict[str, Any], topics: str, api: str) -> dict[str, Any]:
    """Return what an answer says of the one partition. Raises NotAllowed and Elsewhere."""
    if answer["error_code"] == ErrorCode.cluster_authorization_failed:
        raise NotAllowed(f"{api} of {METADATA_TOPIC}", "CLUSTER_ACTION")
    found = [partition for topic in answer[topics] for partition in topic["partitions"]]
    error_code = answer["error_code"] or (found[0]["error_code"] if found else ErrorCode.unknown_server_error)
    if error_code:
        raise Elsewhere(f"{api} of {METADATA_TOPIC}: {ErrorCode(error_code).name.upper()}")
    partition: dict[str, Any] = found[0]
    return partition

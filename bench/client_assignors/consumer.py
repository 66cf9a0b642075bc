"""A consumer of a KIP-848 group that brings an assignor of its own, and computes when it is asked to.

It heartbeats, commits what it has read before it gives partitions up, and looks for its coordinator again
when that is gone. What it does with its partitions is its subclass's: `reader` reads records.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from actors.coordinator.ground import partitions
from actors.network.wire import Wire
from actors.protocol.client_assignor_messages import InstallAssignmentRequest, PrepareAssignmentResponse
from bench.client_assignors.wire import (
    HEARTBEAT,
    INSTALL,
    PREPARE,
    SOFTWARE,
    class_with_tags,
    heartbeat_fields,
    heartbeat_told,
    install_fields,
    prepared_told,
)
from bench.consumers.asking import GONE, RETRY_S, Address, coordinator_of
from bench.consumers.fetching import UNKNOWN
from bench.member.computing import ComputingMember, listed
from bench.member.reactions import Reaction
from bench.swarm.records.requests import Partition

LOOK_S: Final = 0.05


class GivenUp(Exception):
    """Raised if the coordinator does not take the member, with its words."""


class AssigningConsumer:
    """One consumer. `run` ends when it has been closed and has left its group."""

    def __init__(self, bootstrap: Sequence[Address], member: ComputingMember) -> None:
        self._bootstrap = list(bootstrap)
        self._turn = 0
        self._names: dict[bytes, str] = {}
        self._is_closing = False
        self._one_at_a_time = asyncio.Lock()
        self.member = member
        self.positions: dict[Partition, int] = {}
        """The offset that comes next, of each partition that the consumer owns."""
        self.vouched_s = time.monotonic()
        """When the last heartbeat was sent that the coordinator answered: it began the session no earlier."""
        self.computing: asyncio.Task[None] | None = None
        self.on_change: Callable[[], None] = lambda: None
        """Called when other partitions are owned than before."""
        self.on_installed: Callable[[InstallAssignmentRequest, int, str | None], None] = lambda *_: None
        """Called with each assignment that was sent, and the error and the words of the answer."""
        self.on_committed: Callable[[dict[Partition, int]], None] = lambda _: None
        """Called with the offsets that are known to be committed."""

    def close(self) -> None:
        """Have the consumer commit, leave, and end."""
        self._is_closing = True

    async def run(self) -> None:
        """Consume until `close` was called. Raises GivenUp."""
        try:
            while not self._is_closing:
                with contextlib.suppress(*GONE):
                    await self._serve()
                self.member.unanswered()
                if not self._is_closing:
                    await asyncio.sleep(RETRY_S)
        finally:
            self._stop_computing()

    async def _serve(self) -> None:
        """Be a member on one connection until it breaks. Raises what is in GONE, GivenUp."""
        wire = await self._connect(await self._coordinator())
        try:
            while not self._is_closing:
                if self.member.target is not None:
                    await self._reconcile(wire)
                request = self.member.next_request(time.monotonic())
                if request is None:
                    await asyncio.sleep(LOOK_S)
                elif not await self._exchange(wire, request):
                    return
            await self._leave(wire)
        finally:
            self._stop_computing()
            await wire.close()

    async def _exchange(self, wire: Wire, request: Any) -> bool:
        """Send one heartbeat. Returns whether the coordinator is still the one to ask."""
        sent_s = time.monotonic()
        told = heartbeat_told(await self._call(wire, HEARTBEAT, heartbeat_fields(request)))
        reaction = self.member.received(told)
        if reaction is Reaction.GIVE_UP:
            raise GivenUp(f"error {told.error_code}: {told.error_message}")
        if reaction is Reaction.LOST:
            self._take({})
        if reaction is Reaction.AGAIN:
            await asyncio.sleep(RETRY_S)
        if reaction is Reaction.FINE:
            self.vouched_s = sent_s
            self._compute_if_asked(wire)
        return reaction is not Reaction.FIND

    async def _call(self, wire: Wire, api: tuple[str, int], fields: dict[str, Any]) -> dict[str, Any]:
        """Send a request: one at a time, for heartbeats go on while the member computes."""
        async with self._one_at_a_time:
            return await wire.call(*api, **fields)

    # Partitions.

    async def _reconcile(self, wire: Wire) -> None:
        """Commit, own what the coordinator gives, and find out where to begin. Raises what is in GONE: then
        the next connection begins with it, for a heartbeat would say that it is done."""
        if self.member.revoked:
            await self.commit(wire)
        target = self.member.target or partitions.EMPTY
        await self._learn_names(wire, {topic_id for topic_id, _ in target})
        owned = {(self._names[topic_id], number) for topic_id, number in listed(target)}
        self._take({place: at for place, at in self.positions.items() if place in owned})
        new = owned - self.positions.keys()
        found = await self._committed(wire, new) if new else {}
        self.member.reconcile()
        self._take(self.positions | {place: found.get(place, UNKNOWN) for place in new})

    def _take(self, positions: dict[Partition, int]) -> None:
        is_other = positions.keys() != self.positions.keys()
        self.positions = positions
        if is_other:
            self.on_change()

    async def commit(self, wire: Wire) -> None:
        """Commit where the consumer is. An error is no news: the next heartbeat tells what is wrong."""
        said = {place: at for place, at in self.positions.items() if at != UNKNOWN}
        if not said:
            return
        topics: dict[str, list[dict[str, Any]]] = {}
        for (topic, number), offset in said.items():
            row = {"partition_index": number, "committed_offset": offset, "committed_metadata": ""}
            topics.setdefault(topic, []).append(row)
        fields = {
            "group_id": self.member.terms.group_id,
            "generation_id_or_member_epoch": self.member.epoch,
            "member_id": self.member.member_id,
            "topics": [{"name": name, "partitions": rows} for name, rows in topics.items()],
        }
        told = await self._call(wire, ("offset_commit", 9), fields)
        errors = {
            (topic["name"], row["partition_index"]): row["error_code"]
            for topic in told["topics"]
            for row in topic["partitions"]
        }
        self.on_committed({place: offset for place, offset in said.items() if not errors.get(place, UNKNOWN)})

    async def _committed(self, wire: Wire, wanted: set[Partition]) -> dict[Partition, int]:
        """Return what is committed of partitions. Raises TimeoutError if the coordinator does not say."""
        numbers: dict[str, list[int]] = {}
        for topic, number in wanted:
            numbers.setdefault(topic, []).append(number)
        topics = [{"name": name, "partition_indexes": each} for name, each in numbers.items()]
        fields = {"group_id": self.member.terms.group_id, "topics": topics, "require_stable": True}
        told = await self._call(wire, ("offset_fetch", 7), fields)
        rows = [(topic["name"], row) for topic in told["topics"] for row in topic["partitions"]]
        if told["error_code"] or any(row["error_code"] for _, row in rows):
            raise TimeoutError("no offsets")
        return {(name, row["partition_index"]): row["committed_offset"] for name, row in rows}

    async def _learn_names(self, wire: Wire, topic_ids: set[bytes]) -> None:
        """Ask for names of topics that are new. Raises TimeoutError if there is one without."""
        if topic_ids <= self._names.keys():
            return
        topics = [{"name": name, "topic_id": None} for name in self.member.terms.topics]
        fields = {"topics": topics, "allow_auto_topic_creation": False}
        fields["include_topic_authorized_operations"] = False
        told = await self._call(wire, ("metadata", 12), fields)
        self._names = {each["topic_id"].bytes: each["name"] for each in told["topics"] if each["topic_id"]}
        if not topic_ids <= self._names.keys():
            raise TimeoutError("a topic has no name yet")

    # Computing.

    def _compute_if_asked(self, wire: Wire) -> None:
        is_at_it = self.computing is not None and not self.computing.done()
        if self.member.should_compute and not is_at_it:
            self.computing = asyncio.create_task(self._compute(wire))

    def _stop_computing(self) -> None:
        if self.computing is not None:
            self.computing.cancel()

    async def _compute(self, wire: Wire) -> None:
        """Ask for the group, assign it, and send what came of it. What fails, the coordinator asks another
        member."""
        with contextlib.suppress(*GONE):
            told = await self._call(wire, PREPARE, self.member.prepare()._asdict())
            prepared = prepared_told(told)
            if prepared.error_code:
                return
            install = await self.assigned(prepared)
            answer = await self._call(wire, INSTALL, install_fields(install))
            self.on_installed(install, answer["error_code"], answer["error_message"])

    async def assigned(self, prepared: PrepareAssignmentResponse) -> InstallAssignmentRequest:
        """Run the assignor in a thread: heartbeats go on meanwhile."""
        return await asyncio.to_thread(self.member.install, prepared)

    # Connections.

    async def _leave(self, wire: Wire) -> None:
        await self.commit(wire)
        self._take({})  # before others may have them: the answer may be lost with its coordinator
        request = self.member.leave()
        if request is not None:
            await self._call(wire, HEARTBEAT, heartbeat_fields(request))

    async def _connect(self, address: Address) -> Wire:
        wire = await Wire.connect(*address, self.member.member_id)
        wire.find = class_with_tags
        name, version = SOFTWARE
        await wire.call("api_versions", 3, client_software_name=name, client_software_version=version)
        return wire

    async def _coordinator(self) -> Address:
        """Ask the brokers in turn where the coordinator is. Raises what is in GONE."""
        self._turn += 1
        asked = self._bootstrap[self._turn % len(self._bootstrap)]
        return await coordinator_of(asked, self.member.terms.group_id)

"""What the handlers of the broker's own APIs share: the image, the logs, the way to the controller."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from actors.api.config_entries import Node
from actors.api.topic_ids import plain_topic_id
from actors.coordinator.refusals import refusal
from actors.ground.changeable import in_force
from actors.ground.contract import Request
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.settings import GroupSettings
from actors.ground.spec import BrokerSettings
from actors.ground.topic_names import INTERNAL_TOPICS
from actors.metadata.commands import Command, CommandResult, Outcome
from actors.metadata.refusals import refused
from actors.protocol.api_keys import ADD_PARTITIONS_TO_TXN
from actors.protocol.transaction_codec import BATCHES_SINCE
from actors.protocol.transaction_messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from actors.topics.errors import LogError
from actors.topics.fetch_sessions import FetchSessions
from actors.topics.leader_epochs import NO_LEADER_EPOCH
from actors.topics.logs import TopicLogs
from actors.topics.partition_log import LEADER_EPOCH, PartitionLog

IMAGE_WAIT_S = 5.0
"""How long, in seconds, an admin request waits at most until this broker sees what it has done."""


Verify = Callable[[AddPartitionsToTxnRequest], Awaitable[AddPartitionsToTxnResponse]]


async def no_coordinator(asked: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Return the answer that no coordinator of the transaction can be reached."""
    request = Request(0, ADD_PARTITIONS_TO_TXN, BATCHES_SINCE, "", "", asked)
    answer = refusal(request, ErrorCode.coordinator_not_available)
    assert isinstance(answer, AddPartitionsToTxnResponse)
    return answer


Elect = Callable[[int], Awaitable[ErrorCode]]
"""A function from an offsets partition to what became of the election of its preferred leader."""


async def no_election(partition: int) -> ErrorCode:
    """Return the error of a broker that reaches no leader of offsets partitions."""
    return ErrorCode.preferred_leader_not_available


class Started(NamedTuple):
    """The settings that the tier was started with."""

    broker: BrokerSettings
    groups: GroupSettings


class NotAvailable(Exception):
    """Raised if no controller takes commands at present."""


class ControllerClient(Protocol):
    """The way to the controller's leader, wherever it is."""

    async def submit(self, command: Command) -> CommandResult:
        """Return the command's result once it is committed. Raises TimeoutError or NotAvailable, after
        retries of its own."""


class InternalLogs(Protocol):
    """The logs of internal topics."""

    async def ready(self, places: Collection[tuple[str, int]]) -> None:
        """Wait until the logs of these partitions of topics can be read, as far as this broker leads them."""

    def log(self, topic: str, partition: int) -> PartitionLog:
        """Return a log that is ready. Raises LogError."""

    def partition_bytes(self, topic: str, partition: int) -> int:
        """Return the size of a log; 0 if nobody reads it."""

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the epoch in which a partition is led."""

    def fetched(self, topic: str, partition: int, broker: tuple[int, int], offset: int) -> None:
        """Note that a broker of this id and epoch has everything before an offset."""


class NoInternalLogs:
    """The logs of a broker that reaches no leader of offsets partitions."""

    async def ready(self, places: Collection[tuple[str, int]]) -> None:
        """Return at once."""

    def log(self, topic: str, partition: int) -> PartitionLog:
        raise LogError(ErrorCode.not_leader_or_follower)

    def partition_bytes(self, topic: str, partition: int) -> int:
        return 0

    def leader_epoch(self, topic: str, partition: int) -> int:
        return LEADER_EPOCH

    def fetched(self, topic: str, partition: int, broker: tuple[int, int], offset: int) -> None:
        """Do nothing."""


class BrokerContext:
    """One broker's state, held by `broker_apis.BrokerApis`. `clock_ms` never runs back."""

    def __init__(
        self,
        *,
        node_id: int,
        settings: BrokerSettings,
        group_settings: GroupSettings | None = None,
        controller: ControllerClient,
        logs: TopicLogs,
        clock_ms: Callable[[], int],
        broker_id: int | None = None,
    ) -> None:
        self.node_id = node_id
        self.broker_id = node_id if broker_id is None else broker_id
        """The id by which clients know the node."""
        self.started = Started(settings, group_settings or GroupSettings())
        self.settings = self.started.broker
        """The settings that are in force on this node now (W43), as `group_settings` are."""
        self.group_settings = self.started.groups
        self.logs = logs
        self.clock_ms = clock_ms
        self.image = MetadataImage()
        """The newest image, with fresher news of who leads offsets partitions."""
        self.offsets_leaders: Mapping[int, int] = {}
        self.internal_logs: InternalLogs = NoInternalLogs()
        self.creating: dict[str, asyncio.Task[None]] = {}
        """Topic -> the task that creates it because somebody asked for its metadata."""
        self.verify: Verify = no_coordinator
        """The function that asks a transaction's coordinator, wherever it is."""
        self.elect: Elect = no_election
        """The function that gives an offsets partition to its preferred leader."""
        self.fetch_sessions = FetchSessions(
            settings.max_incremental_fetch_session_cache_slots, lambda: random.randrange(1, 2**31)
        )
        self._controller = controller
        self._image_waiters: set[asyncio.Future[None]] = set()

    @property
    def node(self) -> Node:
        """Return this node's settings, and what was changed of them."""
        configs = self.image.broker_configs
        return Node(self.node_id, self.started.broker, self.started.groups, configs, self.broker_id)

    def set_image(self, image: MetadataImage) -> None:
        """Take a newer image; logs of partitions that are led elsewhere or nowhere are dropped."""
        if image.broker_configs != self.image.broker_configs:
            configs = image.broker_configs
            self.settings = in_force(self.started.broker, configs, self.node_id)
            self.group_settings = in_force(self.started.groups, configs, self.node_id)
            self.logs.take(self.settings)
        self.image = image.led_by(self.offsets_leaders)
        self.logs.retain(image, self.node_id)
        for waiter in self._image_waiters:
            if not waiter.done():
                waiter.set_result(None)

    def set_offsets_leaders(self, offsets_leaders: Mapping[int, int]) -> None:
        """Take news of who leads offsets partitions."""
        self.offsets_leaders = offsets_leaders
        self.image = self.image.led_by(offsets_leaders)

    async def submit(self, command: Command) -> Any:
        """Return the result that belongs to `command`; every entry of it is refused if no controller
        decides."""
        try:
            result = await self._controller.submit(command)
        except TimeoutError:
            return refused(command, ErrorCode.request_timed_out, "The controller did not answer in time.")
        except NotAvailable:
            # Every client may try again, and asks for fresh metadata first.
            return refused(command, ErrorCode.not_controller, "No controller takes commands at present.")
        if isinstance(result, Outcome) and result.error_code:
            return refused(command, result.error_code, result.error_message)
        return result

    async def wait_for_image(self, reached: Callable[[MetadataImage], bool], timeout_s: float) -> bool:
        """Wait until `reached(image)` holds. Return False if it does not within `timeout_s`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not reached(self.image):
            left_s = deadline - loop.time()
            if left_s <= 0:
                return False
            waiter: asyncio.Future[None] = loop.create_future()
            timer = loop.call_later(left_s, _finish, waiter)
            self._image_waiters.add(waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._image_waiters.discard(waiter)
        return True

    def topic_name(self, topic_id: uuid.UUID | None) -> str | None:
        """Return the name of the topic that has this id, or None."""
        topic = self.image.topics_by_id.get(plain_topic_id(topic_id))
        return None if topic is None else topic.name

    def log(self, topic: TopicImage, partition: int) -> PartitionLog:
        """Return the log of a partition that this broker leads. Raises LogError."""
        if topic.internal:
            return self.internal_logs.log(topic.name, partition)
        return self.logs.log(topic, partition)

    def partition_bytes(self, topic: TopicImage, partition: int) -> int:
        """Return the size of a partition's log; 0 if nobody has used it yet."""
        if topic.internal:
            return self.internal_logs.partition_bytes(topic.name, partition)
        return self.logs.partition_bytes(topic, partition)

    async def ready(self, asked: Iterable[tuple[str | None, int]]) -> None:
        """Wait until the logs of internal topics among these partitions can be read."""
        internal = {(name, partition) for name, partition in asked if name in INTERNAL_TOPICS}
        if internal:
            await self.internal_logs.ready(internal)

    def check_leader_epoch(self, topic: TopicImage, partition: int, current_leader_epoch: int) -> None:
        """Check the leader epoch of a partition that a client knows: -1 asks for no check (KIP-320). Raises
        LogError."""
        if current_leader_epoch == NO_LEADER_EPOCH:
            return
        epoch = self.internal_logs.leader_epoch(topic.name, partition) if topic.internal else LEADER_EPOCH
        if current_leader_epoch > epoch:
            raise LogError(ErrorCode.unknown_leader_epoch)
        if current_leader_epoch < epoch:
            raise LogError(ErrorCode.fenced_leader_epoch)

    def known_topic(self, name: str, partition: int) -> TopicImage:
        """Return the topic, if it has that partition. Raises LogError."""
        topic = self.image.topics.get(name)
        if topic is None or not 0 <= partition < topic.partition_count:
            raise LogError(
                ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
            )
        return topic

    def topic_led_here(self, name: str, partition: int) -> TopicImage:
        """Return the topic, if this broker leads that partition of it. Raises LogError."""
        topic = self.known_topic(name, partition)
        if topic.partition_leaders[partition] != self.node_id:
            raise LogError(
                ErrorCode.not_leader_or_follower, "This server is not the leader for that topic-partition."
            )
        return topic


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

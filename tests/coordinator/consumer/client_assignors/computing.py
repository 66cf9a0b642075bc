"""Members that assign: what they send, and what they make of what they are handed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from actors.ground.features import GROUPD_VERSION, Features
from actors.ground.image import MetadataImage
from actors.ground.records import ClientAssignor
from actors.ground.settings import GroupSettings
from actors.protocol.api_keys import CONSUMER_GROUP_INSTALL_ASSIGNMENT, CONSUMER_GROUP_PREPARE_ASSIGNMENT
from actors.protocol.client_assignor_messages import (
    InstallAssignmentRequest,
    InstallAssignmentResponse,
    InstalledMember,
    PrepareAssignmentRequest,
    PrepareAssignmentResponse,
)
from actors.protocol.messages import ConsumerGroupHeartbeatResponse
from tests.coordinator.consumer.driver import GROUP, Client, Driver, make_image

LEVELS = Features(1, ((GROUPD_VERSION, 2),))
SETTINGS = GroupSettings(
    group_consumer_assignment_interval_ms=0, group_consumer_client_assignor_timeout_ms=10_000
)


def assignor(
    name: str = "sticky", reason: int = 0, metadata: bytes = b"", versions: tuple[int, int, int] = (0, 1, 1)
) -> ClientAssignor:
    """Make an assignor; `versions`: the lowest and the highest, and that of the metadata."""
    low, high, version = versions
    return ClientAssignor(name, low, high, reason, version, metadata)


def driver(settings: GroupSettings = SETTINGS, **topics: int) -> Driver:
    made = make_image(1, **(topics or {"orders": 4}))
    image = MetadataImage(version=1, topics=tuple(made.topics.values()), features=LEVELS)
    return Driver(settings=settings, image=image)


Shares = Mapping[str, Mapping[bytes, Iterable[int]]]


def in_turn(prepared: PrepareAssignmentResponse) -> Shares:
    """Deal the partitions of each topic out to its subscribers."""
    shares: dict[str, dict[bytes, list[int]]] = {each.member_id: {} for each in prepared.members}
    for topic in prepared.topics:
        takers = [each.member_id for each in prepared.members if topic.topic_id in each.topic_ids]
        for number in range(topic.partition_count):
            taker = takers[number % len(takers)]
            shares[taker].setdefault(topic.topic_id, []).append(number)
    return shares


def installed(shares: Shares, metadata: bytes = b"") -> tuple[InstalledMember, ...]:
    return tuple(
        InstalledMember(
            member_id,
            0,
            tuple((topic_id, tuple(numbers)) for topic_id, numbers in topics.items()),
            1 if metadata else -1,
            metadata,
        )
        for member_id, topics in shares.items()
    )


class Computing(Client):
    """A consumer that brings assignors, and remembers the last answer."""

    def __init__(
        self, driver: Driver, member_id: str, *topics: str, assignors: Any = None, **fields: Any
    ) -> None:
        super().__init__(driver, member_id, *topics, **fields)
        brought = (assignor(),) if assignors is None else assignors
        self.fields = {**self.fields, "client_assignors": brought}
        self.answer: ConsumerGroupHeartbeatResponse | None = None

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self.answer = answer
        super()._take(answer)

    @property
    def is_asked(self) -> bool:
        assert self.answer is not None
        return self.answer.client is not None and self.answer.client.should_compute

    def prepare(self, **other: Any) -> PrepareAssignmentResponse:
        body = PrepareAssignmentRequest(GROUP, self.member_id, self.epoch)._replace(**other)
        answer: PrepareAssignmentResponse = self.driver.ask(CONSUMER_GROUP_PREPARE_ASSIGNMENT, body, 0)
        return answer

    def install(self, group_epoch: int, shares: Shares, **other: Any) -> InstallAssignmentResponse:
        body = InstallAssignmentRequest(
            GROUP, self.member_id, self.epoch, group_epoch, 0, None, installed(shares)
        )._replace(**other)
        answer: InstallAssignmentResponse = self.driver.ask(CONSUMER_GROUP_INSTALL_ASSIGNMENT, body, 0)
        return answer

    def compute(self) -> None:
        """Ask for the group, deal it out and install that."""
        prepared = self.prepare()
        assert prepared.error_code == 0, prepared
        answer = self.install(prepared.group_epoch, in_turn(prepared))
        assert answer == InstallAssignmentResponse(0)


def settle(*members: Computing, rounds: int = 12) -> None:
    """Have all beat, and compute when asked, until the group is Stable and each has what it is to have."""
    group = members[0].driver.group()
    for _ in range(rounds):
        for member in members:
            member.beat()
            if member.is_asked:
                member.compute()
        if group.state_name == "Stable" and all(each.settled for each in members):
            return
    raise AssertionError("the group does not settle")

"""One ConsumerGroupHeartbeat while it is being decided: what is stored, what it will be, what to write.

Nothing here outlives the request. Handlers change the decision, never the group; the host applies `records`.
"""

from __future__ import annotations

from typing import Any

from actors.coordinator.consumer.model.group import NOT_JOINED, ConsumerGroup
from actors.coordinator.consumer.model.member import ConsumerMember
from actors.coordinator.consumer.model.metadata import RegexTopics, regex_topics_of
from actors.coordinator.ground import regex
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.consumer_events import AssignmentComputed
from actors.ground.contract import Record, Request
from actors.ground.records import ClientAssignor, ConsumerMemberValue, CurrentAssignmentValue, TopicPartitions
from actors.protocol.messages import ConsumerGroupHeartbeatRequest

NEW_MEMBER = ConsumerMemberValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=(),
    subscribed_topic_regex=regex.NONE,
    rebalance_timeout_ms=-1,
    server_assignor=None,
)
"""The metadata that a member has before its first request."""


class Decision:
    """The working values of one request of one member."""

    __slots__ = (
        "assignment_epoch",
        "body",
        "cause",
        "classic",
        "client_assignors",
        "client_assignors_before",
        "computed",
        "current",
        "events",
        "group",
        "group_epoch",
        "member_id",
        "metadata",
        "metadata_hash",
        "now_ms",
        "previous",
        "records",
        "regex_resolved",
        "regex_topics",
        "replaced_id",
        "request",
        "state",
        "stored",
        "target",
        "topic_ids",
    )

    def __init__(self, state: ShardState, request: Request, group: ConsumerGroup, now_ms: int) -> None:
        self.state = state
        self.request = request
        self.body: ConsumerGroupHeartbeatRequest = request.body
        self.group = group
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.events: list[Any] = []
        self.group_epoch = group.group_epoch
        self.assignment_epoch = group.assignment_epoch
        self.cause: str | None = None
        """Why the group epoch rises; None: it does not."""
        self.computed: AssignmentComputed | None = None
        """The new target's event."""
        self.metadata_hash = group.metadata_hash
        self.regex_topics: RegexTopics = regex_topics_of(group) if group.regexes else {}
        self.regex_resolved = False
        """The member's new regex is one that is resolved already, or it has none any more (M5)."""
        self.member_id = self.body.member_id
        self.classic: tuple[int, tuple[tuple[str, bytes], ...]] | None = None
        """What a member that speaks the classic protocol joins with (G3); None: it heartbeats."""
        self.client_assignors: tuple[ClientAssignor, ...] = ()
        """The assignors that the member brings (A4)."""
        self.client_assignors_before: tuple[ClientAssignor, ...] = ()
        """The assignors that it brought before this request."""
        self.replaced_id: str | None = None
        """The static member id whose place this member takes (M21)."""
        self.previous: ConsumerMemberValue = NEW_MEMBER
        """The metadata before this request, of the replaced member if one is replaced."""
        self.stored: ConsumerMember | None = None
        """The slot of this very member id, None if it is new or replaces another."""
        self.metadata: ConsumerMemberValue = NEW_MEMBER
        self.current: CurrentAssignmentValue = NOT_JOINED
        self.target: TopicPartitions | None = None
        self.topic_ids: frozenset[bytes] = frozenset()

    @property
    def names_changed(self) -> bool:
        return self.metadata.subscribed_topic_names != self.previous.subscribed_topic_names

    @property
    def subscription_changed(self) -> bool:
        new, old = self.metadata, self.previous
        return (
            new.subscribed_topic_names != old.subscribed_topic_names
            or new.subscribed_topic_regex != old.subscribed_topic_regex
        )

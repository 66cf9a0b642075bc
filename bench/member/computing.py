"""A KIP-848 member that brings assignors of its own, and computes its group's assignment when it is asked to
(A4, A7, A9, A10). PURE: its shell asks for the state that is handed out, and sends what was computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import unpack
from typing import Final, Protocol

from actors.assignors.spec import AssignmentSpec, MemberSpec
from actors.ground.records import ClientAssignor, TopicPartitions
from actors.protocol.client_assignor_messages import (
    InstallAssignmentRequest,
    InstalledMember,
    PrepareAssignmentRequest,
    PrepareAssignmentResponse,
)
from actors.protocol.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from bench.member.consumer import ConsumerMember, ConsumerTerms

NO_REASON: Final = 0
FAILED: Final = 1
"""The error of an install that says that the assignor failed."""
NOTHING_TOLD: Final = -1
"""The version of what an assignor tells a member if it tells nothing."""


class MemberAssignor(Protocol):
    """An assignor that a member brings: what a plug-in of the server is, and what it tells of its member."""

    name: str
    minimum_version: int
    maximum_version: int
    """The versions of metadata that it understands."""
    version: int
    """The version of its own metadata."""
    metadata: bytes
    """What the member tells whoever computes."""

    def assign(self, spec: AssignmentSpec) -> Mapping[str, Mapping[bytes, Iterable[int]]]:
        """Return member id -> topic id -> partitions. It may raise whatever it likes."""


class ComputingMember(ConsumerMember):
    """A member with assignors, in its order of preference."""

    __slots__ = ("_assignors", "_reason", "_says_assignors", "pending", "should_compute")

    def __init__(
        self,
        terms: ConsumerTerms,
        member_id: str,
        assignors: Sequence[MemberAssignor],
        instance_id: str | None = None,
    ) -> None:
        super().__init__(terms, member_id, instance_id)
        self._assignors = {each.name: each for each in assignors}
        self._reason = NO_REASON
        self._says_assignors = True
        self.should_compute = False
        """Whether the coordinator has asked the member to compute, and not got the result yet."""
        self.pending: TopicPartitions = ()
        """What the member is to have once others have let go of it."""

    def ask_for_assignment(self, reason: int) -> None:
        """Have the next heartbeat ask for a new assignment, for a reason of the assignor's own: not 0."""
        self._reason, self._says_assignors = reason, True

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        says = self._says_assignors or self._says_all
        request = super().heartbeat()
        return request._replace(client_assignors=self._described()) if says else request

    def lose(self) -> None:
        super().lose()
        self.should_compute, self.pending = False, ()

    def prepare(self) -> PrepareAssignmentRequest:
        return PrepareAssignmentRequest(self.terms.group_id, self.member_id, self.epoch)

    def install(self, prepared: PrepareAssignmentResponse) -> InstallAssignmentRequest:
        """Compute what was handed out. An assignor that fails is told of, so that another member is asked."""
        failure: str | None = None
        members: tuple[InstalledMember, ...] = ()
        try:
            members = computed(prepared, self._assignors[prepared.assignor])
        except Exception as error:  # the assignor's own code may raise anything
            failure = repr(error)
        return InstallAssignmentRequest(
            self.terms.group_id,
            self.member_id,
            self.epoch,
            prepared.group_epoch,
            0 if failure is None else FAILED,
            failure,
            members,
        )

    def _is_served(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        super()._is_served(answer)
        self._says_assignors, self._reason = False, NO_REASON
        told = answer.client
        self.should_compute = told is not None and told.should_compute
        if told is not None:
            self.pending = told.pending

    def _described(self) -> tuple[ClientAssignor, ...]:
        return tuple(
            ClientAssignor(
                each.name,
                each.minimum_version,
                each.maximum_version,
                self._reason,
                each.version,
                each.metadata,
            )
            for each in self._assignors.values()
        )


def computed(prepared: PrepareAssignmentResponse, assignor: MemberAssignor) -> tuple[InstalledMember, ...]:
    """Return what the assignor makes of a group that was handed out, for each of its members. Raises whatever
    the assignor raises."""
    given = assignor.assign(_spec(prepared))
    return tuple(
        InstalledMember(
            each.member_id,
            0,
            tuple(
                (topic_id, tuple(sorted(numbers)))
                for topic_id, numbers in sorted(given.get(each.member_id, {}).items())
                if numbers
            ),
            NOTHING_TOLD,
            b"",
        )
        for each in prepared.members
    )


def _spec(prepared: PrepareAssignmentResponse) -> AssignmentSpec:
    """Return the group as assignors of either side are given it."""
    return AssignmentSpec(
        tuple(
            MemberSpec(
                each.member_id, each.instance_id, each.topic_ids, each.target, each.rack_id, each.metadata
            )
            for each in prepared.members
        ),
        {each.topic_id: each.partition_count for each in prepared.topics},
    )


def listed(assignment: TopicPartitions) -> list[tuple[bytes, int]]:
    """Return the partitions of an assignment one by one."""
    return [
        (topic_id, number)
        for topic_id, packed in assignment
        for number in unpack(f">{len(packed) // 4}i", packed)
    ]

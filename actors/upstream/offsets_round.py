"""What a leader's answers to the fetches of an offsets partition's replicas mean. PURE.

All of them are asked from the same offset, so one answer's records are enough: the other fetches tell the
leader that those replicas stand there, too.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

_FINE: Final = ErrorCode.none
_WORDS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.unknown_leader_epoch: "the leader does not know yet that it is a replica, or in which epoch",
    ErrorCode.fenced_leader_epoch: "another epoch of the leader has begun",
    ErrorCode.not_leader_or_follower: "it does not lead the partition, or knows the replica by another epoch",
    ErrorCode.unknown_topic_id: "the leader knows no topic of this id",
    ErrorCode.inconsistent_topic_id: "the leader's log is of another topic",
    ErrorCode.cluster_authorization_failed: "the user needs CLUSTER_ACTION on the cluster",
    ErrorCode.topic_authorization_failed: "the user needs CLUSTER_ACTION on the cluster",
}
"""What passes, or what somebody has to change."""


class Fetched(NamedTuple):
    """A leader's answer to one replica's fetch."""

    error_code: ErrorCode = _FINE
    records: bytes = b""
    high_watermark: int = -1
    diverges_at: int | None = None
    """The offset up to which the leader's log may be the same, if it has never had all that stands before the
    offset of the fetch."""
    lost: str | None = None
    """Why there is no answer, in words."""

    @property
    def is_fine(self) -> bool:
        return self.lost is None and not self.error_code and self.diverges_at is None

    @property
    def words(self) -> str | None:
        """Return what is wrong with it in words; None if nothing is."""
        if self.lost is not None or not self.error_code:
            return self.lost
        name = self.error_code.name.upper()
        words = _WORDS.get(self.error_code)
        return name if words is None else f"{words} ({name})"


class Take(NamedTuple):
    """Take these records."""

    records: bytes
    high_watermark: int


class Anew(NamedTuple):
    """What was taken is no part of the leader's log: drop it, and begin anew."""

    shared_offset: int = 0
    """The offset up to which the leader's log may be the same. If the leader takes the replica for one in
    sync, it counts on what stands before."""


class LookForEnds(NamedTuple):
    """The offset lies outside of the leader's log: ask where that begins and ends."""


class Wait(NamedTuple):
    """Ask again a little later, or when it is known who leads."""


Outcome = Take | Anew | LookForEnds | Wait


def outcome_of(answers: Mapping[int, Fetched]) -> tuple[Outcome, str | None]:
    """Return what is to be done after a round of fetches, by the ids of the replicas, and what is wrong with
    some of them in words. One replica that the leader does not know keeps none of the others from going
    on."""
    said = [f"broker {each}: {words}" for each, answer in answers.items() if (words := answer.words)]
    problem = "; ".join(said) or None
    shared = [answer.diverges_at for answer in answers.values() if answer.diverges_at is not None]
    if shared:
        return Anew(max(shared)), problem
    fine = [answer for answer in answers.values() if answer.is_fine]
    if fine:
        most = max(fine, key=lambda answer: len(answer.records))
        return Take(most.records, max(answer.high_watermark for answer in fine)), problem
    if any(answer.error_code == ErrorCode.offset_out_of_range for answer in answers.values()):
        return LookForEnds(), problem
    return Wait(), problem


def outside(next_offset: int, start: int) -> Anew | int:
    """Return what is to be done about an offset that the leader refused, if its log begins at `start`: a log
    of which nothing is taken is begun there. Of another one a part was lost, or it has become another one,
    and Kafka's own followers forget their copy then, too."""
    return start if next_offset == 0 < start else Anew()

"""The judge of groups whose members assign. PURE: it is told what each consumer owns and knows.

ownership  no partition is owned by two consumers that the coordinator has heard of within the session
offsets    what is known to be committed is there at the end
computing  no wrong assignment is taken, and no good one is refused as wrong
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from actors.protocol.client_assignor_messages import INVALID_ASSIGNMENT
from bench.consumers.ownership import OfGroup, two_owners
from bench.swarm.records.requests import Partition

PASSING: Final = frozenset({14, 15, 16, 25, 69, 110, 113})
"""Errors of Prepare and Install that a member gets that lost its turn, its membership or its coordinator."""


class Judge:
    """What is known of a swarm."""

    def __init__(self) -> None:
        self.floors: dict[OfGroup, int] = {}
        """What is known to be committed."""
        self.taken = self.refused = 0
        """How many assignments were taken, and how many wrong ones were refused."""

    def owners(self, owned: Iterable[tuple[str, str, Iterable[Partition]]]) -> Iterator[str]:
        """Look whether a partition has two owners. `owned`: group id, member id and partitions of each
        consumer that counts."""
        return two_owners(owned, "owned")

    def committed(self, group_id: str, offsets: Mapping[Partition, int]) -> None:
        for (topic, number), offset in offsets.items():
            place = group_id, topic, number
            self.floors[place] = max(self.floors.get(place, 0), offset)

    def fetched(self, group_id: str, offsets: Mapping[Partition, int]) -> Iterator[str]:
        for (topic, number), offset in offsets.items():
            floor = self.floors.get((group_id, topic, number), 0)
            if max(offset, 0) < floor:
                yield f"offsets: {topic}-{number} of {group_id} is fetched at {offset}, after {floor}"

    def installed(self, group_id: str, is_wrong: bool, error: int, words: str | None) -> Iterator[str]:
        """Take the answer to an assignment. `is_wrong`: it was made wrong on purpose."""
        self.taken += not error
        self.refused += error == INVALID_ASSIGNMENT
        if is_wrong and not error:
            yield f"computing: a wrong assignment of {group_id} was taken"
        if error == INVALID_ASSIGNMENT and not is_wrong:
            yield f"computing: a good assignment of {group_id} was refused: {words}"
        elif error and error != INVALID_ASSIGNMENT and error not in PASSING:
            yield f"computing: an assignment of {group_id} got error {error}: {words}"

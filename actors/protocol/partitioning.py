"""Say which offsets partition a group belongs to, also while the number of partitions doubles.

When N partitions are split, partition p + N is the child of partition p: the groups whose hash modulo 2N is
p + N move there. Until their cut-over they are served by the parent.
"""

from typing import NamedTuple

from actors.ground.image import MetadataImage
from actors.ground.spec import TierSpec
from actors.protocol.java_hash import partition_for


class Partitioning(NamedTuple):
    """How groups are spread over offsets partitions."""

    total: int
    """The number of offsets partitions, children included that serve nobody yet."""
    unmoved: tuple[int, ...] = ()
    """The parents whose groups have not moved to their children yet; (): no split runs."""

    def partition_of(self, group_id: str) -> int:
        """Return the partition that serves a group."""
        partition = partition_for(group_id, self.total)
        if self.unmoved and partition - self.total // 2 in self.unmoved:
            return partition - self.total // 2
        return partition


def partitioning_of(image: MetadataImage) -> Partitioning:
    """Return how groups are spread as of this image."""
    return Partitioning(max(len(image.offsets_leaders), 1), image.unmoved)


def partitioning_now(spec: TierSpec) -> Partitioning:
    """Return how groups are spread as a spec says that was made just now."""
    return Partitioning(spec.offsets_partitions, spec.unmoved)


def awaits_groups(partition: int, total: int, unmoved: tuple[int, ...]) -> bool:
    """Return whether a partition is the child of a parent whose groups have not moved yet."""
    return partition - total // 2 in unmoved


def may_be_moved_to(partition: int, total: int) -> list[int]:
    """Return the partitions whose groups may have moved to `partition` by splits: its parent, its parent's
    parent and so on."""
    before = []
    while total % 2 == 0:
        total //= 2
        if partition >= total:
            partition -= total
            before.append(partition)
    return before

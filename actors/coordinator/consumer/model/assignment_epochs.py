"""The epoch since which a member has each of its partitions (KIP-1251; rows O4 and O6).

With that, a commit of an earlier epoch is told from one of a former owner: who has had a partition since
epoch 5 may still commit it with epoch 6 when its own is 7 by now.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.coordinator.consumer.model.member import STABLE
from actors.coordinator.ground.partition_epochs import Epochs, epochs_of, pack_epochs
from actors.coordinator.ground.partitions import EMPTY, unpack
from actors.ground.records import CurrentAssignmentValue

LEFT_EPOCH = 0
"""The epoch of every partition of a static member that left for a while (M20)."""
_Known = dict[bytes, tuple[bytes, Epochs]]


def of_topic(current: CurrentAssignmentValue, topic_id: bytes) -> dict[int, int]:
    """Partition -> epoch since which the member has it, assigned or still to be revoked."""
    held: dict[int, int] = {}
    for other_id, packed, epochs in epochs_of(current):
        if other_id == topic_id:
            held.update(zip(unpack(packed), epochs, strict=True))
    return held


def carried(
    before: CurrentAssignmentValue, after: CurrentAssignmentValue, new_epoch: int
) -> CurrentAssignmentValue:
    """`after` with the epochs of what the member had assigned before, and `new_epoch` for the rest.

    What `after` has still to revoke keeps its epoch, whether it was assigned or to be revoked before.
    """
    epochs = [(topic_id, (packed, each)) for topic_id, packed, each in epochs_of(before)]
    assigned, revoked = dict(epochs[: len(before.assigned)]), dict(epochs[len(before.assigned) :])
    arrays = [_looked_up(pair, (assigned,), new_epoch) for pair in after.assigned]
    arrays += [_looked_up(pair, (assigned, revoked), new_epoch) for pair in after.pending_revocation]
    return _with_epochs(after, arrays)


def at_epoch(current: CurrentAssignmentValue, member_epoch: int) -> CurrentAssignmentValue:
    """Return the same assignment at another member epoch."""
    arrays = [epochs for _, _, epochs in epochs_of(current)]
    return _with_epochs(current._replace(member_epoch=member_epoch), arrays)


def released(current: CurrentAssignmentValue, member_epoch: int) -> CurrentAssignmentValue:
    """The assignment made STABLE at another member epoch, with nothing to revoke any more."""
    arrays = [epochs for _, _, epochs in epochs_of(current)][: len(current.assigned)]
    stable = current._replace(member_epoch=member_epoch, state=STABLE, pending_revocation=EMPTY)
    return _with_epochs(stable, arrays)


def reset(current: CurrentAssignmentValue) -> CurrentAssignmentValue:
    """Return the same assignment with LEFT_EPOCH for every partition."""
    topics = len(current.assigned) + len(current.pending_revocation)
    return _with_epochs(current, [(LEFT_EPOCH,)] * topics)


def _with_epochs(current: CurrentAssignmentValue, arrays: Iterable[Epochs]) -> CurrentAssignmentValue:
    """Store epochs in the shortest form, so that equal epochs are equal records."""
    packed = tuple(pack_epochs(epochs[:1] if len(set(epochs)) == 1 else epochs) for epochs in arrays)
    all_now = pack_epochs((current.member_epoch,))
    return current._replace(assignment_epochs=() if all(each == all_now for each in packed) else packed)


def _looked_up(pair: tuple[bytes, bytes], sources: tuple[_Known, ...], new_epoch: int) -> Epochs:
    topic_id, packed = pair
    found = [source[topic_id] for source in sources if topic_id in source]
    if not found:
        return (new_epoch,)
    if len(found) == 1 and found[0][0] == packed:
        return found[0][1]
    by_partition: dict[int, int] = {}
    for numbers, epochs in reversed(found):
        by_partition.update(zip(unpack(numbers), epochs, strict=True))
    return tuple(by_partition.get(partition, new_epoch) for partition in unpack(packed))

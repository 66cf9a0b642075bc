"""The arrays that a leader keeps of big groups for the assignors, compared with arrays made anew from the
groups' records."""

from __future__ import annotations

from typing import Any

from actors.assignors.arrays import GroupArrays
from actors.coordinator.consumer.model.metadata import regex_topics_of
from actors.coordinator.consumer.model.state import consumer_groups
from actors.coordinator.consumer.target_arrays import TargetArrays
from actors.coordinator.ground.state import ShardState


def view(arrays: GroupArrays) -> dict[str, Any]:
    """All that an assignor can see, without the numbers by which the arrays know members and topics."""
    slots = {slot: member_id for member_id, slot in arrays.slots.items()}
    owners = [slots.get(slot) for slot in arrays.before().tolist()]
    return {
        "order": [slots[slot] for slot in arrays.order().tolist()],
        "members": {member_id: arrays.members[slot] for slot, member_id in slots.items()},
        "untold": {slots[slot] for slot in arrays.untold},
        "odd": {slots[slot] for slot in arrays.odd},
        "topics": arrays.topic_ids,
        "starts": arrays.starts.tolist(),
        "owners": owners,
        "sets": sorted(
            (topic_set.topics.tolist(), [slots[slot] for slot in members.tolist()])
            for topic_set, members in zip(arrays.topic_sets, arrays.subscribers(), strict=True)
        ),
    }


def check_arrays(state: ShardState) -> int:
    """Bring the arrays of every group up to date and check that they are as made anew. Returns how many
    groups had any."""
    checked = 0
    for group in consumer_groups(state).values():
        kept = group.target_arrays
        if kept is None:
            continue
        anew = TargetArrays(group)
        for each in (kept, anew):
            each.bring_up_to_date(group, regex_topics_of(group), state.image)
        assert view(kept.arrays) == view(anew.arrays), group.group_id
        checked += 1
    return checked

"""What one side of a sequence knows, and a request that is made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from tests.oracle.generator.slots import Slot

MADE_UP = "made-up"
NOBODYS_TOPIC = UUID(int=0xABCD)


class Request(NamedTuple):
    """A request of a slot, on the slot's own connection."""

    slot: int
    api: str
    version: int
    fields: Mapping[str, Any]


@dataclasses.dataclass(slots=True)
class Knowledge:
    """What one of the two sides has learned from its answers."""

    group: str
    transactional_ids: tuple[str, ...]
    topics: Mapping[str, Any]
    """The id of each topic, by name."""
    slots: list[Slot]
    session_timeout_ms: int
    """The session timeout of classic members; it is their rebalance timeout, too."""
    own: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The names of the sequence's own topics, by the names that operations have for them."""
    ids: dict[str, UUID] = dataclasses.field(default_factory=dict)
    """The ids of those that are there, by the same names."""

    def member(self, slot: Slot, args: Mapping[str, Any]) -> str:
        which = args.get("member")
        if which == "other":
            return self.slots[(slot.number + 1) % len(self.slots)].member_id or MADE_UP
        return {"made-up": MADE_UP, "empty": ""}.get(str(which), slot.member_id)

    def topic_id(self, name: str) -> UUID | None:
        """Return a topic's id; None stands for the zero id."""
        return None if name == "zero" else self.topics.get(name, NOBODYS_TOPIC)

    def instance(self, slot: Slot, args: Mapping[str, Any]) -> str | None:
        which = args.get("instance")
        if which == "other":
            return self.slots[(slot.number + 1) % len(self.slots)].instance
        return {"none": None, "unknown": "nobody"}.get(str(which), slot.instance)

    def own_id(self, name: str) -> UUID | None:
        """Return the id of one of the sequence's own topics; None stands for the zero id."""
        return None if name == "zero" else self.ids.get(name, NOBODYS_TOPIC)

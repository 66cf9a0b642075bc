"""The rules of a group coordinator that events name by their ids, in words: nobody has to look an id up.

PURE. A letter says what a rule is of: C of classic groups, M of KIP-848 groups, O of committed offsets, D of
groups whose coordinator pushes. The words are the headings of `actors/coordinator/RULES.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "A4": "a member may bring assignors, and ask for an assignment by new metadata or a reason",
        "A11": "a member computes while the group goes on, within its time",
        "C5": "a group takes no more members than group.max.size",
        "C8": "a member that has been given its id joins with it, within its session",
        "C9": "a member that joins again with something new, or as the leader, has all join again",
        "C12": "a member that is silent for its session timeout is removed",
        "C13": "a dynamic member that has not joined again when the join phase ends is removed",
        "C16": "a member that does not sync within the rebalance timeout is removed",
        "C21": "a static member that comes back takes the place of its old self",
        "C23": "a member that leaves is removed at once",
        "M5": "the group epoch rises when what is assigned may change",
        "M6": "the group epoch rises when members, subscriptions or topics change",
        "M16": "a member that does not give up partitions within its rebalance timeout is removed",
        "M17": "a member that is silent for its session timeout is removed",
        "M19": "a member that leaves is removed at once, and the group epoch rises",
        "M21": "a static member that comes back takes the place of its old self",
        "M24": "the group epoch rises when a regular expression matches other topics",
        "M26": "a new leader goes on with what the records say, and begins all sessions anew",
        "D4": "a consumer is pinged, and has failed when it does not answer",
        "D7": "new groups and consumers, failures, topics and partitions each have their handler",
        "D8": "a rebalance stops all fetchers, commits, and starts them with the new ownership",
        "D10": "a consumer that hears nothing for a session stops and registers anew",
        "D11": "a consumer that closes waits until its last offsets are known",
        "O13": "a group without members can be deleted",
        "O14": "offsets that nobody uses expire after offsets.retention.minutes",
        "O15": "a group without members and offsets is removed",
    }
)


def told(rule: str | None) -> str:
    """The words of a rule; of one that is not known here, as a later version may name it, its id. Empty for
    none."""
    return "" if not rule else RULES.get(rule, f"rule {rule}")


_ID: Final = re.compile(r"[A-Z]\d{1,2}")


def worded(value: Any) -> Any:
    """The value with a field `rule_says` behind every `rule` that is an id or none, at any depth."""
    if isinstance(value, list | tuple):
        return [worded(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, inner in value.items():
        found[name] = worded(inner)
        if name == "rule" and (inner is None or _ID.fullmatch(str(inner))):
            found["rule_says"] = told(inner)
    return found

"""Judge topic names as Kafka does (org.apache.kafka.common.internals.Topic)."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

OFFSETS_TOPIC = "__consumer_offsets"
"""The topic whose partitions are the offsets partitions."""
TRANSACTIONS_TOPIC = "__transaction_state"
"""The topic of what becomes of transactional ids. An id lives in the offsets partition that it hashes to, so
this topic has the same partitions with the same leaders."""
INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC)
"""The topics that nobody creates or writes but the coordinator."""
NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


@lru_cache(maxsize=64)
def internal_topic_id(cluster_id: str, name: str) -> bytes:
    """Return the id of an internal topic, which is the same for as long as the tier exists."""
    return hashlib.sha256(f"{cluster_id} {name}".encode()).digest()[:16]


def name_problem(name: str) -> str | None:
    """Return what is wrong with a topic's name, in Kafka's words, or None."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return (
            f"Topic name is invalid: the length of '{name[:NAME_LENGTH_MAX]}...' "
            f"is longer than the max allowed length {NAME_LENGTH_MAX}"
        )
    if _LEGAL.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains one or more characters "
            "other than ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def collision_name(name: str) -> str | None:
    """Return what names have in common that collide, because metric names do not tell "." from "_"; None if
    the name cannot collide."""
    return name.replace(".", "_") if "." in name or "_" in name else None

"""Topics as a group sees them: what a subscription resolves to, and the metadata hash (M6, A18, M24, M25).

The hash decides whether the group must rebalance because topics came, went or grew. It covers topic id,
name and partition count of every subscribed topic that exists, and is the same on every replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b

from actors.coordinator.consumer.model.group import NO_TOPICS_HASH, ConsumerGroup
from actors.coordinator.consumer.model.member import Subscription
from actors.ground.image import MetadataImage

KEPT_TOPICS_MAX = 32
KEPT_MAX = 1_024
"""How many sets of few topics are kept once for all groups: small groups have few topics, and
those of one application have the same."""

RegexTopics = Mapping[str, tuple[str, ...]]
"""Topic names by regex."""


def metadata_hash(names: Iterable[str], image: MetadataImage) -> int:
    """The hash of topics as they are, signed, of 64 bits; 0 if none of them exists."""
    digest = blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        topic = image.topics.get(name)
        if topic is not None:
            found = True
            encoded = name.encode()
            digest.update(topic.topic_id)
            digest.update(topic.partition_count.to_bytes(4, "big"))
            digest.update(len(encoded).to_bytes(4, "big"))
            digest.update(encoded)
    return int.from_bytes(digest.digest(), "big", signed=True) if found else NO_TOPICS_HASH


def topic_ids(names: Iterable[str], image: MetadataImage) -> frozenset[bytes]:
    topics = image.topics
    found = tuple(topics[name].topic_id for name in names if name in topics)
    return frozenset(found) if len(found) > KEPT_TOPICS_MAX else _kept(found)


@lru_cache(maxsize=KEPT_MAX)
def _kept(found: tuple[bytes, ...]) -> frozenset[bytes]:
    return frozenset(found)


def subscribed_topic_ids(
    subscription: Subscription, regex_topics: RegexTopics, image: MetadataImage
) -> frozenset[bytes]:
    """Ids of the existing topics of a subscription: its names and what its regex matches (M25)."""
    names, regex = subscription.key
    matched = regex_topics.get(regex, ())
    resolved = subscription.resolved
    if resolved is not None and resolved[0] == image.version and resolved[1] == matched:
        return resolved[2]
    ids = topic_ids((*names, *matched), image)
    subscription.resolved = (image.version, matched, ids)
    return ids


def regex_topics_of(group: ConsumerGroup) -> dict[str, tuple[str, ...]]:
    return {regex: resolved.topics for regex, resolved in group.regexes.items()}

"""What the regular expressions of a group's members match (M24, A17): resolved apart from the heartbeat.

A heartbeat only asks for a resolution; a timer carries it out, some topics at a time, so that nobody's
heartbeat waits for a tier of many topics. The result is a record for each regex, and a group epoch if any
result is new. Until then a member has no topics of its regex. As in Kafka, all regexes of a group are
resolved together, not more often than every REFRESH_INTERVAL_MIN_MS: when one is new, after topics were
created, and when the last result is old; and only topics count that the member who asked may see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from actors.coordinator.consumer.decision import NEW_MEMBER, Decision
from actors.coordinator.consumer.history import bump, bumped
from actors.coordinator.consumer.model.group import REGEX_TIMER, ConsumerGroup
from actors.coordinator.consumer.model.member import Subscription
from actors.coordinator.consumer.model.metadata import metadata_hash
from actors.coordinator.consumer.model.state import consumer_groups, kept
from actors.coordinator.consumer.model.volatile import Asker, Resolution
from actors.coordinator.ground import regex
from actors.coordinator.ground.state import ShardState
from actors.coordinator.told.consumer_events import CAUSE_REGEX_RESOLVED
from actors.ground.contract import NOTHING, Record, Result
from actors.ground.image import MetadataImage
from actors.ground.records import (
    CONSUMER_GROUP_METADATA,
    REGULAR_EXPRESSION,
    ConsumerGroupKey,
    ConsumerGroupValue,
    RegularExpressionKey,
    RegularExpressionValue,
)

REFRESH_INTERVAL_MIN_MS = 10_000


def update_regexes(decision: Decision) -> None:
    """Take the request's regex, drop the one that nobody has any more, and ask for a resolution if one is due
    (M24). What the regexes of the group match from now on goes into `decision.regex_topics`."""
    group = decision.group
    old, new = decision.previous.subscribed_topic_regex, decision.metadata.subscribed_topic_regex
    if not (new or group.regexes or group.regex_counts):
        return
    wanted = {subscription.key[1] for subscription in other_subscriptions(decision)} | {new}
    wanted.discard(regex.NONE)
    for pattern in sorted(group.regexes.keys() - wanted):
        decision.records.append(regex_record(group.group_id, pattern, None))
    decision.regex_topics = {
        pattern: resolved.topics for pattern, resolved in group.regexes.items() if pattern in wanted
    }
    # A regex that is not resolved yet raises the epoch once it is.
    decision.regex_resolved = new != old and (new in decision.regex_topics or not new)
    if wanted:
        kept(decision.state).regex_askers[group.group_id] = Asker(decision.member_id, decision.request)
        _schedule(decision.state, group, wanted, decision.now_ms)
    else:
        forget_regexes(decision.state, group.group_id)


def forget_regexes(state: ShardState, group_id: str) -> None:
    """Drop what is under way for a group that has no regex any more, or is gone."""
    state.timers.cancel((REGEX_TIMER, group_id))
    kept(state).regex_askers.pop(group_id, None)
    kept(state).regex_resolutions.pop(group_id, None)


def _schedule(state: ShardState, group: ConsumerGroup, wanted: Iterable[str], now_ms: int) -> None:
    """Set the timer of the group's next resolution; one that is under way sets it when it ends."""
    if group.group_id in kept(state).regex_resolutions:
        return
    resolved = [group.regexes[pattern] for pattern in wanted if pattern in group.regexes]
    due_ms = now_ms
    if resolved:
        last_ms = max(each.timestamp_ms for each in resolved)
        outdated = min(each.image_version for each in resolved) < state.new_topics_version
        complete = all(pattern in group.regexes for pattern in wanted)
        wait_ms = state.settings.group_consumer_regex_refresh_interval_ms
        if outdated or not complete:
            wait_ms = REFRESH_INTERVAL_MIN_MS
        due_ms = max(last_ms + wait_ms, now_ms)
    state.timers.schedule_late((REGEX_TIMER, group.group_id), due_ms)


def resolve(state: ShardState, key: tuple[object, ...], now_ms: int) -> Result:
    """Begin a resolution when its timer fires, or go on with it. Its end is records, and perhaps a new group
    epoch."""
    group_id = str(key[1])
    group, asker = consumer_groups(state).get(group_id), kept(state).regex_askers.get(group_id)
    if group is None or asker is None or not group.regex_counts:
        forget_regexes(state, group_id)
        return NOTHING
    resolution = kept(state).regex_resolutions.get(group_id)
    if resolution is None:
        resolution = kept(state).regex_resolutions[group_id] = Resolution(
            group.regex_counts, state.image, asker
        )
    if not resolution.go_on():
        state.timers.schedule_late(key, now_ms)
        return NOTHING
    del kept(state).regex_resolutions[group_id]
    return _finished(state, group, resolution, now_ms)


def _finished(state: ShardState, group: ConsumerGroup, resolution: Resolution, now_ms: int) -> Result:
    found = resolution.visible(state)
    values = {
        pattern: RegularExpressionValue(topics, resolution.image_version, now_ms)
        for pattern, topics in found.items()
        if pattern in group.regex_counts
    }
    records = [regex_record(group.group_id, pattern, value) for pattern, value in values.items()]
    topics_of = {pattern: resolved.topics for pattern, resolved in group.regexes.items()}
    is_new = any(value.topics != topics_of.get(pattern, ()) for pattern, value in values.items())
    topics_of.update((pattern, value.topics) for pattern, value in values.items())
    events: list[Any] = []
    hash_now = metadata_hash(subscribed_names(group, topics_of), state.image)
    if is_new or hash_now != group.metadata_hash:
        epoch = group.group_epoch + 1
        metadata_key = ConsumerGroupKey(CONSUMER_GROUP_METADATA, group.group_id)
        records.append(Record(metadata_key, ConsumerGroupValue(epoch, hash_now)))
        why = CAUSE_REGEX_RESOLVED, resolution.asker.member_id
        events = bumped(state, group, bump(now_ms, group, epoch, why, group.size))
    _schedule_next(state, group, values, now_ms)
    return Result(records, events=events)


def _schedule_next(
    state: ShardState, group: ConsumerGroup, values: Mapping[str, RegularExpressionValue], now_ms: int
) -> None:
    """Set the timer of the next resolution: soon if a regex or a topic came while this one was under way,
    else when its result is old."""
    missed = any(pattern not in values for pattern in group.regex_counts)
    outdated = any(value.image_version < state.new_topics_version for value in values.values())
    wait_ms = state.settings.group_consumer_regex_refresh_interval_ms
    if missed or outdated:
        wait_ms = REFRESH_INTERVAL_MIN_MS
    state.timers.schedule_late((REGEX_TIMER, group.group_id), now_ms + wait_ms)


def note_new_topics(state: ShardState, before: MetadataImage, now_ms: int) -> None:
    """Note whether a newer image has new topics: what was resolved before it is then out of date."""
    if state.image.topics_by_id.keys() - before.topics_by_id.keys():
        state.new_topics_version = state.image.version


def regex_record(group_id: str, pattern: str, value: RegularExpressionValue | None) -> Record:
    return Record(RegularExpressionKey(REGULAR_EXPRESSION, group_id, pattern), value)


def other_subscriptions(decision: Decision) -> list[Subscription]:
    """The group's subscriptions without those that only this member (or the one it replaces) had."""
    old = decision.previous.subscribed_topic_names, decision.previous.subscribed_topic_regex
    known = decision.previous is not NEW_MEMBER
    return [
        s
        for key, s in decision.group.subscriptions.items()
        if not (known and key == old and s.member_count == 1)
    ]


def subscribed_names(group: ConsumerGroup, regex_topics: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Names that the group's members have, and what their regexes match."""
    names = set(group.topic_names)
    for topics in regex_topics.values():
        names.update(topics)
    return names

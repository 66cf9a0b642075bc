"""Look at a Kafka cluster without touching it: requests that read, and none that makes anything.

FindCoordinator is not among them: on a cluster that has had no group yet it creates `__consumer_offsets`. Who
coordinates a group is who lists it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode

from actors.ground.limits import MIB
from actors.ground.topic_names import OFFSETS_TOPIC
from actors.network.wire import Closed, Wire
from actors.upstream.controller_link import features_of
from actors.upstream.controllers import (
    CONTROLLERS,
    ActiveController,
    Address,
    CannotFollow,
    Connect,
    Elsewhere,
    NotAllowed,
    Versions,
    call,
    find_active,
    version_of,
    words,
)
from actors.upstream.following import Follower
from actors.upstream.image import BROKER_RESOURCE
from cluster.attaching.facts import (
    BROKER_CONFIGS,
    CLASSIC,
    CONSUMER,
    AskedBroker,
    Counted,
    Facts,
    GroupRow,
    OffsetsPartition,
    Quorum,
    Sample,
)
from cluster.attaching.rights import ALL_BUT_ALTER, OPERATIONS_UNKNOWN, Allowed, missing
from cluster.groups.connection import Kafka, Unsupported, opened
from cluster.groups.properties import ClientProperties
from cluster.tier_file import TierError

LOG_TIMEOUT_S: Final = 20.0
"""How long, in seconds, reading the metadata log may take."""
COUNT_TIMEOUT_S: Final = 10.0
"""How long, in seconds, committed offsets are counted."""
COUNTED_AT_ONCE: Final = 50
"""How many groups are asked about in one request."""
SAMPLED_PARTITIONS: Final = 5
"""How many offsets partitions are fetched from, the largest first, to measure how fast that is."""
SAMPLE_BYTES_MAX: Final = MIB
ASKED_TOGETHER: Final = 8
"""How many brokers are asked at the same time."""
DESCRIBE_QUORUM_KEY: Final = 55
"""An API that brokers of a KRaft cluster have, and those of one with ZooKeeper have not."""
FEATURES_VERSION: Final = 3
"""The version of ApiVersions from which on finalized features are told."""
PROBE: Final = "groupd.attach.probe"
"""The name of a topic and of a transactional id that nobody has: who may not see them all is refused it."""


async def look(kafka: Kafka, controllers: ClientProperties, *, measures: bool = True) -> Facts:
    """Return what can be seen; with `measures`, also how much there is to move, and how fast records come.
    Raises TierError if the cluster or its controllers cannot be asked at all."""
    versions, features = await _software(kafka.properties)
    metadata = await _metadata(kafka)
    facts = Facts(cluster_id=metadata["cluster_id"], features=features)
    if DESCRIBE_QUORUM_KEY not in versions:
        return facts._replace(is_kraft=False)
    facts, at_controllers = await _controllers(facts, controllers)
    if facts.quorum is not None and facts.quorum.cluster_id not in (None, facts.cluster_id):
        return facts
    facts = _with_partitions(facts, metadata)
    partitions = facts.partitions
    is_new = partitions is None and facts.is_topic_seen
    allowed = await _allowed(kafka, metadata, at_controllers)
    facts = facts._replace(missing_rights=missing(allowed, is_new=is_new))
    facts = facts._replace(brokers=await _brokers(kafka, metadata["brokers"], partitions or ()))
    if not measures:
        return facts
    return facts._replace(counted=await _counted(kafka, facts.brokers), sample=await _sampled(kafka, facts))


async def _software(properties: ClientProperties) -> tuple[Versions, dict[str, int]]:
    """Return which versions a bootstrap broker offers, and the finalized features. Raises TierError."""
    errors = []
    for address in properties.addresses:
        try:
            wire, versions = await opened(address, properties, properties.tls())
        except TierError as error:
            errors.append(str(error))
            continue
        try:
            return versions, await _features(wire)
        except (Closed, TimeoutError):
            errors.append(
                f"{words(address)} does not say which features it has: Kafka 2.7 or later is needed"
            )
        finally:
            await wire.close()
    raise TierError("; ".join(errors))


async def _features(wire: Wire) -> dict[str, int]:
    answer = await wire.call(
        "api_versions", FEATURES_VERSION, client_software_name="groupd", client_software_version="0"
    )
    return {row["name"]: row["max_version_level"] for row in answer["finalized_features"]}


async def _supported(active: ActiveController) -> dict[str, int]:
    """Return the highest level of each feature that a controller's software supports; {} if it is silent."""
    try:
        answer = await features_of(active)
    except (Closed, TimeoutError):
        return {}
    return {row["name"]: row["max_version"] for row in answer["supported_features"]}


async def _metadata(kafka: Kafka) -> dict[str, Any]:
    return await kafka.any(
        "metadata",
        topics=[{"name": OFFSETS_TOPIC}],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=False,
    )


# The controllers.


async def _controllers(facts: Facts, properties: ClientProperties) -> tuple[Facts, int]:
    """Return the facts with what the controllers say, and with what their log says if they are of the same
    cluster; and what the user may do there, a bit for each operation. Raises TierError if none of them
    answers."""
    connect = connector(properties)
    try:
        active = await find_active(connect, properties.addresses)
    except NotAllowed as error:
        return facts._replace(log_problem=str(error)), OPERATIONS_UNKNOWN
    except (CannotFollow, Elsewhere) as error:
        raise TierError(f"no controller can be asked: {error}") from None
    try:
        operations, supported = await _operations_there(active), await _supported(active)
    finally:
        await active.wire.close()
    facts = facts._replace(quorum=_quorum(active), supported=supported)
    if active.cluster_id not in (None, facts.cluster_id):
        return facts, operations
    try:
        image = await Follower(connect, properties.addresses).read_once(LOG_TIMEOUT_S)
    except CannotFollow as error:
        return facts._replace(log_problem=str(error)), operations
    return facts._replace(image=image), operations


async def _operations_there(active: ActiveController) -> int:
    """Ask the active controller what the user may do to the cluster."""
    version = version_of("describe_cluster", active.versions, (2, 1))
    if version is None:
        return OPERATIONS_UNKNOWN
    try:
        answer = await call(
            active.wire,
            "describe_cluster",
            version,
            include_cluster_authorized_operations=True,
            endpoint_type=CONTROLLERS,
            include_fenced_brokers=False,
        )
    except (Closed, TimeoutError, Elsewhere):
        return OPERATIONS_UNKNOWN
    if answer["error_code"] == ErrorCode.cluster_authorization_failed:
        return ALL_BUT_ALTER  # a controller tells nobody else
    return OPERATIONS_UNKNOWN if answer["error_code"] else int(answer["cluster_authorized_operations"])


def connector(properties: ClientProperties) -> Connect:
    """Return a function that connects to controllers and brokers as these properties say."""
    tls = properties.tls()

    async def connect(address: Address) -> tuple[Wire, Versions]:
        try:
            return await opened(address, properties, tls)
        except TierError as error:
            raise ConnectionError(str(error)) from None

    return connect


def _quorum(active: ActiveController) -> Quorum:
    return Quorum(active.cluster_id, active.controller_id, words(active.address), active.voters)


def _with_partitions(facts: Facts, metadata: dict[str, Any]) -> Facts:
    """Return the facts with the offsets partitions as the log has them, or as Metadata tells of them."""
    if facts.image is not None:
        topic = facts.image.topic(OFFSETS_TOPIC)
        if topic is None:
            return facts
        logged = tuple(
            OffsetsPartition(number, each.leader, each.replicas, each.isr)
            for number, each in sorted(topic.partitions.items())
        )
        return facts._replace(partitions=logged)
    (told,) = metadata["topics"]
    if told["error_code"] == ErrorCode.topic_authorization_failed:
        return facts._replace(is_topic_seen=False)
    rows = sorted(told["partitions"], key=lambda row: int(row["partition_index"]))
    found = tuple(
        OffsetsPartition(
            row["partition_index"], row["leader_id"], tuple(row["replica_nodes"]), tuple(row["isr_nodes"])
        )
        for row in rows
    )
    return facts._replace(partitions=found or None)


# What the tier's user may do.


async def _allowed(kafka: Kafka, metadata: dict[str, Any], at_controllers: int) -> Allowed:
    return Allowed(
        metadata["cluster_authorized_operations"],
        at_controllers,
        await _sees_topics(kafka),
        await _sees_transactions(kafka),
    )


async def _sees_topics(kafka: Kafka) -> bool:
    answer = await kafka.any(
        "metadata",
        topics=[{"name": PROBE}],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    (topic,) = answer["topics"]
    return bool(topic["error_code"] != ErrorCode.topic_authorization_failed)


async def _sees_transactions(kafka: Kafka) -> bool:
    try:
        answer = await kafka.any("describe_transactions", transactional_ids=[PROBE])
    except Unsupported:  # before Kafka 3.0, which is refused for other reasons
        return True
    (row,) = answer["transaction_states"]
    return bool(row["error_code"] != ErrorCode.transactional_id_authorization_failed)


# The brokers.


async def _brokers(
    kafka: Kafka, rows: Sequence[dict[str, Any]], partitions: Sequence[OffsetsPartition]
) -> tuple[AskedBroker, ...]:
    numbers = [each.number for each in partitions]
    together = asyncio.Semaphore(ASKED_TOGETHER)

    async def asked(row: dict[str, Any]) -> AskedBroker:
        async with together:
            broker = AskedBroker(row["node_id"], row["host"], row["port"])
            return await _asked(kafka, broker, numbers)

    found = await asyncio.gather(*(asked(row) for row in rows))
    return tuple(sorted(found, key=lambda broker: broker.broker_id))


async def _asked(kafka: Kafka, broker: AskedBroker, numbers: Sequence[int]) -> AskedBroker:
    """Ask one broker for its groups, configs and the sizes of its replicas."""
    problems = []
    try:
        broker = broker._replace(groups=await _groups(kafka, broker))
    except Unsupported as error:
        problems.append(str(error))
    except TierError as error:
        return broker._replace(problems=(str(error),), answers=False)
    try:
        broker = broker._replace(configs=await _configs(kafka, broker))
    except TierError as error:
        problems.append(str(error))
    if numbers:
        try:
            broker = broker._replace(size_bytes=await _sizes(kafka, broker, numbers))
        except TierError as error:
            problems.append(str(error))
    return broker._replace(problems=tuple(problems))


async def _groups(kafka: Kafka, broker: AskedBroker) -> tuple[GroupRow, ...]:
    answer = await kafka.call((broker.host, broker.port), "list_groups", states_filter=[], types_filter=[])
    if answer["error_code"]:
        raise TierError(f"it cannot list its groups ({answer['error_code'].name.upper()})")
    return tuple(
        GroupRow(row["group_id"], (row.get("group_type") or CLASSIC).title(), row["group_state"])
        for row in answer["groups"]
    )


async def _configs(kafka: Kafka, broker: AskedBroker) -> dict[str, str]:
    asked = {
        "resource_type": BROKER_RESOURCE,
        "resource_name": str(broker.broker_id),
        "configuration_keys": list(BROKER_CONFIGS),
    }
    answer = await kafka.call(
        (broker.host, broker.port),
        "describe_configs",
        resources=[asked],
        include_synonyms=False,
        include_documentation=False,
    )
    (result,) = answer["results"]
    if result["error_code"] == ErrorCode.cluster_authorization_failed:
        raise TierError("its configs may not be read (the user needs DESCRIBE_CONFIGS on the cluster)")
    if result["error_code"]:
        raise TierError(f"its configs cannot be read ({result['error_code'].name.upper()})")
    return {row["name"]: row["value"] for row in result["configs"] if row["value"] is not None}


async def _sizes(kafka: Kafka, broker: AskedBroker, numbers: Sequence[int]) -> dict[int, int]:
    topics = [{"topic": OFFSETS_TOPIC, "partitions": list(numbers)}]
    answer = await kafka.call((broker.host, broker.port), "describe_log_dirs", topics=topics)
    if answer.get("error_code") == ErrorCode.cluster_authorization_failed:
        raise TierError("the sizes of its logs may not be read (the user needs DESCRIBE on the cluster)")
    return {
        row["partition_index"]: row["partition_size"]
        for result in answer["results"]
        if not result["error_code"]
        for topic in result["topics"]
        for row in topic["partitions"]
        if not row["is_future_key"]
    }


# Committed offsets.


async def _counted(kafka: Kafka, brokers: Sequence[AskedBroker]) -> Counted:
    """Count the committed offsets of the groups that brokers list."""
    deadline = time.monotonic() + COUNT_TIMEOUT_S
    found = await asyncio.gather(*(_counted_by(kafka, broker, deadline) for broker in brokers))
    problems = sorted({each.problem for each in found if each.problem is not None})
    return Counted(
        sum(each.offsets for each in found),
        sum(each.groups for each in found),
        "; ".join(problems) or None,
    )


async def _counted_by(kafka: Kafka, broker: AskedBroker, deadline: float) -> Counted:
    groups = [row.group for row in broker.groups if row.type in (CLASSIC, CONSUMER)]
    counted = Counted()
    for begin in range(0, len(groups), COUNTED_AT_ONCE):
        if time.monotonic() > deadline:
            return counted._replace(problem=f"counting was stopped after {COUNT_TIMEOUT_S:.0f} s")
        asked = [{"group_id": group, "topics": None} for group in groups[begin : begin + COUNTED_AT_ONCE]]
        try:
            answer = await kafka.call(
                (broker.host, broker.port), "offset_fetch", groups=asked, require_stable=False
            )
        except TierError as error:
            return counted._replace(problem=str(error))
        for group in answer["groups"]:
            if group["error_code"]:
                counted = counted._replace(problem=f"some groups refuse ({group['error_code'].name.upper()})")
                continue
            rows = (row for topic in group["topics"] for row in topic["partitions"])
            committed = sum(row["committed_offset"] >= 0 for row in rows)
            counted = counted._replace(offsets=counted.offsets + committed, groups=counted.groups + 1)
    return counted


# How fast records come.


async def _sampled(kafka: Kafka, facts: Facts) -> Sample | None:
    """Fetch from the largest offsets partitions, as a consumer, and measure it. Return None if the
    user may not read them."""
    brokers = {broker.broker_id: broker for broker in facts.brokers}
    led = [
        (brokers[each.leader].size_bytes.get(each.number, 0), each.number, brokers[each.leader])
        for each in facts.partitions or ()
        if each.leader in brokers
    ]
    size_bytes, seconds = 0, 0.0
    for _, number, broker in sorted(led, key=lambda each: each[0], reverse=True)[:SAMPLED_PARTITIONS]:
        begin = time.monotonic()
        try:
            fetched = await _fetched(kafka, broker, number)
        except TierError:
            continue
        if fetched is not None:
            size_bytes += fetched
            seconds += time.monotonic() - begin
    return Sample(size_bytes, seconds) if size_bytes else None


async def _fetched(kafka: Kafka, broker: AskedBroker, number: int) -> int | None:
    partition = {"partition": number, "fetch_offset": 0, "partition_max_bytes": SAMPLE_BYTES_MAX}
    answer = await kafka.call(
        (broker.host, broker.port),
        "fetch",
        max_wait=0,
        min_bytes=0,
        max_bytes=SAMPLE_BYTES_MAX,
        topics=[{"topic": OFFSETS_TOPIC, "partitions": [partition]}],
        forgotten_topics_data=[],
        rack_id="",
    )
    found = [row for topic in answer["responses"] for row in topic["partitions"]]
    if answer["error_code"] or not found or found[0]["error_code"]:
        return None
    return len(found[0]["records"] or b"")

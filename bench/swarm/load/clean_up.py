"""Deletes the groups and topics of a run, on any Kafka.

Groups are deleted by their coordinators; a group that still has members (static ones, or ones that crashed
just now) loses these first. Nothing here changes a verdict: what is left over is told in a line.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from kio.schema.errors import ErrorCode

from bench.swarm.planning.plan import Plan
from cluster.groups import connection, requests
from cluster.groups.connection import Kafka, NoSuchGroup, refused
from cluster.groups.describe import CONSUMER, describe_group
from cluster.groups.properties import ClientProperties
from cluster.tier_file import TierError
from storage.history.call_files import SUFFIX

CLEAN_UP_S: Final = 30.0
"""How long the whole clean-up takes at most."""
AT_ONCE: Final = 200
"""How many groups or topics one request has."""
TOPICS_TIMEOUT_MS: Final = 10_000
LEAVES: Final = -1
GONE: Final = frozenset({ErrorCode.none, ErrorCode.group_id_not_found, ErrorCode.unknown_topic_or_partition})
REASON: Final = "the swarm has ended"


def clean_up_after(directory: Path, plan: Plan, properties: ClientProperties) -> None:
    """Clean up after a run that came as far as its topics; what is left over is added to its record, if
    there is one."""
    if not (directory / f"topics{SUFFIX}").exists():
        return
    word, path = clean_up(plan, properties), directory / "run.json"
    if word and path.exists():
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "words": [*record["words"], word]}, indent=2))


def clean_up(plan: Plan, properties: ClientProperties) -> str:
    """Delete the plan's groups and topics; returns what is left over and why, or nothing."""
    groups = list(dict.fromkeys(member.group_id for member in plan.members))
    topics = [topic.name for topic in plan.topics]

    async def work(kafka: Kafka) -> list[str]:
        return [*await _delete_groups(kafka, groups), *await _delete_topics(kafka, topics)]

    async def in_time(kafka: Kafka) -> list[str]:
        return await asyncio.wait_for(work(kafka), CLEAN_UP_S)

    try:
        wrong = connection.run(properties, in_time)
    except TimeoutError:
        return f"Its groups and topics may be left over: deleting them took more than {CLEAN_UP_S:.0f} s."
    except (TierError, OSError) as error:
        return f"Its groups and topics are left over: {error}"
    except KeyboardInterrupt:
        return "Its groups and topics may be left over: deleting them was interrupted."
    if not wrong:
        return ""
    return f"{len(wrong):,} of its {len(groups) + len(topics):,} groups and topics are left over: {wrong[0]}"


async def _delete_groups(kafka: Kafka, groups: Sequence[str]) -> list[str]:
    """Delete groups. Returns what went wrong, a line for each group."""
    wrong = []
    for some in _batches(groups):
        for group_id in await _refused_at_once(kafka, some):
            try:
                await _delete_group(kafka, group_id)
            except TierError as error:
                wrong.append(str(error))
    return wrong


async def _refused_at_once(kafka: Kafka, groups: list[str]) -> list[str]:
    """Delete groups with one request to each of their coordinators; returns those that are still there."""
    answer = await kafka.any("find_coordinator", key_type=0, coordinator_keys=groups)
    by_address: dict[tuple[str, int], list[str]] = {}
    for found in answer["coordinators"]:
        if not found["error_code"]:
            by_address.setdefault((found["host"], found["port"]), []).append(found["key"])
    gone: set[str] = set()
    for address, theirs in by_address.items():
        results = (await kafka.call(address, "delete_groups", groups_names=theirs))["results"]
        gone |= {result["group_id"] for result in results if result["error_code"] in GONE}
    return [group_id for group_id in groups if group_id not in gone]


async def _delete_group(kafka: Kafka, group_id: str) -> None:
    """Delete a group; its members leave first. Raises TierError."""
    try:
        group = await describe_group(kafka, group_id)
    except NoSuchGroup:
        return
    if group.type == CONSUMER:
        for member in group.members:
            await _leave(kafka, group_id, member.member_id, member.instance_id)
    elif group.members:
        members = [(member.member_id, member.instance_id) for member in group.members]
        await requests.remove_members(kafka, group_id, members, REASON)
    for error in (await requests.delete_groups(kafka, [group_id])).values():
        if error is not None:
            raise error


async def _leave(kafka: Kafka, group_id: str, member_id: str, instance_id: str | None) -> None:
    """Make a KIP-848 member leave for good; LeaveGroup is for classic ones."""
    await kafka.of_group(
        group_id,
        "consumer_group_heartbeat",
        lambda answer: answer["error_code"],
        group_id=group_id,
        member_id=member_id,
        instance_id=instance_id,
        member_epoch=LEAVES,
        topic_partitions=None,
    )


async def _delete_topics(kafka: Kafka, topics: Sequence[str]) -> list[str]:
    """Delete topics. Returns what went wrong, a line for each topic."""
    wrong = []
    for some in _batches(topics):
        asked = [{"name": name, "topic_id": None} for name in some]
        answer = await kafka.any("delete_topics", topics=asked, timeout=TOPICS_TIMEOUT_MS)
        wrong += [
            str(refused(f"topic {row['name']}", row["error_code"], row["error_message"]))
            for row in answer["responses"]
            if row["error_code"] not in GONE
        ]
    return wrong


def _batches(names: Sequence[str]) -> Iterable[list[str]]:
    return (list(names[first : first + AT_ONCE]) for first in range(0, len(names), AT_ONCE))

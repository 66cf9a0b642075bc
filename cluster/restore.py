"""Restore a backup's topics and groups into a running tier that has none (`groupd restore`).

The tier may be of another shape: a group goes to the offsets partition to which its id hashes there.
Everything goes through the tier's own Raft logs: what is reported as restored is on a majority of disks.

Topics are restored with their ids and configs, users and ACLs, settings and levels of features that were
changed at run time, and groups with their configs, offsets, generations and epochs, and transactional ids
with their producers. Members are not (they belong to clients, which join anew: see
actors.coordinator.restore), nor offsets of topics that had been deleted when the backup was made, nor what
the topics held.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgpack
from kio.schema.errors import ErrorCode

from actors import runtime
from actors.coordinator.restore import OF_MEMBERS, emptied
from actors.ground.contract import Record
from actors.ground.image import NO_TOPIC_ID
from actors.ground.records import (
    OF_NO_GROUP,
    OFFSET_COMMIT,
    PRODUCER_ID_BLOCK,
    TRANSACTION,
    ProducerIdBlockKey,
    ProducerIdBlockValue,
)
from actors.ground.spec import CONTROLLER_GROUP, broker_name, partition_group
from actors.metadata.commands import (
    SET,
    AlterGroupConfigs,
    Command,
    GroupConfigChange,
    RestoredTopic,
    RestoreTopics,
    pack,
    unpack,
)
from actors.metadata.records import (
    GROUP_CONFIG,
    PRODUCER_IDS,
    TOPIC,
    GroupConfigValue,
    ProducerIdsValue,
    TopicValue,
)
from actors.runtime import ActorCallError
from cluster import restore_rights
from cluster.backup_manifest import Manifest, Progress, check, records_of
from cluster.group_leaders import GroupLeaders, NotNow
from cluster.group_writer import BATCH_BYTES, CALL_TIMEOUT_S, NOT_NOW, GroupWriter, Tally
from cluster.restore_settings import changed_settings
from cluster.restored_transactions import BackedUpTransactions
from cluster.state_copy import open_copy
from cluster.tier_file import TierError

OFFSETS_A_CALL: Final = 1_000
CONFIGS_A_CALL: Final = 1_000
NAMED_MAX: Final = 5
"""How many topics and groups a refusal names."""


@dataclass(slots=True, kw_only=True)
class Report:
    """What a restore did. It was read back from the tier and found equal when this is returned."""

    manifest: Manifest
    topics: int = 0
    groups: int = 0
    records: list[int] = field(default_factory=list)
    """How many records were restored into each offsets partition of this tier."""
    members_left_out: int = 0
    """How many records of members were left out."""
    transactional_ids: int = 0
    offsets_left_out: int = 0
    """How many offsets were left out because their topics had been deleted when the backup was made."""
    nodes_left_out: tuple[str, ...] = ()
    """The nodes whose own settings were left out because this tier has no such node."""


def restore(leaders: GroupLeaders, directory: Path, progress: Progress) -> Report:
    """Restore a backup and return what was done. Raises TierError, BackupDamaged (a TierError) before
    anything is written."""
    leaders.refuse_in_a_split("a restore")
    manifest = check(directory, progress)
    _refuse_what_is_there(leaders)
    report = Report(manifest=manifest)
    topic_ids = _restore_topics(leaders, directory, report)
    _restore_rights(leaders, directory, manifest)
    _restore_settings(leaders, directory, report)
    _restore_group_configs(leaders, directory, manifest)
    groups = _Groups(leaders, report, topic_ids)
    tallies = groups.restore(directory, progress)
    _raise_logs(leaders, groups.committed)
    _verify(leaders, tallies, topic_ids, progress)
    report.records = [tally.records for tally in tallies]
    return report


def _refuse_what_is_there(leaders: GroupLeaders) -> None:
    """Check that the tier is empty. Raises TierError that names topics and groups if it is not."""
    named = [f"topic {name}" for name in leaders.ask(CONTROLLER_GROUP, _first_topics)]
    for partition in range(leaders.spec.offsets_partitions):
        named += [f"group {name}" for name in leaders.ask(partition_group(partition), _first_groups)]
    if named:
        more = ", and more" if len(named) > NAMED_MAX else ""
        raise TierError(
            f"the tier is not empty: it holds {', '.join(named[:NAMED_MAX])}{more}; a backup is restored "
            "into a new tier (`groupd up --data-dir` with a new directory), before any client uses it"
        )


def _first_topics(controller: runtime.Handle) -> list[str]:
    return _first(key[1] for key, _ in open_copy(controller).records if key[0] == TOPIC)


def _first_groups(leader: runtime.Handle) -> list[str]:
    return _first(key[1] for key, _ in open_copy(leader).records if key[0] not in OF_NO_GROUP)


def _first(names: Iterable[str]) -> list[str]:
    """Return the first names, each once: one more than a refusal names. The rest is not even read."""
    first: dict[str, None] = {}
    for name in names:
        first[name] = None
        if len(first) > NAMED_MAX:
            break
    return list(first)


# Topics.


def _restore_topics(leaders: GroupLeaders, directory: Path, report: Report) -> frozenset[bytes]:
    """Restore the topics of the backup and return their ids."""
    next_producer_id = 0
    topics = []
    for key, value in records_of(directory, report.manifest.files[-1]):
        if key[0] == TOPIC:
            topic = TopicValue(*value)
            topics.append(
                RestoredTopic(key[1], topic.topic_id, len(topic.partition_leaders), tuple(topic.configs))
            )
        elif key[0] == PRODUCER_IDS:
            next_producer_id = ProducerIdsValue(*value).next_producer_id
    for batch in _batches(topics):
        command = RestoreTopics(tuple(batch), next_producer_id)
        outcome = leaders.ask(CONTROLLER_GROUP, partial(_submit, pack(command)))
        if outcome.error_code:
            raise TierError(f"topics cannot be restored: {outcome.error_message}")
    report.topics = len(topics)
    return frozenset(topic.topic_id for topic in topics)


def _restore_rights(leaders: GroupLeaders, directory: Path, manifest: Manifest) -> None:
    """Restore the backup's users and ACLs."""
    present = leaders.ask(CONTROLLER_GROUP, _records)
    commands = restore_rights.commands_of(records_of(directory, manifest.files[-1]), present)
    _submit_all(leaders, commands, "users and ACLs")


def _restore_settings(leaders: GroupLeaders, directory: Path, report: Report) -> None:
    """Restore what was changed at run time: settings of nodes, and levels of features. Groups come later,
    because the settings bound the configs that a group may have."""
    present = leaders.ask(CONTROLLER_GROUP, _records)
    backup = records_of(directory, report.manifest.files[-1])
    changed = changed_settings(backup, present, [node.node_id for node in leaders.spec.nodes])
    _submit_all(leaders, changed.commands, "settings changed at run time")
    report.nodes_left_out = changed.nodes_left_out


def _submit_all(leaders: GroupLeaders, commands: Iterable[Command], what: str) -> None:
    """Submit the commands one after the other. Raises TierError for the first that is refused."""
    for command in commands:
        wrong = restore_rights.problem(leaders.ask(CONTROLLER_GROUP, partial(_submit, pack(command))))
        if wrong is not None:
            raise TierError(f"{what} cannot be restored: {wrong}")


def _restore_group_configs(leaders: GroupLeaders, directory: Path, manifest: Manifest) -> None:
    """Restore the configs that groups have of their own; this tier's bounds must allow them."""
    changes = [
        GroupConfigChange(key[2], tuple((name, SET, text) for name, text in GroupConfigValue(*value).configs))
        for key, value in records_of(directory, manifest.files[-1])
        if key[0] == GROUP_CONFIG
    ]
    for start in range(0, len(changes), CONFIGS_A_CALL):
        command = AlterGroupConfigs(tuple(changes[start : start + CONFIGS_A_CALL]))
        for outcome in leaders.ask(CONTROLLER_GROUP, partial(_submit, pack(command))).groups:
            if outcome.error_code:
                raise TierError(
                    f"configs of group {outcome.group_id} cannot be restored: {outcome.error_message}"
                )


def _records(controller: runtime.Handle) -> list[tuple[Any, Any]]:
    return list(open_copy(controller).records)


def _submit(command: bytes, controller: runtime.Handle) -> Any:
    outcome = unpack(runtime.await_call(controller, "submit", command, timeout_s=CALL_TIMEOUT_S))
    if getattr(outcome, "error_code", 0) in NOT_NOW:
        raise NotNow(outcome.error_message or ErrorCode(outcome.error_code).name)
    return outcome


def _batches(topics: Iterable[RestoredTopic]) -> Iterator[list[RestoredTopic]]:
    batch: list[RestoredTopic] = []
    size_bytes = 0
    for topic in topics:
        batch.append(topic)
        size_bytes += len(msgpack.packb(topic))
        if size_bytes >= BATCH_BYTES:
            yield batch
            batch, size_bytes = [], 0
    # A batch is sent also if there are no topics: the producer ids are to go on where they stood.
    yield batch


# Groups.


class _Groups:
    """The groups of a backup on their way into the tier."""

    def __init__(self, leaders: GroupLeaders, report: Report, topic_ids: frozenset[bytes]) -> None:
        self._report = report
        self._topic_ids = topic_ids
        self._writer = GroupWriter(
            leaders, if_refused="the tier is restored in part: start again with a new one"
        )
        self._now_ms = time.time_ns() // 1_000_000
        self._left_out: Counter[str] = Counter()
        self.committed: dict[tuple[bytes, int], int] = {}
        """Topic partition -> its highest committed offset."""

    def restore(self, directory: Path, progress: Progress) -> list[Tally]:
        """Send the groups' records. Return the tally of what went to each offsets partition of this tier."""
        files = self._report.manifest.files[:-1]
        total = sum(header.records for header in files)
        transactions = BackedUpTransactions()
        for header in files:
            transactions.read(records_of(directory, header))
        transactions.decide()
        group_ids: set[str] = set()
        done = 0
        for header in files:
            for key, value in records_of(directory, header):
                done += 1
                record = self._kept(key, value)
                if record is None:
                    continue
                if record.key[0] != TRANSACTION:
                    group_ids.add(record.key[1])
                is_offset = record.key[0] == OFFSET_COMMIT
                self._writer.add(transactions.after_decided(record) if is_offset else record)
                if done % 1_000 == 0:
                    progress("restored", done, total)
        self._finish_transactions(transactions)
        self._writer.flush()
        progress("restored", total, total)
        self._report.groups = len(group_ids)
        self._report.members_left_out = self._left_out["members"]
        self._report.offsets_left_out = self._left_out["offsets"]
        return self._writer.tallies

    def _finish_transactions(self, transactions: BackedUpTransactions) -> None:
        """Send the offsets of decided transactions that replace no other, and how many producer ids were
        given out, so that none is given out twice."""
        for record in transactions.left():
            kept = self._kept(record.key, record.value or ())
            if kept is not None:
                self._writer.add(kept)
        for partition, given_out in transactions.given_out.items():
            if partition < len(self._writer.tallies):
                key = ProducerIdBlockKey(PRODUCER_ID_BLOCK, "")
                self._writer.add_to(partition, Record(key, ProducerIdBlockValue(partition, given_out)))
        self._report.transactional_ids = transactions.transactional_ids

    def _kept(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> Record | None:
        record = emptied(key, value, self._now_ms)
        if record is None:
            if key[0] not in OF_MEMBERS:
                raise TierError(f"the backup holds records of kind {key[0]}, which this groupd does not know")
            self._left_out["members"] += 1
        elif key[0] == OFFSET_COMMIT and value[5] not in self._topic_ids and value[5] != NO_TOPIC_ID:
            self._left_out["offsets"] += 1
            return None
        elif key[0] == OFFSET_COMMIT and value[5] != NO_TOPIC_ID:
            topic_partition = (value[5], key[3])
            self.committed[topic_partition] = max(self.committed.get(topic_partition, 0), value[0])
        return record


def _raise_logs(leaders: GroupLeaders, committed: Mapping[tuple[bytes, int], int]) -> None:
    """Tell every broker the offsets at which logs begin, because each may come to lead any topic partition.
    Raises TierError."""
    offsets = [(*topic_partition, offset) for topic_partition, offset in committed.items()]
    for node in leaders.spec.nodes:
        try:
            broker = runtime.find(broker_name(node.node_id), leaders.spec.namespace)
            if broker is None:
                raise TierError(f"node {node.node_id} has no broker now: start again with a new tier")
            for start in range(0, len(offsets), OFFSETS_A_CALL):
                part = offsets[start : start + OFFSETS_A_CALL]
                runtime.await_call(broker, "begin_logs_at", part, timeout_s=CALL_TIMEOUT_S)
        except (ActorCallError, TimeoutError) as error:
            raise TierError(
                f"the broker of node {node.node_id} cannot be told where topics begin: {error}"
            ) from None


def _verify(
    leaders: GroupLeaders, tallies: list[Tally], topic_ids: frozenset[bytes], progress: Progress
) -> None:
    """Read everything back. Raises TierError if it is not what was sent."""
    found = leaders.ask(CONTROLLER_GROUP, _topic_ids)
    if found != topic_ids:
        raise TierError(
            f"the tier holds {len(found)} topics, not just the {len(topic_ids)} that were restored: a client "
            "uses it already"
        )
    for partition, expected in enumerate(tallies):
        progress("verified", partition, len(tallies))
        tally = leaders.ask(partition_group(partition), _tally)
        if tally != expected:
            raise TierError(
                f"partition {partition} holds {tally.records} records and not just the {expected.records} "
                "that were restored: a client uses the tier already"
            )
    progress("verified", len(tallies), len(tallies))


def _topic_ids(controller: runtime.Handle) -> frozenset[bytes]:
    records = open_copy(controller).records
    return frozenset(TopicValue(*value).topic_id for key, value in records if key[0] == TOPIC)


def _tally(leader: runtime.Handle) -> Tally:
    tally = Tally()
    for record in open_copy(leader).records:
        tally = tally.plus(record)
    return tally

"""One of the two servers as a sequence sees it: its members, what was asked, what it says."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from actors.coordinator.consumer.heartbeat import WAITING_HEARTBEAT_INTERVAL_MS
from actors.ground.topic_names import OFFSETS_TOPIC
from tests.oracle.connection import Closed, NoAnswer, pause
from tests.oracle.generator.asking import GROUP_RESOURCE
from tests.oracle.generator.batches import batches
from tests.oracle.generator.choosing import HEARTBEAT_INTERVAL, SESSION_TIMEOUT
from tests.oracle.generator.choosing_data import (
    BROKER_CONFIGS,
    DATA_WEIGHTS,
    DELETE,
    KEPT_BROKER_CONFIGS,
    OWN_TOPICS,
    TOPIC_CONFIGS,
)
from tests.oracle.generator.knowledge import Knowledge, Request
from tests.oracle.generator.masks import masked
from tests.oracle.generator.operation import SLOTS
from tests.oracle.generator.slots import Slot
from tests.oracle.logs import log_topic
from tests.oracle.normal import Reading
from tests.oracle.play import CLOSED, NO_ANSWER, Address, Play, Step, parsed, said

FOLLOW_S = 3.0
"""How long one side may take to answer once the other side has."""
CONCURRENT_TRANSACTIONS = 51
SHORT_TIMEOUT_MS = 2_000
TRANSACTIONAL_IDS_ASKED = 40
"""How many transactional ids are asked, so that every partition of transaction states is among them."""
READY_S = 60.0
UNORDERED: Mapping[str, tuple[str, ...]] = {
    "offset_commit": ("topics",),
    "produce": ("responses", "partition_responses"),
    "fetch": ("responses", "partitions", "aborted_transactions"),
    "add_partitions_to_txn": ("results_by_topic_v3_and_below", "results_by_partition", "topic_results"),
    "txn_offset_commit": ("topics", "partitions"),
    "describe_transactions": ("transaction_states", "topics", "partitions"),
    "list_transactions": ("transaction_states", "unknown_state_filters"),
    "describe_producers": ("topics", "partitions", "active_producers"),
    "elect_leaders": ("replica_election_results", "partition_result"),
    "alter_client_quotas": ("entries", "entity"),
    "alter_configs": ("responses",),
    "delete_records": ("topics", "partitions"),
    "create_topics": ("topics",),
    "delete_topics": ("responses",),
    "describe_log_dirs": ("topics", "partitions"),
    "metadata": ("partitions",),
}
"""Lists whose order is that of a hash map, or in which what was refused at the door stands before the others,
or after them."""
IGNORED: Mapping[str, tuple[str, ...]] = {
    "produce": ("batch_index_error_message",),
    "metadata": ("brokers", "replica_nodes", "isr_nodes", "cluster_authorized_operations"),
    "describe_topic_partitions": ("replica_nodes", "isr_nodes"),
    "describe_log_dirs": ("log_dir", "total_bytes", "usable_bytes", "partition_size"),
    "describe_producers": ("coordinator_epoch", "last_timestamp"),
    "describe_transactions": ("partitions",),
    "get_telemetry_subscriptions": ("subscription_id", "client_instance_id"),
    "create_topics": ("configs",),
    "describe_cluster": ("brokers", "cluster_authorized_operations"),
}
"""Fields that say what a machine is like, or that are random, as the offsets partition of a group is (it is
among the partitions of a transaction); `last_timestamp` is the time of a marker. Kafka deletes records by
whole segments, so its logs are larger, and it has more configs of topics than ours: those that are drawn are
described by name. What is wrong with a record is told in words."""
OF_ALL_GROUPS = (
    "offset",
    "timestamp",
    "high_watermark",
    "last_stable_offset",
    "log_start_offset",
    "low_watermark",
    "leader_epoch",
    "diverging_epoch",
)
"""Fields about `__consumer_offsets` that depend on what all groups have written, and on when ours has made
its log (W52)."""
_CHANGED = (2, 3)
"""The sources of settings that were changed at run time: for one broker, for all of them."""
HEARTBEAT_TOLD = "heartbeat_interval_ms"
"""The field of an answer that tells the heartbeat interval."""
TOPICS = {"t": 12, "u": 12}


class Heard(NamedTuple):
    """One side's answer: as it came, as it is compared, and without what the assignor is free to choose."""

    entity: Any
    exact: Any
    compared: Any


class Side:
    """One of the two servers, as a sequence sees it."""

    def __init__(self, server: Address, kind: str, topics: dict[str, Any]) -> None:
        self.name = server.name
        self._kind = kind
        self.play = Play(server)
        for topic, topic_id in topics.items():
            self.play.names.know_topic(topic_id, topic)
        slots = [Slot(number, _instance(kind, number)) for number in range(SLOTS)]
        ids = tuple(self.play.unique(f"x{number}") for number in range(SLOTS))
        timeout_ms = SHORT_TIMEOUT_MS if kind == "silent" else 30_000
        self.known = Knowledge(self.play.group("g"), ids, topics, slots, timeout_ms)
        if kind in DATA_WEIGHTS:
            self._make_own_topics()
        self.clients = [self.play.connect(f"c{number}") for number in range(SLOTS)]
        self.parked: dict[int, Request] = {}
        self.steps: list[Step] = []

    def _make_own_topics(self) -> None:
        self.known.own = {name: self.play.unique(name) for name in OWN_TOPICS}
        for name, partitions in OWN_TOPICS.items():
            if partitions:
                log_topic(self.play, name, partitions)
        self.seen_topics()

    def seen_topics(self) -> Any:
        """What the side shows of the sequence's own topics, of which it learns the ids."""
        named = [{"topic_id": None, "name": unique} for unique in self.known.own.values()]
        told = self.play.admin.quietly("metadata", 12, topics=named)
        by_name = {unique: name for name, unique in self.known.own.items()}
        there = {by_name[each.name]: each for each in told.topics if each.topic_id is not None}
        self.known.ids = {name: each.topic_id for name, each in there.items()}
        for name, topic_id in self.known.ids.items():
            self.play.names.know_topic(topic_id, self.known.own[name])
        asked = [
            {
                "name": self.known.own[name],
                "partitions": [
                    {"partition_index": part.partition_index, "timestamp": -1} for part in each.partitions
                ],
            }
            for name, each in there.items()
        ]
        led = self.play.admin.quietly("list_offsets", 7, replica_id=-1, topics=asked)
        errors = {
            by_name[topic.name]: {part.partition_index: part.error_code.value for part in topic.partitions}
            for topic in led.topics
        }
        return errors, self._seen_configs([(2, self.known.own[name]) for name in sorted(there)])

    def seen_broker_configs(self) -> Any:
        return self._seen_configs([(4, "1"), (4, "")])

    def put_back_broker_configs(self) -> None:
        """Take back what sequences before this one may have set, and wait until that has been heard of."""
        for name in ("1", ""):
            configs = [
                {"name": config, "config_operation": DELETE, "value": None} for config in KEPT_BROKER_CONFIGS
            ]
            resource = {"resource_type": 4, "resource_name": name, "configs": configs}
            self.play.admin.quietly("incremental_alter_configs", 1, resources=[resource])
        self.play.until(
            lambda: not any(source in _CHANGED for *_, source in self.seen_broker_configs()),
            "settings that are put back",
        )

    def _seen_configs(self, resources: Sequence[tuple[int, str]]) -> Any:
        keys = [*TOPIC_CONFIGS, *BROKER_CONFIGS]
        asked = [
            {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
            for kind, name in resources
        ]
        told = self.play.admin.quietly("describe_configs", 4, resources=asked, include_synonyms=True)
        return sorted(
            (self.play.names.text(each.resource_name), config.name, config.value, config.config_source)
            for each in told.results
            for config in each.configs
        )

    def has_transactions_under_way(self) -> bool:
        """Whether the markers of some transaction of the sequence are still to be written."""
        ids = self.known.transactional_ids
        told = self.play.admin.quietly("describe_transactions", 0, transactional_ids=ids)
        return any(each.transaction_state.startswith("Prepare") for each in told.transaction_states)

    def _with_told_batches(self, entity: Any) -> Any:
        """The answer to Fetch with what its records say, as text."""

        def told(part: Any) -> Any:
            if not part.records:
                return part
            text = json.dumps(batches(part.records, self.play.names.producer_id))
            return dataclasses.replace(part, records=text.encode())

        by_topic: dict[Any, Any] = {}
        for topic in entity.responses:  # one may come twice: refused partitions stand before the others
            named = getattr(topic, "topic", None) or getattr(topic, "topic_id", None)
            before = by_topic[named].partitions if named in by_topic else ()
            partitions = (*before, *(told(part) for part in topic.partitions))
            by_topic[named] = dataclasses.replace(topic, partitions=partitions)
        return dataclasses.replace(entity, responses=tuple(by_topic.values()))

    def post(self, asked: Request) -> None:
        """Send a request; `take` or `answer` gets its answer."""
        request_plain = Reading(self.play.names).plain(dict(asked.fields))
        step = {
            "client": f"c{asked.slot}",
            "does": f"asks {asked.api} v{asked.version}",
            "request": request_plain,
        }
        self.steps.append(step)
        self.parked[asked.slot] = asked
        self.clients[asked.slot].post(asked.api, asked.version, asked.fields)

    def take(self, slot: int, seconds: float) -> Any:
        """Return the entity that answers the slot's parked request. Raises NoAnswer, Closed."""
        asked = self.parked[slot]
        frame = self.clients[slot].receive(seconds)
        del self.parked[slot]
        return parsed(asked.api, asked.version, frame)

    def answer(self, slot: int) -> Heard:
        """Return the answer to the slot's parked request; that the server says nothing is an answer, too."""
        asked = self.parked[slot]
        try:
            entity = self.take(slot, FOLLOW_S)
            while _is_concurrent(entity):
                pause(0.02)
                self.clients[slot].post(asked.api, asked.version, asked.fields)
                self.parked[slot] = asked
                entity = self.take(slot, FOLLOW_S)
        except (NoAnswer, Closed) as error:
            silence = NO_ANSWER if isinstance(error, NoAnswer) else CLOSED
            return Heard(None, silence, silence)
        ignored, unordered = IGNORED.get(asked.api, ()), UNORDERED.get(asked.api, ())
        if OFFSETS_TOPIC in str(asked.fields.get("topics", "")):
            ignored = (*ignored, *OF_ALL_GROUPS)
        if asked.api == "fetch":
            entity = self._with_told_batches(entity)
        exact = said(self.play.names, asked.api, entity, ignored, unordered)["answer"]
        return Heard(entity, exact, masked(self._kind, asked.api, exact))

    def described(self, ignore: Collection[str] = ()) -> Heard:
        """The group's consumer members, on a connection of its own and without a step."""
        api = "consumer_group_describe"
        entity = self.play.admin.quietly(api, 1, group_ids=[self.known.group])
        exact = said(self.play.names, api, entity, ignore, ())["answer"]
        return Heard(entity, exact, masked(self._kind, api, exact))

    def configs(self) -> dict[str, str]:
        """The group's configs that are drawn, as they are described."""
        resource = {
            "resource_type": GROUP_RESOURCE,
            "resource_name": self.known.group,
            "configuration_keys": [HEARTBEAT_INTERVAL, SESSION_TIMEOUT],
        }
        told = self.play.admin.quietly("describe_configs", 4, resources=[resource])
        return {config.name: config.value for config in told.results[0].configs}

    def is_told_sooner(self, member_id: str, told_ms: Sequence[int]) -> bool:
        """Whether this side's member, told Kafka's interval and this side's, is one that waits for partitions
        that others still own, or for what a regex matches: our tier has it ask again within a second."""
        theirs_ms, ours_ms = told_ms
        if ours_ms != WAITING_HEARTBEAT_INTERVAL_MS or theirs_ms < ours_ms:
            return False
        members = self.described().entity.groups[0].members
        return any(_waits(member) for member in members if member.member_id == member_id)

    def close(self) -> None:
        self.play.close()


def _instance(kind: str, number: int) -> str | None:
    """Two slots share an instance where members are static."""
    shared = f"i{min(number, 1)}"
    if kind in ("static", "consumer_static"):
        return shared
    return "i0" if kind == "mixed" and number == 0 else None


def _waits(member: Any) -> bool:
    """Whether a described member owns something else than its target."""
    owned, target = (
        {(part.topic_id, number) for part in assignment.topic_partitions for number in part.partitions}
        for assignment in (member.assignment, member.target_assignment)
    )
    return bool(target - owned or member.subscribed_topic_regex)


def _is_concurrent(entity: Any) -> bool:
    """An earlier transaction is not quite over: a client asks again."""
    error = getattr(entity, "error_code", None)
    return error is not None and error.value == CONCURRENT_TRANSACTIONS


def topics_of(server: Address) -> dict[str, Any]:
    """Make the topics of all sequences, once; their ids by name."""
    play = Play(server)
    try:
        for name, partitions in TOPICS.items():
            if play.topic_id(name) is None:
                play.create_topic(name, partitions)
        return {name: play.topic_id(name) for name in TOPICS}
    finally:
        play.close()


def make_transactions_ready(server: Address) -> None:
    """Wait until every transaction coordinator answers: Kafka makes them when the first is looked for."""
    play = Play(server)
    try:
        for number in range(TRANSACTIONAL_IDS_ASKED):
            own = {"transactional_id": f"ready-{number}", "producer_id": -1, "producer_epoch": -1}
            play.until(partial(_is_served, play, own), "transactions are served", READY_S)
    finally:
        play.close()


def _is_served(play: Play, own: dict[str, Any]) -> bool:
    found = play.admin.quietly("find_coordinator", 3, key=own["transactional_id"], key_type=1)
    begun = play.admin.quietly("init_producer_id", 4, **own)
    return bool(found.error_code.value == 0 and begun.error_code.value == 0)

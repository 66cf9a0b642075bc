"""One of the two servers as a sequence sees it: its members, what was asked, what it says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

from actors.coordinator.consumer.heartbeat import WAITING_HEARTBEAT_INTERVAL_MS
from tests.oracle.connection import Closed, NoAnswer, pause
from tests.oracle.generator.asking import GROUP_RESOURCE, Knowledge, Request
from tests.oracle.generator.choosing import HEARTBEAT_INTERVAL, SESSION_TIMEOUT, SLOTS
from tests.oracle.generator.masks import masked
from tests.oracle.generator.slots import Slot
from tests.oracle.normal import Reading
from tests.oracle.play import CLOSED, NO_ANSWER, Address, Play, Step, parsed, said

FOLLOW_S = 3.0
"""How long one side may take to answer once the other side has."""
CONCURRENT_TRANSACTIONS = 51
SHORT_TIMEOUT_MS = 2_000
TRANSACTIONAL_IDS_ASKED = 40
"""How many transactional ids are asked, so that every partition of transaction states is among them."""
READY_S = 60.0
UNORDERED = {"offset_commit": ("topics",)}
"""Topics that were refused at the door stand before the others, or after them."""
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
        self.clients = [self.play.connect(f"c{number}") for number in range(SLOTS)]
        self.parked: dict[int, Request] = {}
        self.steps: list[Step] = []

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
        exact = said(self.play.names, asked.api, entity, (), UNORDERED.get(asked.api, ()))["answer"]
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

"""A plug-in that assigns the consumer group, and what actors/leader/plug_in_assignments.py does around it.

What it does is drawn anew for each call: as a rule it assigns fairly, at times it fails, is late, or gives
what no group could live with. In a healed world it is fair and in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from actors.assignors.registry import AssignorError
from actors.assignors.spec import AssignmentSpec
from actors.coordinator.consumer.assignment_jobs import ASSIGNED, AssignedRequest, AssignmentAsked
from actors.ground.contract import Request
from tests.simulation.parts import Process

TIMEOUT_MS: Final = 150
IN_TIME_S: Final = (0.001, 0.1)
UNFAIR: Final = 0.3
"""How often it does not do what it should."""

LATE: Final = "late"

Given = Mapping[str, Mapping[bytes, Iterable[int]]]


def fair(spec: AssignmentSpec) -> dict[str, dict[bytes, list[int]]]:
    """Every partition to one of those who subscribe to its topic, in turns."""
    given: dict[str, dict[bytes, list[int]]] = {member.member_id: {} for member in spec.members}
    for topic_id in sorted(spec.partition_counts):
        names = sorted(member.member_id for member in spec.members if topic_id in member.topic_ids)
        for number in range(spec.partition_counts[topic_id]):
            given[names[number % len(names)]].setdefault(topic_id, []).append(number)
    return given


def failing(spec: AssignmentSpec) -> Given:
    raise ValueError("a bug of the plug-in's")


def generous(spec: AssignmentSpec) -> Given:
    """Assign every partition to every member."""
    return {
        member.member_id: {topic_id: range(spec.partition_counts[topic_id]) for topic_id in member.topic_ids}
        for member in spec.members
    }


def boundless(spec: AssignmentSpec) -> Given:
    """Assign a partition that does not exist."""
    given = fair(spec)
    for topics in given.values():
        for topic_id in topics:
            topics[topic_id] = [*topics[topic_id], spec.partition_counts[topic_id]]
    return given


def outlandish(spec: AssignmentSpec) -> Given:
    """Assign partitions to a member that does not exist."""
    return {**fair(spec), "nobody": {}}


UNFAIR_WAYS: Final = (failing, generous, boundless, outlandish)


class Fickle:
    """A plug-in that `group.consumer.assignors` can name; it assigns in the way that was chosen before."""

    name = "fickle"
    way: Callable[[AssignmentSpec], Given] = staticmethod(fair)
    """How the next call assigns; it is set right before it."""

    def assign(self, spec: AssignmentSpec) -> Given:
        return Fickle.way(spec)


ENTRY: Final = f"{__name__}:{Fickle.__name__}"


class PlugIns:
    """The plug-ins of one process. Their requests have negative tokens, so that they differ from clients'."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._plug_in = process.world.code.plug_in(ENTRY)
        self._token = 0
        self.open: dict[int, Callable[[Any], None]] = {}
        """Token of a request that is not answered yet -> what takes the answer."""

    def answered(self, token: int, body: Any) -> None:
        self.open.pop(token)(body)

    def ask(self, api_key: int, body: Any, then: Callable[[Any], None], *, version: int = 0) -> None:
        """Make a request of the tier's own of this process's shard."""
        self._token -= 1
        self.open[self._token] = then
        process = self._process
        request = Request(self._token, api_key, version, "", "", body)
        answer = process.machine.submit(request, process.now_ms())
        if answer is not None:
            self.answered(request.token, answer)
        process.wake()

    def on_events(self, events: Sequence[Any]) -> None:
        for event in events:
            if isinstance(event, AssignmentAsked):
                self._asked(event)
            else:
                self._process.world.on_event(self._process, event)

    def _asked(self, asked: AssignmentAsked) -> None:
        world, chance = self._process.world, self._process.world.chance
        way, late_s = fair, chance.uniform(*IN_TIME_S)
        if not world.is_healed and chance.random() < UNFAIR:
            if chance.random() < 0.3:
                late_s = 1.0
            else:
                way = chance.choice(UNFAIR_WAYS)
        world.plug_in_calls[way.__name__ if late_s < TIMEOUT_MS / 1_000 else LATE] += 1
        body = AssignedRequest(asked.group_id, asked.group_epoch, asked.assignor, None, "not in time")
        if late_s < TIMEOUT_MS / 1_000:
            body = self._outcome(asked, way)
        self._process.later(min(late_s, TIMEOUT_MS / 1_000), lambda: self._tell(body))

    def _outcome(self, asked: AssignmentAsked, way: Callable[[AssignmentSpec], Given]) -> AssignedRequest:
        assignment, error = None, ""
        Fickle.way = staticmethod(way)
        try:
            assignment = self._plug_in.assign(asked.spec)
        except AssignorError as failure:
            error = str(failure)
        return AssignedRequest(asked.group_id, asked.group_epoch, asked.assignor, assignment, error)

    def _tell(self, body: AssignedRequest) -> None:
        self.ask(ASSIGNED, body, lambda answer: None)

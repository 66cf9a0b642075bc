"""Clients that behave as real ones do: one request at a time, the same one again after a time-out, another
coordinator looked for after NOT_COORDINATOR or when a connection is gone.

A client is a generator: it yields an `Ask` and is sent its answer (None: unknown outcome), or seconds to
rest.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from kio.schema.errors import ErrorCode

from actors.metadata.commands import AllocateProducerIds, CreateTopics, NewTopic, RegisterNode
from actors.protocol import api_keys
from actors.protocol.messages import (
    CommittedPartition,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
)
from storage.raft.members import replica_of
from tests.simulation.asked import Ask, Asked
from tests.simulation.machines import FLEETING_TOPIC, PARTITIONS, TOPIC
from tests.simulation.parts import Process, World

Script = Generator[Ask | float, Any, None]
Step = Generator[Ask | float, Any, Any]
ELSEWHERE = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
    }
)
"""Look for the coordinator again, or give it a moment."""
BACKOFF_S = 0.04


class Client:
    """`script` is what it does all its life; `is_well` whether it gets what it wants since a time."""

    is_near = False

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.well_at = 0.0
        """When the client began that which succeeded and began last."""
        self._number: int | None = None
        """The number of the host that the client takes for the coordinator."""
        self._asked: Asked | None = None
        self._script = self.script()

    def start(self) -> None:
        self._go_on(None)

    def script(self) -> Script:
        raise AssertionError("a client has a script")

    def is_well(self, since: float) -> bool:
        """Whether the client has succeeded with something since this time."""
        return self.well_at > since

    # -- requests -----------------------------------------------------------------------------------

    def call(self, ask: Ask) -> Step:
        """The answer, however long it takes: sent again as it is when nobody answers."""
        while True:
            answer = yield ask
            code = None if answer is None else self.error_of(answer)
            if answer is not None and code not in ELSEWHERE:
                return answer
            self.look_elsewhere(code)
            yield BACKOFF_S

    def once(self, ask: Ask) -> Step:
        """The answer, or None: unknown, or not the coordinator."""
        answer = yield ask
        code = None if answer is None else self.error_of(answer)
        if answer is None or code in ELSEWHERE:
            self.look_elsewhere(code)
            yield BACKOFF_S
            return None
        return answer

    def error_of(self, answer: Any) -> Any:
        """Return the error that stands for the whole answer."""
        if hasattr(answer, "error_code"):
            return answer.error_code
        entries = getattr(answer, "groups", None)
        if entries is not None:
            return entries[0].error_code
        first = answer.topics[0]
        return first.error_code if hasattr(first, "error_code") else first[1][0][1]

    def look_elsewhere(self, code: Any) -> None:
        """FindCoordinator: what some replica believes, which may be old."""
        if code == ErrorCode.coordinator_load_in_progress:
            return
        chance, processes = self.world.chance, self.world.processes()
        self._number = None
        if processes:
            asked = chance.choice(processes)
            leader_id = asked.raft.leader_id
            if leader_id is None or chance.random() < 0.2:
                self._number = asked.number
            else:
                self._number = replica_of(leader_id)

    def _coordinator(self) -> Process | None:
        host = None if self._number is None else self.world.hosts.get(self._number)
        return None if host is None else host.process

    def _go_on(self, answer: Any) -> None:
        if self.world.is_over:
            return
        wanted = self._script.send(answer)
        if isinstance(wanted, Ask):
            self._ask(wanted)
        else:
            self.world.after(wanted * self.world.chance.uniform(0.8, 1.2), lambda: self._go_on(None))

    def _ask(self, ask: Ask) -> None:
        lull_until = self.world.rests.waits_until()
        if lull_until is not None:
            self.world.at(lull_until, lambda: self._ask(ask))
            return
        if ask.api_key == api_keys.OFFSET_COMMIT and self.world.now < self.world.quiet_until:
            self.world.at(self.world.quiet_until, lambda: self._ask(ask))
            return
        process = self._coordinator()
        if process is None:
            self.look_elsewhere(None)
            self.world.after(BACKOFF_S, lambda: self._go_on(None))
            return
        asked = self._asked = self.world.answers.send(self, process, ask)
        self.world.after(ask.timeout_s, lambda: self.answered(asked, None))

    def answered(self, asked: Asked, body: Any | None) -> None:
        if asked is self._asked:
            self._asked = None
            asked.is_abandoned = body is None
            if asked.is_abandoned:
                self.world.after(0.001, lambda: asked.process.closed(asked))
            self._go_on(body)


def commit_ask(
    group_id: str,
    offsets: dict[int, tuple[int, str]],
    epoch: int = -1,
    member_id: str = "",
    *,
    topic: str = TOPIC,
) -> Ask:
    """Return an OffsetCommit of these offsets: `partition -> (offset, metadata)`."""
    numbers = tuple(CommittedPartition(p, offset, -1, text) for p, (offset, text) in offsets.items())
    body = OffsetCommitRequest(group_id, epoch, member_id, None, -1, ((topic, numbers),))
    return Ask(api_keys.OFFSET_COMMIT, 9, body)


def fetch_ask(group_id: str, numbers: tuple[int, ...]) -> Ask:
    topics = ((TOPIC, numbers), (FLEETING_TOPIC, numbers))
    body = OffsetFetchRequest((OffsetFetchGroup(group_id, topics),))
    return Ask(api_keys.OFFSET_FETCH, 9, body)


KNOWN = 2
"""Which of four commits is of one partition without metadata, so that the next one is known."""


class Committer(Client):
    """Commits offsets of a group without members, one after the other, and looks at what others committed."""

    SIZES: tuple[int, ...] = (0, 0, 20, 120)
    ALL_EVERY: int = 4
    """Every so many commits one is of all partitions; 0: never."""

    def __init__(self, world: World, name: str, group_id: str, rest_s: float) -> None:
        super().__init__(world, name)
        self.group_id = group_id
        self._rest_s = rest_s
        self._timeout_s = world.chance.choice((0.08, 0.4))

    def script(self) -> Script:
        chance, serial = self.world.chance, 0
        while True:
            serial += 1
            partition, began_at = chance.randrange(PARTITIONS), self.world.now
            text = f"{self.name}-{serial}".ljust(chance.choice(self.SIZES), ".")
            offsets = {partition: (serial, "" if serial % 4 == KNOWN else text)}
            is_of_all = bool(self.ALL_EVERY) and serial % self.ALL_EVERY == 0
            if is_of_all:
                offsets = dict.fromkeys(range(PARTITIONS), (serial, ""))
            # What is known of a commit is stale only if its topic goes: half of those that repeat may see it.
            topic = FLEETING_TOPIC if chance.random() < (0.5 if is_of_all else 0.15) else TOPIC
            ask = commit_ask(self.group_id, offsets, topic=topic)
            answer = yield from self.call(ask._replace(timeout_s=self._timeout_s))
            if self.error_of(answer) == ErrorCode.none:
                self.well_at = max(self.well_at, began_at)
            if chance.random() < 0.4:
                yield from self.once(fetch_ask(self.group_id, tuple(range(PARTITIONS))))
            yield self._rest_s


class LogCommitter(Committer):
    """Writes to the bare log, big commands too, so that windows and chunks are filled."""

    SIZES = (0, 30, 30, 140, 900)
    ALL_EVERY = 0


class Reader:
    """Fetches from whoever leads or believes so, also from a leader that is cut off from the others."""

    is_near = True

    def __init__(self, world: World, name: str, group_id: str) -> None:
        self.world = world
        self.name = name
        self.group_id = group_id

    def start(self) -> None:
        world = self.world
        if world.is_over:
            return
        for process in world.processes():
            if process.raft.is_leader:
                world.answers.send(self, process, fetch_ask(self.group_id, tuple(range(PARTITIONS))))
        world.after(world.chance.uniform(0.01, 0.03), self.start)

    def answered(self, asked: Asked, body: Any | None) -> None:
        pass

    def is_well(self, since: float) -> bool:
        return True


class Flood:
    """Sends commits to whoever leads or believes so, several at once, and waits for no answer: the bare log
    then has many entries under way, and a leader that is cut off has a long tail."""

    is_near = False

    def __init__(self, world: World) -> None:
        self.world = world
        self.name = "flood"
        self._serial = 0

    def start(self) -> None:
        chance, world = self.world.chance, self.world
        if world.is_over:
            return
        if world.now >= world.quiet_until:
            for process in world.processes():
                if process.raft.is_leader:
                    for _ in range(chance.randint(1, 4)):
                        self._serial += 1
                        text = f"flood-{self._serial}".ljust(chance.choice((0, 30, 140, 900)), ".")
                        partition = chance.randrange(PARTITIONS)
                        ask = commit_ask("flood", {partition: (self._serial, text)})
                        world.answers.send(self, process, ask)
        world.after(chance.uniform(0.015, 0.045), self.start)

    def answered(self, asked: Asked, body: Any | None) -> None:
        pass

    def is_well(self, since: float) -> bool:
        return True


class Administrator(Client):
    """Creates topics, some of them twice, and asks for producer ids."""

    def begin(self) -> Step:
        """See that there is a node on which topics can live."""
        yield from self.call(Ask(-1, 0, RegisterNode(1, "localhost", 9_092)))

    def script(self) -> Script:
        chance, serial = self.world.chance, 0
        names: list[str] = []
        yield from self.begin()
        while True:
            began_at = self.world.now
            if chance.random() < 0.4:
                command: Any = AllocateProducerIds(1)
            elif names and chance.random() < 0.2:
                command = CreateTopics((NewTopic(chance.choice(names), 1, -1),))
            else:
                serial += 1
                names.append(f"{self.name}-{serial}")
                command = CreateTopics((NewTopic(names[-1], chance.randint(1, 4), -1),))
            answer = yield from self.call(Ask(-1, 0, command))
            if self.error_of(answer) in (ErrorCode.none, ErrorCode.topic_already_exists):
                self.well_at = max(self.well_at, began_at)
            yield 0.01

"""A swarm's history as a seeded little world makes it up, and what it put into it: the figures' answers.

Classic groups (range) and KIP-848 groups start together; every group meets one change of members, and groups
may meet a fault: their coordinator is gone for a while, requests under way are lost, later ones are refused.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from storage.history.call_files import CallWriter
from storage.history.calls import (
    ANSWERED,
    CLASSIC,
    CLOSED,
    CONSUMER,
    NEVER,
    READER,
    Call,
    Fault,
    Gone,
    History,
    Offset,
    Partitions,
    Row,
    Topic,
    history_of,
)

TOPIC = "orders"
MS = 1_000
S = 1_000_000
NOT_COORDINATOR, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID = 16, 27, 79, 25
RUN_ID = "run-of-a-test"


class World(NamedTuple):
    """A made-up run of a swarm: its groups, their members, and what happens to them when."""

    seed: int = 1
    classic_groups: int = 2
    consumer_groups: int = 2
    members: int = 4
    partitions: int = 16
    heartbeat_ms: int = 3_000
    commit_ms: int = 5_000
    leave_s: float = 20.0
    """The time at which the last member of every group leaves."""
    fault_s: float = 40.0
    fault_for_s: float = 2.0
    faulted_groups: int = 1
    """How many groups of each protocol suffer faults."""
    seconds: float = 60.0
    began_us: int = 5 * S


class Planted(NamedTuple):
    """What is known about the rows that a world made up, by group and summed."""

    rebalances: Counter[str]
    moved: Counter[str]
    commits: Counter[str]
    lost_calls: Counter[str]
    gap_us: dict[str, int]
    stable_us: dict[str, int]


class Story:
    """Makes the rows of a world's record."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rows: list[Row] = [Topic(TOPIC, world.partitions, world.began_us)]
        self.planted = Planted(Counter(), Counter(), Counter(), Counter(), {}, {})
        self._chance = Random(world.seed)
        self._correlation_ids: Counter[str] = Counter()
        for number in range(world.classic_groups):
            self._tell(f"classic-{number}", CLASSIC, number < world.faulted_groups)
        for number in range(world.consumer_groups):
            self._tell(f"consumer-{number}", CONSUMER, number < world.faulted_groups)
        if world.faulted_groups:
            began_us = self._at(world.fault_s)
            self.rows.append(Fault("kill-leader", "partition-0-1", began_us, began_us + self._fault_us))

    @property
    def _fault_us(self) -> int:
        return int(self.world.fault_for_s * S)

    def _at(self, seconds: float) -> int:
        return self.world.began_us + int(seconds * S)

    def _tell(self, group_id: str, protocol: str, is_hit: bool) -> None:
        tell = _Classic if protocol == CLASSIC else _Consumer
        tell(self, group_id, self._chance).tell(is_hit)

    @property
    def end_us(self) -> int:
        return self._at(self.world.seconds)

    def history(self) -> History:
        return history_of(self.rows)._replace(ended_us=self.end_us)

    def final_reads(self) -> list[Call]:
        """Return what the reader at the end is told: the last commit of each partition of every group."""
        last: dict[str, dict[int, int]] = {}
        for row in self.rows:
            if isinstance(row, Call) and row.api == "OffsetCommit":
                of_group = last.setdefault(row.group_id, {})
                for _, number, offset, _ in row.offsets:
                    of_group[number] = max(offset, of_group.get(number, 0))
        return [
            Call(
                READER,
                "reader",
                "OffsetFetch",
                self.end_us + S,
                self.end_us + S + 500,
                ANSWERED,
                group_id=group_id,
                offsets=tuple(Offset(TOPIC, *row) for row in sorted(of_group.items())),
            )
            for group_id, of_group in last.items()
        ]

    def write(self, directory: Path, files: int = 2) -> None:
        """Write files as workers would, each its share of the clients, and the final reader."""
        with CallWriter(directory / "reader.calls", RUN_ID) as writer:
            for call in self.final_reads():
                writer.write(call)
            writer.end(NEVER)
        for number in range(files):
            with CallWriter(directory / f"worker-{number}.calls", RUN_ID) as writer:
                for row in self.rows:
                    if hash_of(row) % files == number:
                        writer.write(row)
                writer.end(self.end_us)

    def call(self, client: str, api: str, sent_us: int, took_us: int, **fields: Any) -> Call:
        connection = f"{api} of {client}"  # so that answers of one connection come in their order
        self._correlation_ids[connection] += 1
        number = self._correlation_ids[connection]
        answer = {"answer_correlation_id": number} if fields.get("outcome", ANSWERED) == ANSWERED else {}
        row = Call(
            client,
            connection,
            api,
            sent_us,
            sent_us + took_us,
            **{"outcome": ANSWERED, "correlation_id": number, **answer, **fields},
        )
        self.rows.append(row)
        return row


def hash_of(row: Row) -> int:
    """A hash of the client that is the same in every process."""
    return sum(row.client.encode()) if isinstance(row, Call | Gone) else 0


def share(partitions: int, members: int, place: int) -> Partitions:
    """The partitions that the range assignor gives to one of so many members."""
    first, end = (partitions * at // members for at in (place, place + 1))
    return ((TOPIC, tuple(range(first, end))),)


class _Life:
    """A group; its members' quiet times are alike in both protocols."""

    protocol = CLASSIC
    api = "Heartbeat"

    def __init__(self, story: Story, group_id: str, chance: Random) -> None:
        self._story = story
        self._world = story.world
        self._group_id = group_id
        self._chance = chance
        self._names = [f"{group_id}/{number}#1" for number in range(story.world.members)]
        self._offsets: Counter[int] = Counter()

    def _quick_us(self) -> int:
        return self._chance.randrange(500, 3_000)

    def _call(self, client: str, api: str, sent_us: int, took_us: int | None = None, **fields: Any) -> Call:
        return self._story.call(
            client,
            api,
            sent_us,
            self._quick_us() if took_us is None else took_us,
            group_id=self._group_id,
            protocol=self.protocol,
            **{"member_id": client, "subscribed": (TOPIC,), **fields},
        )

    def _quiet(self, client: str, since_us: int, until_us: int, epoch: int, held: Partitions) -> None:
        """Tell of a member's heartbeats and commits, all of them served."""
        world, told = self._world, {} if self.protocol == CLASSIC else {"told_epoch": epoch}
        every_us = world.heartbeat_ms * MS
        for at_us in range(since_us + self._chance.randrange(every_us), until_us - 10 * MS, every_us):
            self._call(client, self.api, at_us, epoch=epoch, **told)
        every_us = world.commit_ms * MS
        for at_us in range(since_us + self._chance.randrange(every_us), until_us - 10 * MS, every_us):
            self._commit(client, at_us, epoch, held)

    def _commit(self, client: str, at_us: int, epoch: int, held: Partitions) -> None:
        offsets = []
        for number in held[0][1]:
            self._offsets[number] = at_us
            offsets.append(Offset(TOPIC, number, at_us))
        self._call(client, "OffsetCommit", at_us, epoch=epoch, offsets=tuple(offsets))
        self._story.planted.commits[self._group_id] += 1

    def _fault(self, client: str, place: int, began_us: int, epoch: int) -> None:
        """A commit served just before, a heartbeat lost, others refused, and one served at the end."""
        until_us, told = began_us + self._story._fault_us, {}
        if self.protocol == CONSUMER:
            told = {"told_epoch": epoch}
        lost = self._call(client, self.api, began_us - 5 * MS, 5 * MS, epoch=epoch, outcome=CLOSED)
        for at_us in range(began_us + (place + 1) * MS, until_us - 20 * MS, 200 * MS):
            self._call(client, self.api, at_us, 1 * MS, epoch=epoch, error_code=NOT_COORDINATOR)
        served = self._call(client, self.api, until_us + place * 10 * MS, 2 * MS, epoch=epoch, **told)
        self._story.planted.lost_calls[self._group_id] += 1
        if place == 0:
            self._story.planted.gap_us[self._group_id] = served.ended_us - lost.sent_us

    def _moves(self, before: int, after: int) -> None:
        """Count the partitions that move when the last ones of `before` members leave."""
        count, owners = self._world.partitions, {}
        for members in (before, after):
            for place in range(members):
                for number in share(count, members, place)[0][1]:
                    moved = owners.get(number, place) != place
                    self._story.planted.moved[self._group_id] += moved
                    owners[number] = place

    def _later(self, members: list[str], since_us: int, epoch: int, is_hit: bool) -> None:
        """Tell what happens from the last rebalance to the end."""
        world, story = self._world, self._story
        end_us = story._at(world.seconds)
        for place, client in enumerate(members):
            held = share(world.partitions, len(members), place)
            if is_hit:
                began_us = story._at(world.fault_s)
                self._quiet(client, since_us, began_us - 10 * MS, epoch, held)
                self._fault(client, place, began_us, epoch)
                self._quiet(client, began_us + story._fault_us + S, end_us, epoch, held)
            else:
                self._quiet(client, since_us, end_us, epoch, held)


class _Classic(_Life):
    def tell(self, is_hit: bool) -> None:
        world, story = self._world, self._story
        leave_us = story._at(world.leave_s)
        settled_us = self._join(self._names, story._at(self._chance.random()), 1)
        for place, client in enumerate(self._names):
            held = share(world.partitions, len(self._names), place)
            self._quiet(client, settled_us, leave_us, 1, held)
        *left, leaver = self._names
        self._call(leaver, "LeaveGroup", leave_us)
        for place, client in enumerate(left):
            told_us = leave_us + (place + 1) * 100 * MS
            self._call(client, "Heartbeat", told_us, 1 * MS, epoch=1, error_code=REBALANCE_IN_PROGRESS)
        settled_us = self._join(left, leave_us + S, 2)
        self._moves(len(self._names), len(left))
        story.planted.rebalances[self._group_id] += 2
        self._later(left, settled_us, 2, is_hit)

    def _join(self, members: list[str], at_us: int, generation: int) -> int:
        """All join within 50 ms and are answered together; returns when the last has settled."""
        joined_us = at_us + 100 * MS
        for client in members:
            sent_us = at_us + self._chance.randrange(1, 50) * MS
            if generation == 1:
                sent_us = at_us if client == members[0] else sent_us
                self._call(client, "JoinGroup", sent_us, 500, member_id="", error_code=MEMBER_ID_REQUIRED)
                sent_us += MS
            self._call(client, "JoinGroup", sent_us, joined_us - sent_us, told_epoch=generation)
        settled_us = joined_us + 20 * MS
        for place, client in enumerate(members):
            assigned = share(self._world.partitions, len(members), place)
            sent_us = joined_us + 5 * MS
            self._call(client, "SyncGroup", sent_us, 15 * MS, epoch=generation, assigned=assigned)
        if generation == 1:
            self._story.planted.stable_us[self._group_id] = settled_us - at_us
        return settled_us


class _Consumer(_Life):
    """Every join makes an epoch; at the last one partitions are given out. Whoever leaves gives them up
    before anybody else has them."""

    protocol = CONSUMER
    api = "ConsumerGroupHeartbeat"

    def tell(self, is_hit: bool) -> None:
        world, story = self._world, self._story
        at_us, leave_us = story._at(self._chance.random()), story._at(world.leave_s)
        epoch, nothing = len(self._names), ()
        for place, client in enumerate(self._names):
            sent_us = at_us + place * 10 * MS
            self._call(client, self.api, sent_us, 2 * MS, epoch=0, told_epoch=place + 1, assigned=nothing)
        settled_us = at_us + 2 * S + 2 * MS
        for place, client in enumerate(self._names):
            held = share(world.partitions, epoch, place)
            self._call(
                client, self.api, at_us + 2 * S, 2 * MS, epoch=place + 1, told_epoch=epoch, assigned=held
            )
            self._call(
                client, self.api, at_us + 3 * S, epoch=epoch, told_epoch=epoch, owned=held, assigned=held
            )
            self._quiet(client, at_us + 3 * S + 10 * MS, leave_us, epoch, held)
        story.planted.stable_us[self._group_id] = settled_us - at_us
        *left, leaver = self._names
        self._call(leaver, self.api, leave_us, epoch=-1, told_epoch=-1)
        for place, client in enumerate(left):
            self._gives_up(client, place, leave_us, epoch)
        for place, client in enumerate(left):
            held = share(world.partitions, len(left), place)
            told_us = leave_us + 2 * S
            self._call(client, self.api, told_us, epoch=epoch, told_epoch=epoch + 1, assigned=held)
            self._call(client, self.api, told_us + S, epoch=epoch + 1, told_epoch=epoch + 1, owned=held)
        self._moves(len(self._names), len(left))
        story.planted.rebalances[self._group_id] += epoch + 1
        self._later(left, leave_us + 4 * S, epoch + 1, is_hit)

    def _gives_up(self, client: str, place: int, leave_us: int, epoch: int) -> None:
        count, members = self._world.partitions, len(self._names)
        before = set(share(count, members, place)[0][1])
        kept = ((TOPIC, tuple(sorted(before & set(share(count, members - 1, place)[0][1])))),)
        fields = {"epoch": epoch, "told_epoch": epoch}
        self._call(client, self.api, leave_us + 500 * MS, assigned=kept, **fields)
        self._call(client, self.api, leave_us + S, owned=kept, **fields)

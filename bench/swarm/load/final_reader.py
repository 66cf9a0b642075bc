"""Reads every committed offset after a run: a server may have thrown away what nobody reads.

The reader is no member and has connections of its own; its requests and their answers are in a file of their
own, for the judge. It begins when the members' record has ended, so that every commit in it came before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import gevent
from gevent.lock import BoundedSemaphore
from gevent.pool import Pool

from bench.member.answers import fetched
from bench.member.requests import Identity, find_coordinator, offset_fetch
from bench.swarm.planning.plan import MemberPlan, Plan
from bench.swarm.wire.clock import now_us
from bench.swarm.wire.connection import Address, Closed, Connection, TimedOut, connect
from bench.swarm.wire.coordinators import Bootstrap, Catalogue, address_of
from bench.swarm.wire.errors import error_name
from bench.swarm.wire.exchange import Question, connecting, exchange, looking_up
from cluster.groups.properties import ClientProperties
from cluster.tier_file import TierError
from storage.history.call_files import SUFFIX, CallWriter
from storage.history.calls import NEVER, READER, Call, Offset, Partitions, Topic

FILE: Final = f"reader{SUFFIX}"
READ_S: Final = 40.0
"""How long the whole reading takes at most."""
IDLE_S: Final = 10.0
"""How long nothing may be read until the reader gives up."""
ANSWER_S: Final = 5.0
AT_ONCE: Final = 2_000
"""How many partitions one request has."""
GROUPS_AT_ONCE: Final = 8
PAUSE_S: Final = 0.2
_FAILURES: Final = (Closed, TimedOut, TierError)


class Committed(NamedTuple):
    """What a run may have committed."""

    plan: Plan
    made: Mapping[str, bytes]
    """The ids of the topics when the run began."""


def read_all(
    committed: Committed,
    properties: ClientProperties,
    directory: Path,
    run_id: str,
    *,
    idle_s: float = IDLE_S,
) -> str:
    """Read all offsets that a run may have committed. Returns a sentence for the run's record if some could
    not be read."""
    with CallWriter(directory / FILE, run_id) as writer:
        reader = FinalReader(properties, _File(writer), idle_s)
        try:
            words = reader.read(committed, writer)
        finally:
            reader.close()
            gevent.sleep(0)  # there may be no other turn of gevent's loop to close them in
        writer.end(NEVER)
    return words


class _File:
    """The ledger of the reader's calls."""

    def __init__(self, writer: CallWriter) -> None:
        self._writer = writer

    def sent(self, call: Call) -> int:
        return 0

    def ended(self, token: int, call: Call, size: int) -> None:
        self._writer.write(call)


class FinalReader:
    """Reads group by group. What fails is tried again until all is read or time is up."""

    def __init__(self, properties: ClientProperties, ledger: _File, idle_s: float) -> None:
        self._idle_s = idle_s
        self._properties = properties
        self._ledger = ledger
        self._bootstrap = Bootstrap(properties, READER, ledger)
        self._catalogue = Catalogue(self._bootstrap.connection, READER, ledger)
        self._lines: dict[Address, Connection] = {}
        self._count = 0
        self._opening = BoundedSemaphore(1)
        self._why = "no answer in time"
        self._read_at = time.monotonic()

    def read(self, committed: Committed, writer: CallWriter) -> str:
        """Read all offsets. Returns a sentence about those that could not be read."""
        self._read_at = time.monotonic()
        deadline = self._read_at + READ_S
        committing = [member for member in committed.plan.members if member.commit_interval_ms > 0]
        topics = {topic for member in committing for topic in member.topics}
        while topics and not self._looks(topics):
            if self._is_late(deadline):
                return f"No committed offset could be read at the end: {self._why}."
            gevent.sleep(PAUSE_S)
        kept = self._kept(topics, committed.made)
        for topic in sorted(topics - kept):
            writer.write(Topic(topic, 0, now_us()))  # the topic's offsets are gone with it
        wanted = self._wanted(committing, kept)
        missing = self._missing_of(wanted, deadline)
        if not missing:
            return ""
        return (
            f"The offsets of {len(missing):,} of {len(wanted):,} groups could not be read at the end, as of "
            f"{missing[0]}: {self._why}."
        )

    def _missing_of(self, wanted: Mapping[str, list[Partitions]], deadline: float) -> list[str]:
        """Read all groups. Returns those that could not be read in time."""

        def reads(group_id: str) -> bool:
            return self._reads(group_id, wanted[group_id], deadline)

        missing = list(wanted)
        while True:
            done = Pool(GROUPS_AT_ONCE).map(reads, missing)
            missing = [group_id for group_id, is_read in zip(missing, done, strict=True) if not is_read]
            if not missing or self._is_late(deadline):
                return missing
            gevent.sleep(PAUSE_S)

    def close(self) -> None:
        for line in self._lines.values():
            line.close()
        self._bootstrap.close()

    def _is_late(self, deadline: float) -> bool:
        return time.monotonic() > min(deadline, self._read_at + self._idle_s)

    def _looks(self, topics: set[str]) -> bool:
        try:
            self._catalogue.look(topics)
        except _FAILURES as error:
            self._why = str(error) or "no answer in time"
            return False
        return True

    def _kept(self, topics: set[str], made: Mapping[str, bytes]) -> set[str]:
        """The topics that are still the same: a topic that was made again is another one."""
        ids = self._catalogue.ids
        return {topic for topic in topics if topic in ids and ids[topic] == made.get(topic, ids[topic])}

    def _wanted(self, committing: Sequence[MemberPlan], topics: set[str]) -> dict[str, list[Partitions]]:
        """The partitions that the members of each group may have committed, in requests."""
        of_groups: dict[str, set[str]] = {}
        for member in committing:
            of_groups.setdefault(member.group_id, set()).update(topics.intersection(member.topics))
        sizes = self._catalogue.partitions
        return {
            group_id: list(_requests({topic: sizes[topic] for topic in sorted(of_group)}))
            for group_id, of_group in of_groups.items()
            if of_group
        }

    def _reads(self, group_id: str, requests: list[Partitions], deadline: float) -> bool:
        """Read a group's offsets. Returns whether all requests were answered without an error; those that
        were are taken out of `requests`."""
        if self._is_late(deadline):
            return False
        try:
            address = self._coordinator(group_id)
            while address is not None and requests:
                if not self._fetch(group_id, address, requests[0]):
                    return False
                self._read_at = time.monotonic()
                requests.pop(0)
        except _FAILURES as error:
            self._why = str(error) or "no answer in time"
            return False
        return not requests

    def _call(self, group_id: str) -> Call:
        return Call(READER, "", "", 0, group_id=group_id)

    def _coordinator(self, group_id: str) -> Address | None:
        def read(answer: bytes, call: Call) -> tuple[Call, tuple[int, Address | None]]:
            found = address_of(answer)
            return call._replace(error_code=found[0]), found

        call = self._call(group_id)
        with looking_up(self._ledger, call):
            line = self._bootstrap.connection()
        question = Question(find_coordinator(group_id), read, ANSWER_S)
        error_code, address = exchange(self._ledger, line, question, call)
        if address is None:
            self._why = error_name(error_code)
        return address

    def _fetch(self, group_id: str, address: Address, wanted: Partitions) -> bool:
        def read(answer: bytes, call: Call) -> tuple[Call, tuple[int, tuple[Offset, ...]]]:
            error_code, offsets = fetched(answer)
            first = error_code or next((each.error_code for each in offsets if each.error_code), 0)
            return call._replace(error_code=first, offsets=offsets), (first, offsets)

        call = self._call(group_id)
        request = offset_fetch(Identity(group_id, NEVER, "", None), 8, wanted)
        question = Question(request, read, ANSWER_S)
        error_code, _ = exchange(self._ledger, self._line(address, call), question, call)
        if error_code:
            self._why = error_name(error_code)
        return error_code == 0

    def _line(self, address: Address, who: Call) -> Connection:
        with self._opening:  # if several greenlets need the connection, one opens it
            line = self._lines.get(address)
            if line is None or not line.is_open:
                self._count += (
                    1  # the judge checks the order of answers by connection: each needs a name of its own
                )
                name = f"{READER}/{address[0]}:{address[1]}-{self._count}"
                with connecting(self._ledger, who, name):
                    line = self._lines[address] = connect(address, name, self._properties, READER)
            return line


def _requests(sizes: Mapping[str, int]) -> Iterator[Partitions]:
    """Split all partitions of these topics into requests of AT_ONCE."""
    flat = [(topic, number) for topic, count in sizes.items() for number in range(count)]
    for first in range(0, len(flat), AT_ONCE):
        some: dict[str, list[int]] = {}
        for topic, number in flat[first : first + AT_ONCE]:
            some.setdefault(topic, []).append(number)
        yield tuple((topic, tuple(numbers)) for topic, numbers in some.items())

"""Clients of the group coordinator: one that commits and one that reads for each of a few groups.

They follow the leader as Kafka's clients do: what is refused with NOT_COORDINATOR and the like is asked of
another replica, what is not answered in time is asked again on a new connection. Only an answer without an
error counts as an acknowledgement; whatever else comes back, the request may have been carried out.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from actors.network.wire import Closed, Wire
from tests.faults.history import History, Violation
from tests.faults.shape import PAIRS, REPLICAS, TOPIC, clients_socket
from tests.faults.supervisor import until

GROUPS = ("billing", "shipping", "audit")
REQUEST_TIMEOUT_S = 1.0
RETRY_S = 0.02
PACE_S = 0.01
"""Between two requests of one client: the load leaves the processors room for the elections."""
METADATA = "m" * 300
"""The metadata of each committed offset; they are long so that segments of the journal fill."""
NOT_NOW = frozenset({14, 15, 16})
"""The errors after which another replica is asked: codes of a coordinator that loads, is away or does not
lead.
"""


class Seeker:
    """A client with one connection, which it keeps to the replica that answered last."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._replicas = itertools.cycle(REPLICAS)
        self._wire: Wire | None = None

    async def call(self, api: str, version: int, **fields: Any) -> dict[str, Any] | None:
        """The answer, or None if there was none in time; the next call then goes to another replica."""
        try:
            if self._wire is None:
                path = clients_socket(self._run_dir, next(self._replicas))
                self._wire = Wire(*await asyncio.open_unix_connection(str(path)), client_id="faults")
            return await self._wire.call(api, version, timeout_s=REQUEST_TIMEOUT_S, **fields)
        except (OSError, Closed, TimeoutError):
            await self.move_on()
            return None

    async def move_on(self) -> None:
        """Hang up, then wait a moment: somebody may have to be elected first."""
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()
        await asyncio.sleep(RETRY_S)


class Clients:
    """Use as `async with Clients(run_dir) as clients`: they commit and read until the end of the block.

    What broke a promise is raised at the next `progress`, at `quiet`, and at the end of the block.
    """

    def __init__(self, run_dir: Path) -> None:
        self.slowest_s = 0.0
        """The longest that a commit took, from its first sending to its acknowledgement."""
        self.histories = {group_id: History(group_id, PAIRS) for group_id in GROUPS}
        self._run_dir = run_dir
        self._halted = False
        self._may_commit = asyncio.Event()
        self._may_commit.set()
        self._committing = 0

    async def __aenter__(self) -> Clients:
        loops: tuple[Callable[[History, Seeker], Awaitable[None]], ...] = (self._commit, self._read)
        self._tasks = [
            asyncio.create_task(self._run(loop, history))
            for history in self.histories.values()
            for loop in loops
        ]
        return self

    async def __aexit__(self, *outcome: object) -> None:
        self._halted = True
        self._may_commit.set()
        await asyncio.gather(*self._tasks)

    @property
    def acknowledged(self) -> int:
        return sum(history.acknowledged for history in self.histories.values())

    async def progress(self, story: Callable[[], Awaitable[str]]) -> None:
        """Wait until every group has had a commit acknowledged that was sent after now."""
        enough = {group_id: history.sent + 1 for group_id, history in self.histories.items()}

        async def went_on() -> bool:
            self._raise_violation()
            return all(self.histories[group_id].acknowledged >= number for group_id, number in enough.items())

        await until(went_on, "commits are acknowledged", story)

    async def quiet(self) -> None:
        """Stop committing, until `go_on`, with every commit acknowledged that was sent."""
        self._may_commit.clear()

        async def all_answered() -> bool:
            self._raise_violation()
            return self._committing == 0

        await until(all_answered, "every commit is acknowledged")

    def go_on(self) -> None:
        self._may_commit.set()

    def check(self, offsets: dict[str, dict[int, int]]) -> None:
        """Judge the offsets that all replicas hold while nothing is committed. Raises Violation."""
        for group_id, history in self.histories.items():
            history.judge(history.begin_read(), offsets.get(group_id, {}), "every replica")

    def _raise_violation(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()

    async def _run(self, loop: Callable[[History, Seeker], Awaitable[None]], history: History) -> None:
        seeker = Seeker(self._run_dir)
        try:
            while not self._halted:
                await loop(history, seeker)
                await asyncio.sleep(PACE_S)
        finally:
            await seeker.move_on()

    async def _commit(self, history: History, seeker: Seeker) -> None:
        """Send one commit again and again until it is acknowledged."""
        await self._may_commit.wait()
        offsets = history.begin_commit()
        began = time.monotonic()
        self._committing += 1
        while not self._halted:
            answer = await seeker.call("offset_commit", 8, **_commit_request(history.group_id, offsets))
            if answer is not None and await self._is_well(_errors(answer), seeker):
                history.acknowledge()
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                break
            history.retries += 1
        self._committing -= 1

    async def _read(self, history: History, seeker: Seeker) -> None:
        floor = history.begin_read()
        answer = await seeker.call("offset_fetch", 7, group_id=history.group_id, topics=None)
        if answer is not None and await self._is_well({answer["error_code"]}, seeker):
            fetched = [partition for topic in answer["topics"] for partition in topic["partitions"]]
            offsets = {partition["partition_index"]: partition["committed_offset"] for partition in fetched}
            history.end_read(floor, offsets)

    async def _is_well(self, errors: set[int], seeker: Seeker) -> bool:
        """Return True if there was no error, False if another replica has to be asked. Raises Violation."""
        if errors == {0}:
            return True
        if not errors <= NOT_NOW | {0}:
            raise Violation(f"unexpected answer: error codes {sorted(errors)}")
        await seeker.move_on()
        return False


def _commit_request(group_id: str, offsets: dict[int, int]) -> dict[str, Any]:
    partitions = [
        {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": 0,
            "committed_metadata": METADATA,
        }
        for partition, offset in offsets.items()
    ]
    return {
        "group_id": group_id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": TOPIC, "partitions": partitions}],
    }


def _errors(answer: dict[str, Any]) -> set[int]:
    return {partition["error_code"] for topic in answer["topics"] for partition in topic["partitions"]}

"""Work 5: a leader, or a broker, is killed under groups that heartbeat; the time until all are served again
is measured."""

from __future__ import annotations

import asyncio
import statistics
import struct
import time
from functools import partial
from typing import Final

import uvloop

from actors.network.wire import Closed
from bench.member.requests import encoded
from bench.peers.classic import storm
from bench.peers.lines import Address, Line, find_frame, found_at, framed, open_all
from bench.peers.members import Member
from bench.peers.options import Failed, Options, Refused
from bench.peers.peer import Peer
from bench.peers.plan import Sample, Scenario, kept, percentiles, saturated

BACKOFF_S: Final = 0.05
ANSWER_TIMEOUT_S: Final = 5.0
GIVEN_UP_S: Final = 60.0
_ERROR_AT: Final = 8


def scenarios(options: Options) -> list[Scenario]:
    """The scenarios: groups have one member, and those count that the killed process coordinated."""
    goals = {300: (0.4, 1.0), 3_000: (0.6, 1.5)}
    return [
        Scenario(
            work=5,
            heading="SIGKILL of a leader until heartbeats are served",
            label=f"{groups:,} groups",
            measure=partial(measure, groups),
            shown=("p50_s", "max_s"),
            goals={("groupd-3", "p50_s"): goals[groups][0], ("groupd-3", "max_s"): goals[groups][1]}
            if groups in goals
            else {},
        )
        for groups in ((60,) if options.quick else (300, 3_000))
    ]


def measure(groups: int, peer: Peer) -> Sample:
    """Measure how long those of `groups` groups are without service whose leader is killed."""
    if peer.copies == 1:
        raise Refused("nobody takes over")
    members = kept(peer, f"failover {groups}", lambda: _members(peer, groups))
    gaps, share = uvloop.run(_kill(peer, members))
    peer.mend()
    return Sample(
        figures={"p50_s": statistics.median(gaps), "max_s": max(gaps)},
        requests=len(gaps),
        generator_share=share,
        percentiles=percentiles(gaps),
        marks=saturated(share),
    )


def _members(peer: Peer, groups: int) -> dict[str, Member]:
    group_ids = [f"failover-{groups}-{n}" for n in range(groups)]
    made = uvloop.run(storm(peer, group_ids, 1, peer.session_timeout_ms, stay=True))
    return {member.group_id: member for member in made.members}


async def _kill(peer: Peer, members: dict[str, Member]) -> tuple[list[float], float]:
    """Kill a leader. Returns the seconds without service of every group that was hit, and this process's
    share of a core meanwhile."""
    finder = Finder(peer.bootstrap)
    at = {group_id: await finder.find(group_id) for group_id in members}
    lines = dict(zip(at, await open_all(at.values()), strict=True))
    beats = {group_id: framed(encoded(member.heartbeat())) for group_id, member in members.items()}
    await asyncio.gather(*(lines[group_id].ask(beats[group_id]) for group_id in members))
    loop = asyncio.get_running_loop()
    try:
        killed_at, hit = await loop.run_in_executor(None, peer.kill_leader, list(members))
        own = time.process_time()
        served = await asyncio.gather(
            *(_served(finder, group_id, lines[group_id], beats[group_id]) for group_id in hit)
        )
    finally:
        finder.close()
        for line in lines.values():
            line.close()
    share = (time.process_time() - own) / (max(served) - killed_at)
    return [each - killed_at for each in served], share


async def _served(finder: Finder, group_id: str, line: Line, beat: bytes) -> float:
    """Heartbeat until it is answered without an error. Returns when (monotonic)."""
    given_up = time.monotonic() + GIVEN_UP_S
    while time.monotonic() < given_up:
        try:
            answer = await asyncio.wait_for(line.ask(beat), ANSWER_TIMEOUT_S)
            (error,) = struct.unpack_from(">h", answer, _ERROR_AT)
            if error == 0:
                return time.monotonic()
        except (Closed, TimeoutError):
            pass
        finally:
            line.close()
        line = await _line_again(finder, group_id, given_up)
    raise _given_up()


async def _line_again(finder: Finder, group_id: str, given_up: float) -> Line:
    while time.monotonic() < given_up:
        await asyncio.sleep(BACKOFF_S)
        try:
            return await Line.open(await finder.find(group_id))
        except (OSError, Closed, TimeoutError):
            continue
    raise _given_up()


def _given_up() -> Failed:
    return Failed(f"a group was not served again within {GIVEN_UP_S:.0f} s")


class Finder:
    """Asks FindCoordinator over one connection to each node, which all groups share; nodes are asked in
    turn."""

    def __init__(self, bootstrap: list[Address]) -> None:
        self._bootstrap = bootstrap
        self._lines: dict[Address, Line] = {}
        self._turn = 0

    async def find(self, group_id: str) -> Address:
        """Find a group's coordinator. Raises Closed, OSError, TimeoutError, after which it may be asked
        again."""
        address = self._bootstrap[self._turn % len(self._bootstrap)]
        self._turn += 1
        if address not in self._lines:
            opened = await Line.open(address)
            self._lines.setdefault(address, opened)
            if self._lines[address] is not opened:
                opened.close()
        try:
            answer = await asyncio.wait_for(self._lines[address].ask(find_frame(group_id)), ANSWER_TIMEOUT_S)
        except (Closed, TimeoutError):
            self._lines.pop(address, None)
            raise
        found = found_at(answer)
        if isinstance(found, int):
            raise Closed
        return found

    def close(self) -> None:
        for line in self._lines.values():
            line.close()

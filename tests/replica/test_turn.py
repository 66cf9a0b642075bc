"""When a replica has its turn, and in which order a turn does its work: `actors.replica.turn`."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

from actors.replica.turn import NOT_AT_ALL, TURN_LATE_MS, Turns

Callback = Callable[[], None]


class Timer:
    def __init__(self, callback: Callback) -> None:
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualLoop:
    """An event loop whose clock moves when nothing is ready."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, int, Timer]] = []
        self._ready: list[Callback] = []
        self._order = count()

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callback) -> None:
        self._ready.append(callback)

    def call_at(self, when: float, callback: Callback) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self.timers, (when, next(self._order), timer))
        return timer

    def iterate(self) -> None:
        """Run what is ready now. What becomes ready by it is for the next iteration."""
        ready, self._ready = self._ready, []
        for callback in ready:
            callback()

    def drain(self) -> None:
        while self._ready:
            self.iterate()

    def run_to(self, when: float) -> None:
        self.drain()
        while self.timers and self.timers[0][0] <= when:
            self.now, _, timer = heapq.heappop(self.timers)
            if timer.callback is not None:
                timer.callback()
            self.drain()
        self.now = when


class Machine:
    """Stands for Raft and the shard, and writes down what a turn asks of them."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.is_leader = False
        self.next_tick_at = NOT_AT_ALL
        self.next_deadline_ms: int | None = None
        self.is_settled = self.only_commits = self.awaits_log = False
        self.done: list[str] = []
        self.turned_at: list[float] = []
        self.in_turn: Callback = lambda: None
        self.in_apply: Callback = lambda: None
        self.turns = Turns(loop, self, self, self.now_ms, self._run)

    def now_ms(self) -> int:
        return round(self.loop.now * 1000)

    def run_timers(self, now_ms: int) -> None:
        self.done.append("timers")
        if self.next_deadline_ms is not None and self.next_deadline_ms <= now_ms:
            self.next_deadline_ms = None

    def flush(self) -> None:
        self.done.append("flush")

    def apply_committed(self) -> None:
        self.done.append("apply")
        self.in_apply()

    def tick(self) -> None:
        self.done.append("tick")
        if self.next_tick_at <= self.loop.now:
            self.next_tick_at = NOT_AT_ALL
        self.in_turn()

    def _run(self, turn: Callback) -> bool:
        self.turned_at.append(self.loop.now)
        turn()
        return True


def new_machine() -> Machine:
    return Machine(VirtualLoop())


def test_what_is_decided_is_proposed_before_raft_sends_and_what_commits_decide_after() -> None:
    machine = new_machine()
    machine.turns.wake()
    machine.loop.drain()
    assert machine.done == ["timers", "flush", "tick", "flush"]


def test_all_that_happens_in_one_iteration_shares_a_turn() -> None:
    """This is rule R5."""
    machine = new_machine()
    for _ in range(3):
        machine.turns.wake()
    machine.loop.drain()
    assert len(machine.turned_at) == 1


def test_a_follower_that_hears_from_a_peer_turns_at_once() -> None:
    machine = new_machine()
    machine.turns.heard()
    assert len(machine.turned_at) == 1


def test_a_heartbeat_that_changes_nothing_takes_no_turn() -> None:
    machine = new_machine()
    machine.next_tick_at = 100.5
    machine.turns.arm()
    machine.is_settled = True
    machine.turns.heard()
    assert machine.turned_at == []
    machine.awaits_log = True
    machine.turns.heard()
    assert len(machine.turned_at) == 1, "it may have brought the lease for which a reply waits"


def test_whoever_has_no_timer_yet_turns_on_any_heartbeat() -> None:
    """It has nothing else that would wake it when the next heartbeat stays away."""
    machine = new_machine()
    machine.is_settled = True
    machine.turns.heard()
    assert len(machine.turned_at) == 1


def test_a_leader_that_hears_from_a_peer_waits_for_what_else_comes() -> None:
    machine = new_machine()
    machine.is_leader = True
    machine.turns.heard()
    machine.turns.heard()
    assert machine.turned_at == []
    machine.loop.drain()
    assert len(machine.turned_at) == 1


def committing_leader() -> Machine:
    """A leader for which a peer's acknowledgement has committed something, and which has nothing to send."""
    machine = new_machine()
    machine.is_leader = machine.only_commits = True
    machine.next_tick_at = 100.5
    machine.turns.arm()
    return machine


def test_a_leader_that_has_only_to_apply_does_nothing_else() -> None:
    machine = committing_leader()
    machine.turns.heard()
    machine.loop.drain()
    assert machine.done == ["apply"]
    machine.loop.run_to(101.0)
    assert machine.done == ["apply", "timers", "flush", "tick", "flush"], "its timer stays where it was"


def test_what_waited_for_the_commit_is_proposed_in_the_turn_that_follows() -> None:
    machine = committing_leader()
    machine.awaits_log = True
    machine.turns.heard()
    machine.loop.drain()
    assert machine.done == ["apply", "timers", "flush", "tick", "flush"]


def test_a_leader_that_has_a_turn_coming_applies_in_that_one() -> None:
    machine = committing_leader()
    machine.turns.wake()
    machine.turns.heard()
    machine.loop.drain()
    assert machine.done == ["timers", "flush", "tick", "flush"]


def test_what_comes_during_a_turn_gets_the_next_one() -> None:
    machine = new_machine()

    def hear_once() -> None:
        machine.in_turn = lambda: None
        machine.turns.heard()

    machine.in_turn = hear_once
    machine.turns.wake()
    machine.loop.iterate()
    assert len(machine.turned_at) == 1
    machine.loop.drain()
    assert len(machine.turned_at) == 2


def test_a_turn_comes_when_rafts_timer_is_due() -> None:
    machine = new_machine()
    machine.next_tick_at = 100.5
    machine.turns.arm()
    machine.loop.run_to(101.0)
    assert machine.turned_at == [100.5]


def test_a_turn_comes_just_after_a_deadline_of_the_shard() -> None:
    machine = new_machine()
    machine.next_deadline_ms = 100_250
    machine.turns.arm()
    machine.loop.run_to(101.0)
    assert [round(when * 1000) for when in machine.turned_at] == [100_250 + TURN_LATE_MS]


def test_a_deadline_that_comes_nearer_moves_the_timer() -> None:
    machine = new_machine()
    machine.next_tick_at = 105.0
    machine.turns.arm()
    machine.next_deadline_ms = 100_250
    machine.turns.arm()
    machine.loop.run_to(101.0)
    assert len(machine.turned_at) == 1


def test_a_deadline_that_a_released_answer_brings_nearer_moves_the_timer() -> None:
    machine = committing_leader()
    machine.in_apply = lambda: setattr(machine, "next_deadline_ms", 100_250)
    machine.turns.heard()
    machine.loop.run_to(100.4)
    assert [round(when * 1000) for when in machine.turned_at] == [100_000, 100_250 + TURN_LATE_MS]


def test_a_timer_that_one_turn_could_not_fire_gets_the_next_one() -> None:
    """The rest of very many timers is due as before, and no timer of the loop stands for it."""
    machine = new_machine()
    machine.next_tick_at = 105.0
    machine.next_deadline_ms = 100_250
    machine.turns.arm()
    left = iter((100_250, 100_250, None))
    machine.in_turn = lambda: setattr(machine, "next_deadline_ms", next(left))
    machine.loop.run_to(101.0)
    assert len(machine.turned_at) == 3


def test_every_turn_sets_the_next_timer() -> None:
    machine = new_machine()
    machine.next_tick_at = 100.5
    machine.turns.arm()
    machine.in_turn = lambda: setattr(machine, "next_tick_at", machine.loop.now + 0.5)
    machine.loop.run_to(102.0)
    assert machine.turned_at == [100.5, 101.0, 101.5, 102.0]


def test_messages_that_wait_are_read_before_a_timer_has_its_turn() -> None:
    """A process that was held up must not campaign before it has read its leader's heartbeats."""
    machine = new_machine()
    machine.next_tick_at = 100.5
    machine.turns.arm()
    machine.loop.now = 103.0
    _, _, timer = machine.loop.timers[0]
    assert timer.callback is not None
    timer.callback()
    machine.loop.iterate()
    assert machine.turned_at == []
    machine.turns.heard()
    assert machine.turned_at == []
    machine.loop.drain()
    assert len(machine.turned_at) == 1


def test_nothing_turns_after_the_end() -> None:
    machine = new_machine()
    machine.next_tick_at = 100.5
    machine.turns.arm()
    machine.turns.end()
    machine.turns.wake()
    machine.turns.heard()
    machine.loop.run_to(101.0)
    assert machine.turned_at == []

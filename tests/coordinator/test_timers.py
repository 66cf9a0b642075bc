"""The timers of a shard (R1): nothing fires early or late, nothing is lost, moving a deadline is cheap."""

from __future__ import annotations

import random

from actors.coordinator.ground.timers import FAR, SLOT_MS, Timers


def drain(timers: Timers, now_ms: int) -> list[object]:
    fired = []
    while (key := timers.pop_due(now_ms)) is not None:
        fired.append(key)
    return fired


def wake_ups(timers: Timers, until_ms: int) -> list[int]:
    """Fire what is due whenever the timers ask for it, and return when they did."""
    asked = []
    while (at_ms := timers.next_deadline_ms) is not None and at_ms <= until_ms:
        asked.append(at_ms)
        drain(timers, at_ms)
    return asked


def test_a_timer_fires_once_in_the_millisecond_of_its_deadline() -> None:
    timers = Timers()
    timers.schedule("m", 1_000)
    assert timers.next_deadline_ms == 1_000
    assert drain(timers, 999) == []
    assert drain(timers, 1_000) == ["m"]
    assert drain(timers, 10_000) == []
    assert timers.next_deadline_ms is None


def test_a_deadline_moved_later_fires_at_the_later_time_only() -> None:
    """M17, C20: each heartbeat moves the session's deadline."""
    timers = Timers()
    for sent_ms in range(0, 50_000, 1_000):
        timers.schedule("m", sent_ms + 10_000)
        assert drain(timers, sent_ms) == []
    assert drain(timers, 58_999) == []
    assert drain(timers, 59_000) == ["m"]


def test_a_deadline_moved_earlier_fires_at_the_earlier_time_only() -> None:
    timers = Timers()
    timers.schedule("m", 60_000)
    timers.schedule("m", 1_000)
    assert drain(timers, 1_000) == ["m"]
    assert drain(timers, 100_000) == []


def test_a_deadline_moved_earlier_within_its_slot_fires_at_the_earlier_time() -> None:
    timers = Timers()
    timers.schedule("m", 1_007)
    timers.schedule("n", 1_001)
    assert drain(timers, 1_001) == ["n"]
    timers.schedule("m", 1_003)
    assert drain(timers, 1_002) == []
    assert drain(timers, 1_003) == ["m"]
    assert drain(timers, 2_000) == []


def test_timers_of_one_slot_fire_in_the_order_of_their_deadlines() -> None:
    timers = Timers()
    for key, deadline_ms in (("c", 1_007), ("a", 1_000), ("b", 1_003)):
        timers.schedule(key, deadline_ms)
    assert wake_ups(timers, 999) == []
    assert drain(timers, 1_007) == ["a", "b", "c"]


def test_a_late_timer_fires_at_the_beginning_of_a_later_slot() -> None:
    timers = Timers()
    for key in range(SLOT_MS):
        timers.schedule_late(key, 10 * SLOT_MS + key)
    assert wake_ups(timers, 100 * SLOT_MS) == [11 * SLOT_MS]
    assert len(timers) == 0


def test_members_that_are_well_cost_one_wake_up_a_second() -> None:
    """A thousand members send a heartbeat every 3 s each, and one falls silent: only its end is one more, and
    the first time they are all looked at, one slot after the other."""
    timers, session_ms, spacing_ms, end_ms = Timers(), 45_000, 3_000, 200_000
    asked, silent_ms = list[int](), 101_000
    for now_ms in range(end_ms):
        for member in range(now_ms % spacing_ms, 1_000, spacing_ms):
            if member or now_ms < silent_ms:
                timers.schedule(member, now_ms + session_ms)
        asked += wake_ups(timers, now_ms)
    assert 0 not in timers
    assert len(timers) == 999
    first, later = spacing_ms // SLOT_MS + 1, (end_ms - session_ms) // (FAR * SLOT_MS) + 1
    assert len(asked) <= first + later + 2


def test_an_early_timer_fires_where_the_second_of_its_deadline_begins() -> None:
    timers = Timers()
    for key in range(100):
        timers.schedule_early(key, 45_056 + 10 * key, 2_000)
    assert wake_ups(timers, 50_000) == [45_056]
    timers.schedule_early("soon", 45_100, 45_060)
    assert drain(timers, 45_099) == []
    assert drain(timers, 45_100) == ["soon"], "the second has begun"


def test_a_cancelled_timer_never_fires_and_can_be_set_again() -> None:
    timers = Timers()
    timers.schedule("m", 1_000)
    timers.cancel("m")
    assert "m" not in timers
    assert timers.deadline_ms("m") is None
    assert drain(timers, 5_000) == []
    timers.schedule("m", 6_000)
    assert timers.deadline_ms("m") == 6_000
    assert drain(timers, 6_000) == ["m"]


def test_a_timer_cancelled_and_set_again_in_its_slot_fires_once() -> None:
    timers = Timers()
    timers.schedule("m", 1_000)
    timers.cancel("m")
    timers.schedule("m", 1_001)
    assert drain(timers, 2_000) == ["m"]


def test_a_deadline_in_the_past_fires_at_the_next_turn() -> None:
    timers = Timers()
    timers.schedule("late", -5)
    assert drain(timers, 0) == ["late"]


def test_random_schedules_fire_as_a_plain_dict_would() -> None:
    """The timers are compared with a plain dict: a key is due at the last deadline it was given."""
    for seed in range(50):
        chance = random.Random(seed)
        timers, model, now_ms = Timers(), dict[int, int](), 0
        for _ in range(400):
            key = chance.randrange(12)
            match chance.randrange(4):
                case 0 | 1:
                    model[key] = now_ms + chance.randrange(chance.choice((500, 5_000)))
                    timers.schedule(key, model[key])
                case 2:
                    model.pop(key, None)
                    timers.cancel(key)
                case _:
                    now_ms += chance.randrange(100)
            for fired in drain(timers, now_ms):
                assert isinstance(fired, int)
                assert model.pop(fired) <= now_ms, f"seed {seed}: {fired} fired early"
            overdue = {k for k, deadline_ms in model.items() if deadline_ms <= now_ms}
            assert not overdue, f"seed {seed}: {overdue} did not fire"
            assert len(timers) == len(model)
            earliest = timers.next_deadline_ms
            assert not model or (earliest is not None and earliest <= min(model.values()))

"""The coarse timer wheel (R1): nothing fires early, nothing is lost, moving a deadline is cheap."""

from __future__ import annotations

import random

from actors.coordinator.ground.timers import SLOT_MS, Timers


def drain(timers: Timers, now_ms: int) -> list[object]:
    fired = []
    while (key := timers.pop_due(now_ms)) is not None:
        fired.append(key)
    return fired


def test_a_timer_fires_once_within_a_slot_after_its_deadline() -> None:
    timers = Timers()
    timers.schedule("m", 1_000)
    assert drain(timers, 999) == []
    assert drain(timers, 1_000 + SLOT_MS) == ["m"]
    assert drain(timers, 10_000) == []
    assert timers.next_deadline_ms is None


def test_a_deadline_moved_later_fires_at_the_later_time_only() -> None:
    """M17, C20: each heartbeat moves the session's deadline."""
    timers = Timers()
    for sent_ms in range(0, 50_000, 1_000):
        timers.schedule("m", sent_ms + 10_000)
        assert drain(timers, sent_ms) == []
    assert drain(timers, 58_999) == []
    assert drain(timers, 59_000 + SLOT_MS) == ["m"]


def test_a_deadline_moved_earlier_fires_at_the_earlier_time_only() -> None:
    timers = Timers()
    timers.schedule("m", 60_000)
    timers.schedule("m", 1_000)
    assert drain(timers, 1_000 + SLOT_MS) == ["m"]
    assert drain(timers, 100_000) == []


def test_a_cancelled_timer_never_fires_and_can_be_set_again() -> None:
    timers = Timers()
    timers.schedule("m", 1_000)
    timers.cancel("m")
    assert "m" not in timers
    assert timers.deadline_ms("m") is None
    assert drain(timers, 5_000) == []
    timers.schedule("m", 6_000)
    assert timers.deadline_ms("m") == 6_000
    assert drain(timers, 6_000 + SLOT_MS) == ["m"]


def test_a_timer_cancelled_and_set_again_in_its_slot_fires_once() -> None:
    timers = Timers()
    timers.schedule("m", 1_000)
    timers.cancel("m")
    timers.schedule("m", 1_001)
    assert drain(timers, 2_000) == ["m"]


def test_a_deadline_in_the_past_fires_at_the_next_turn() -> None:
    timers = Timers()
    timers.schedule("late", -5)
    assert drain(timers, SLOT_MS) == ["late"]


def test_random_schedules_fire_as_a_plain_dict_would() -> None:
    """The wheel is compared with a plain dict: a key is due within one slot after the last deadline it was
    given."""
    for seed in range(50):
        chance = random.Random(seed)
        timers, model, now_ms = Timers(), dict[int, int](), 0
        for _ in range(400):
            key = chance.randrange(12)
            match chance.randrange(4):
                case 0 | 1:
                    model[key] = now_ms + chance.randrange(500)
                    timers.schedule(key, model[key])
                case 2:
                    model.pop(key, None)
                    timers.cancel(key)
                case _:
                    now_ms += chance.randrange(100)
            for fired in drain(timers, now_ms):
                assert isinstance(fired, int)
                assert model.pop(fired) <= now_ms, f"seed {seed}: {fired} fired early"
            overdue = {k for k, deadline_ms in model.items() if deadline_ms + SLOT_MS <= now_ms}
            assert not overdue, f"seed {seed}: {overdue} did not fire"
            assert len(timers) == len(model)
            earliest = timers.next_deadline_ms
            assert not model or (earliest is not None and earliest <= min(model.values()) + SLOT_MS)

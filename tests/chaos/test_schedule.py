"""A scenario and a seed say which faults come in which order; a wrong file is told where it is wrong."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from bench.chaos import scenario as scenarios
from bench.chaos.faults import KINDS
from bench.chaos.schedule import LONGER_AFTER_AN_OUTAGE, Step, steps
from bench.chaos.state import NoRun, State, read
from bench.chaos.targets.fault import OUTAGE, SAFE
from bench.swarm.planning import scenario as swarms
from bench.swarm.planning.scenario_errors import BadScenario

HEAD = 'about = "a test"\nswarm = "steady"\n'
REACHES = {"kill-leader": SAFE, "kill-all": OUTAGE, "links-slow": SAFE}
WEIGHTED = scenarios.parse(
    HEAD + "kills = 10\nfault_s = [1, 2]\nbreath_s = [3, 4]\n[faults]\nkill-leader = 3\nkill-all = 1\n",
    "weighted.toml",
    REACHES,
)


def first(count: int, seed: int = 1, scenario: scenarios.Scenario = WEIGHTED) -> list[Step]:
    return list(islice(steps(scenario, REACHES, seed), count))


def test_the_same_seed_is_the_same_schedule() -> None:
    """The same holds for a run that is resumed and skips the faults that it has met."""
    assert first(20) == first(20)
    assert first(20) != first(20, seed=2)
    assert list(islice(steps(WEIGHTED, REACHES, 1), 7, 20)) == first(20)[7:]


def test_every_round_has_each_kind_as_often_as_the_scenario_says() -> None:
    kinds = [step.kinds[0] for step in first(12)]
    for start in (0, 4, 8):
        assert Counter(kinds[start : start + 4]) == {"kill-leader": 3, "kill-all": 1}
    assert [step.number for step in first(12)] == list(range(12))


def test_all_kinds_that_are_not_named_are_the_others() -> None:
    text = HEAD + "minutes = 5\n[faults]\nkill-all = 4\nothers = 2\n"
    mixed = scenarios.parse(text, "mixed.toml", REACHES)
    times = dict.fromkeys(REACHES, 2) | {"kill-all": 4}
    met = Counter(step.kinds[0] for step in first(sum(times.values()), scenario=mixed))
    assert met == times


def test_a_scenario_without_kinds_has_all_that_there_are() -> None:
    everything = scenarios.parse(HEAD + "minutes = 5\n", "all.toml", REACHES)
    assert Counter(step.kinds[0] for step in first(6, scenario=everything)) == dict.fromkeys(REACHES, 2)


def test_a_fault_that_finds_nothing_to_hit_is_replaced_by_another_kind() -> None:
    for step in first(8):
        assert set(step.kinds) == {"kill-leader", "kill-all"}


def test_spans_are_kept_and_an_outage_is_followed_by_more_time_to_breathe() -> None:
    for step in first(40):
        longer = LONGER_AFTER_AN_OUTAGE if step.kinds[0] == "kill-all" else 1
        assert 1 <= step.for_s <= 2
        assert 3 * longer <= step.breath_s <= 4 * longer


def test_without_a_kind_that_can_be_had_there_is_no_schedule() -> None:
    assert list(steps(WEIGHTED, {"links-slow": SAFE}, 1)) == []


@pytest.mark.parametrize("name", scenarios.names())
def test_the_ready_scenarios_name_faults_and_swarms_that_there_are(name: str) -> None:
    scenario = scenarios.load(name, KINDS)
    assert swarms.load(scenario.swarm).plan(seed=1).members


def test_the_long_run_meets_every_kind() -> None:
    faults = scenarios.load("long", KINDS).faults
    assert faults is not None
    assert [kind for kind in KINDS if not faults[kind]] == []


@pytest.mark.parametrize(
    ("end", "killed", "lasted_s", "is_done", "share"),
    [
        ("minutes = 2", 500, 60, False, 0.5),
        ("minutes = 2", 0, 120, True, 1),
        ("kills = 10", 4, 9_000, False, 0.4),
        ("kills = 10", 17, 0, True, 1),
        ("kills = 10\nminutes = 2", 17, 90, False, 0.75),
        ("kills = 10\nminutes = 2", 9, 120, False, 0.9),
        ("kills = 10\nminutes = 2", 10, 120, True, 1),
    ],
)
def test_a_run_ends_when_its_kills_and_its_minutes_are_reached(
    end: str, killed: int, lasted_s: float, is_done: bool, share: float
) -> None:
    scenario = scenarios.parse(f"{HEAD}{end}\n", "end.toml", REACHES)
    state = State(scenario=scenario, seed=1, killed=killed, lasted_s=lasted_s)
    assert (state.is_done(), state.share) == (is_done, share)
    assert state.is_done(ahead_s=30) == (is_done or (killed >= 10 and lasted_s == 90))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("about = 1 2", "f.toml:1: is no TOML"),
        ('about = "x"\nswarm = "steady"\n', "minutes or kills is to be given"),
        (HEAD + "minutes = -5\n", "f.toml:3: minutes: -5 is not allowed"),
        (HEAD + "minutes = 5\nfault_s = [3, 1]\n", "f.toml:4: fault_s: [3, 1] is not allowed: two numbers"),
        (HEAD + "minutes = 5\nbreath_s = 2\n", "f.toml:4: breath_s: 2 is not allowed: two numbers"),
        (HEAD + "minutes = 5\nbreaht_s = [1, 2]\n", "there is no such key; did you mean breath_s?"),
        (HEAD + "minutes = 5\n[faults]\nkill-laeder = 1\n", "f.toml:5: faults.kill-laeder: there is no such"),
        (HEAD + "minutes = 5\n[faults]\nkill-all = -1\n", "f.toml:5: faults.kill-all: -1 is not allowed"),
        (HEAD + "minutes = 5\n[faults]\nkill-all = 0\n", "no kind is to be met"),
    ],
)
def test_a_wrong_file_is_told_where_and_what_is_allowed(text: str, words: str) -> None:
    with pytest.raises(BadScenario) as told:
        scenarios.parse(text, "f.toml", REACHES)
    assert words in str(told.value)


def test_a_scenario_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(BadScenario, match="did you mean tour"):
        scenarios.load("tuor", REACHES)
    with pytest.raises(BadScenario, match="cannot be read"):
        scenarios.load("nowhere/mine.toml", REACHES)


def test_a_swarm_may_stand_beside_the_scenario(tmp_path: Path) -> None:
    beside = tmp_path / "small.toml"
    beside.write_text(swarms.read("steady"))
    mine = tmp_path / "mine.toml"
    mine.write_text('about = "x"\nswarm = "small.toml"\nminutes = 1\n')
    assert scenarios.load(str(mine), REACHES).swarm == str(beside)


def test_a_run_is_kept_as_far_as_it_came(tmp_path: Path) -> None:
    state = State(scenario=WEIGHTED, seed=7, steps=3, killed=2, parts=1)
    state.write(tmp_path)
    state.count("kill-node", 6)
    state.count("links-slow", 0)
    state.write(tmp_path)
    assert read(tmp_path) == state
    assert (state.killed, state.killed_by) == (8, {"kill-node": 6})
    with pytest.raises(NoRun, match="holds no chaos run"):
        read(tmp_path / "elsewhere")

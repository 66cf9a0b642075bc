"""A history on disk becomes a recording, and the recording what it is known to hold."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.member.assigning import CLASSIC_RANGE
from bench.swarm.planning.plan import CONSUMER
from bench.swarm.planning.scenario import BadScenario
from bench.swarm.replay.counts import of_recording, together
from bench.swarm.replay.planning import Wish, replay
from bench.swarm.replay.reading import folder_of, period, recording
from storage.history.generator.plan import Plan, plan
from storage.history.generator.spec import DAY_MS, Spec
from storage.history.generator.write import write
from storage.history.period import Period
from storage.history.segments.folder import Folder
from tests.history.read_back import read_all

SPEC = Spec(seed=3, events=6_000, days=1, groups=10, members=4, partitions_each=3)
NOW_MS = SPEC.first_ms + 30 * DAY_MS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Plan]:
    directory = tmp_path_factory.mktemp("history")
    planned = plan(SPEC)
    write(planned, Folder(str(directory)))
    return directory, planned


def test_all_that_happened_on_a_day_is_counted(made: tuple[Path, Plan]) -> None:
    directory, planned = made
    found = of_recording(
        recording(Folder(str(directory)), Period(SPEC.first_ms, SPEC.first_ms + DAY_MS + 60_000))
    )
    assert {name: each.rebalances for name, each in found.items()} == planned.answers.rebalances
    table, _ = read_all(Folder(str(directory)))
    kinds = table["kind"].to_pylist()
    total = together(found.values())
    assert total.joins == kinds.count("member_joined")
    assert total.leaves == kinds.count("member_left")
    assert total.expired == kinds.count("member_expired")
    assert total.commits == pytest.approx(sum(each or 0 for each in table["commits"].to_pylist()), rel=1e-3)


def test_a_plan_has_the_recorded_groups_with_their_members_and_topics(made: tuple[Path, Plan]) -> None:
    directory, _ = made
    span = Period(SPEC.first_ms + DAY_MS // 2, SPEC.first_ms + DAY_MS // 2 + 600_000)
    found = replay(recording(Folder(str(directory)), span), Wish(), seed=1).plan
    by_group = {member.group_id: member for member in found.members}
    assert sorted(by_group) == [f"group-{number:04}" for number in range(10)]
    spoken = [by_group[f"group-{number:04}"].protocol for number in range(10)]
    assert spoken == [CLASSIC_RANGE, CONSUMER] * 5
    assert {topic.partitions for topic in found.topics} == {12}


def test_one_group_may_be_chosen(made: tuple[Path, Plan]) -> None:
    span = Period(SPEC.first_ms, SPEC.first_ms + DAY_MS)
    assert list(recording(Folder(str(made[0])), span, "group-0003").groups) == ["group-0003"]


def test_without_a_period_the_last_ten_minutes_are_replayed(made: tuple[Path, Plan]) -> None:
    found = period(Folder(str(made[0])), None, None, NOW_MS)
    assert found.until_ms - found.since_ms == 600_000
    assert SPEC.first_ms + DAY_MS - 60_000 < found.until_ms <= SPEC.first_ms + DAY_MS + 60_000


def test_a_period_is_named_as_everywhere(made: tuple[Path, Plan]) -> None:
    folder = Folder(str(made[0]))
    found = period(folder, "2026-03-02T10:00", "2026-03-02T10:15", NOW_MS)
    assert found == Period(SPEC.first_ms + 10 * 3_600_000, SPEC.first_ms + 10 * 3_600_000 + 900_000)
    with pytest.raises(BadScenario, match="--since soon: minutes"):
        period(folder, "soon", None, NOW_MS)
    with pytest.raises(BadScenario, match="--since 1h: nothing is recorded from then"):
        period(folder, "1h", None, NOW_MS)


def test_what_is_no_history_is_refused_in_a_line(made: tuple[Path, Plan], tmp_path: Path) -> None:
    with pytest.raises(BadScenario, match="there is no such directory"):
        folder_of(str(tmp_path / "nowhere"))
    with pytest.raises(BadScenario, match="nothing is recorded in"):
        period(folder_of(str(tmp_path)), None, None, int(time.time() * 1_000))
    span = Period(SPEC.first_ms, SPEC.first_ms + DAY_MS)
    with pytest.raises(BadScenario, match="nothing is recorded of group biling"):
        recording(Folder(str(made[0])), span, "biling")


def test_a_data_directory_is_as_good_as_its_history(made: tuple[Path, Plan], tmp_path: Path) -> None:
    (tmp_path / "history").symlink_to(made[0])
    assert folder_of(str(tmp_path)).url == str(tmp_path / "history")

"""Scenario files: what a right one means, and what is said of a wrong one."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from bench.swarm.planning import scenario, toml_lines
from bench.swarm.planning.plan import TopicPlan
from bench.swarm.planning.scenario import BadScenario, Changes

RIGHT = """\
about = "Two kinds of groups."
duration_s = 60

[[groups]]
name = "orders"
count = 4
members = 3
protocols = { consumer = 3, range = 1 }
topics = { count = 2, partitions = 8 }
shapes = [
    { shape = "steady" },  # [ { not a bracket
    { shape = "crash-loop", up_s = 5 },
]

[[groups]]
name = "tiny"
count = 10
members = 1
static = true

[groups.topics]
partitions = 2
shared = true

[[groups.shapes]]
shape = "ramp"
up_s = 10
"""


def wrong(text: str) -> list[str]:
    with pytest.raises(BadScenario) as told:
        scenario.parse(text, "my.toml")
    return str(told.value).splitlines()


def test_a_file_says_groups_members_protocols_and_topics() -> None:
    plan = scenario.parse(RIGHT, "my.toml").plan(1)
    assert plan.scenario == "my"
    assert len(plan.members) == 4 * 3 + 10
    by_protocol = Counter(member.protocol for member in plan.members if member.group_id < "p")
    assert by_protocol == {"consumer": 9, "range": 3}
    tiny = [member for member in plan.members if member.group_id.startswith("tiny")]
    assert {member.topics for member in tiny} == {("tiny.0",)}
    assert [member.instance_id for member in tiny[:2]] == ["tiny-0/0", "tiny-1/0"]
    assert TopicPlan("orders-3.1", 8) in plan.topics
    assert len(plan.topics) == 4 * 2 + 1


def test_a_prefix_begins_all_names_and_moves_nothing() -> None:
    chosen = scenario.parse(RIGHT, "my.toml")
    plain, named = chosen.plan(7), chosen.plan(7, "swarm-1-")
    assert {member.name for member in named.members} == {f"swarm-1-{each.name}" for each in plain.members}
    assert {member.group_id for member in named.members} == {f"swarm-1-{m.group_id}" for m in plain.members}
    assert {topic.name for topic in named.topics} == {f"swarm-1-{topic.name}" for topic in plain.topics}
    assert [action.at_s for action in named.actions] == [action.at_s for action in plain.actions]


@pytest.mark.parametrize(
    ("line", "changed", "told"),
    [
        (2, "duration_s = -1", "2: duration_s: -1 is not allowed: it has to be greater than or"),
        (2, "duration_s = nan", "2: duration_s: nan is not allowed: it has to be a finite number"),
        (2, "", "1: duration_s: it is missing"),
        (6, "cuont = 4", "6: groups[0].cuont: there is no such key; did you mean count? name, count"),
        (6, "", "4: groups[0].count: it is missing"),
        (6, 'count = "many"', "6: groups[0].count: 'many' is not allowed: it has to be a valid integer"),
        (5, 'name = "A b"', "5: groups[0].name: 'A b' is not allowed: string should match pattern"),
        (5, 'name = "tiny"', "4: groups: each [[groups]] needs a name of its own"),
        (8, "protocols = { classic = 1 }", "8: groups[0].protocols.classic: 'classic' is not allowed: "),
        (8, "protocols = { range = 0 }", "8: groups[0].protocols.range: 0 is not allowed: it has to be"),
        (8, "protocols = {}", "8: groups[0].protocols: "),
        (9, "topics = { partitions = 0 }", "9: groups[0].topics.partitions: 0 is not allowed: "),
        (9, "topics = { partition = 1 }", "9: groups[0].topics.partition: there is no such key; did you"),
        (10, "shapes = []\nx = [", "10: groups[0].shapes: at least one is needed"),
        (12, '{ shape = "crashloop" }', "12: groups[0].shapes[1]: there is no such shape; did you mean"),
        (12, "{ up_s = 3 }", '12: groups[0].shapes[1]: it needs a key shape = "..."; steady, ramp'),
        (12, '{ shape = "crash-loop", up = 1 }', "12: groups[0].shapes[1].up: there is no such key; did"),
        (12, '"crash-loop"', "12: groups[0].shapes[1]: a table is needed"),
        (22, 'partitions = """x\ny"""', "22: groups[1].topics.partitions: 'x\\ny' is not allowed: "),
        (27, "up_s = -1", "27: groups[1].shapes[0].up_s: -1 is not allowed: it has to be"),
        (9, "topics = { count = ", "9: is no TOML: Invalid value"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_with_line_and_key_and_what_is_allowed(
    line: int, changed: str, told: str
) -> None:
    lines = RIGHT.splitlines()
    lines[line - 1] = changed
    found = wrong("\n".join(lines))
    assert any(each.startswith(f"my.toml:{told}") for each in found), found


def test_all_that_is_wrong_is_told_at_once_from_top_to_bottom() -> None:
    text = RIGHT.replace("60", "-1").replace("count = 10", "count = 0").replace("up_s = 5", "up_s = -5")
    found = wrong(text)
    assert [line.split(": ")[0] for line in found] == ["my.toml:2", "my.toml:12", "my.toml:17"]


@pytest.mark.parametrize("name", scenario.names())
def test_every_key_of_a_file_is_found_on_its_line(name: str) -> None:
    text = scenario.read(name)
    found = toml_lines.lines(text)

    def check(value: object, path: toml_lines.Path) -> None:
        line = text.splitlines()[found[path] - 1]
        if isinstance(value, dict):
            for key, inner in value.items():
                check(inner, (*path, key))
        elif isinstance(value, list):
            for place, inner in enumerate(value):
                check(inner, (*path, place))
        elif isinstance(value, str):
            assert value in line
        else:
            name = path[-1] if isinstance(path[-1], str) else path[-2]  # or it is one of several numbers
            assert f"{name} = " in line

    check(tomllib.loads(text), ())


def test_what_is_no_scenario_is_told_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(
        BadScenario, match=r"stedy: there is no such scenario; did you mean steady\? autoscaler"
    ):
        scenario.load("stedy")
    with pytest.raises(BadScenario, match=r"none\.toml: cannot be read: No such file or directory"):
        scenario.load(str(tmp_path / "none.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadScenario, match="cannot be read"):
        scenario.load(str(tmp_path / "binary.toml"))


def test_a_file_of_the_users_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(scenario.read("steady"))
    assert scenario.load(str(tmp_path / "mine.toml")).plan(1).scenario == "mine"


def test_more_members_are_more_groups_or_larger_ones() -> None:
    tiny = scenario.load("many-tiny-groups").scaled(members=4_000)
    assert [(table.count, table.members) for table in tiny.groups] == [(2_000, 1), (1_000, 2)]
    (huge,) = scenario.load("one-huge-group").scaled(members=3_000).groups
    assert (huge.count, huge.members, huge.topics.partitions) == (1, 3_000, 1_500)
    (both,) = scenario.load("steady").scaled(groups=10, members=1_000).groups
    assert (both.count, both.members, both.topics.partitions) == (10, 100, 240)
    (one,) = scenario.load("steady").scaled(members=1).groups
    assert (one.count, one.members) == (1, 5)


def test_one_protocol_for_all() -> None:
    plan = scenario.load("mixed").changed(Changes(protocol="range")).plan(1)
    assert {member.protocol for member in plan.members} == {"range"}


def test_what_cannot_be_in_so_short_a_run_or_so_large_a_one_is_told() -> None:
    short = scenario.load("crash-loop").changed(Changes(duration_s=10))
    with pytest.raises(BadScenario, match="crash-loop begins after 10 s, and the run ends after 10 s"):
        short.plan(1)
    with pytest.raises(BadScenario, match="300,000 members; 200,000 at most"):
        scenario.load("many-tiny-groups").scaled(members=300_000).plan(1)

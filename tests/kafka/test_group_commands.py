"""`groupd groups` beside kafka-consumer-groups, on the same groups: the same rows (B10).

Against the tier, or against a real Kafka with GROUPD_TEST_BOOTSTRAP.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from cluster.cli import app
from tests.kafka.conftest import Start
from tests.kafka.members import JavaMember
from tests.kafka.test_group_tools import RECORDS, commit, of_group, stored
from tests.kafka.tools import CONFIGS, GROUPS, Row, Tools, rows
from tests.tier.consumers import produce

pytestmark = [pytest.mark.kafka, pytest.mark.clients, pytest.mark.timeout(400)]
RUNNER = CliRunner()
SORTED_BY = ("GROUP", "TOPIC", "PARTITION", "CONSUMER-ID")
SCENARIOS = (
    ("--to-earliest",),
    ("--to-latest",),
    ("--to-current",),
    ("--to-offset", "3"),
    ("--shift-by", "-4"),
    ("--shift-by", "1000"),
    ("--to-datetime", "2020-01-01T00:00:00.000"),
    ("--to-datetime", "2099-01-01T00:00:00.000"),
    ("--by-duration", "P1D"),
    ("--by-duration", "PT0S"),
)


def groupd(bootstrap: str, *arguments: str) -> Result:
    return RUNNER.invoke(app, [*arguments, "--bootstrap", bootstrap])


def said(bootstrap: str, *arguments: str) -> str:
    done = groupd(bootstrap, *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def in_order(table: list[Row]) -> list[Row]:
    return sorted(table, key=lambda row: [row.get(name, "") for name in SORTED_BY])


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
def test_a_live_group_looks_the_same(
    tools: Tools, start: Start, bootstrap: str, topic: str, group_id: str, group_protocol: str
) -> None:
    """C25, A12: two static members; what is shown of epochs and targets included."""
    produce(bootstrap, topic, 6 * RECORDS)
    settings: dict[str, Any] = {"group_protocol": group_protocol, "client_id": "teller"}
    members = [
        start(topic, group_id, **settings, group_instance_id=name) for name in ("static-1", "static-2")
    ]
    members[1].until(lambda: _own(members) == [3, 3], "three partitions each")
    members[0].until(lambda: sum(len(member.seen) for member in members) >= 6 * RECORDS, "all records read")
    for member in members:
        member.ask("commit", "committed")
    for flags in (["--offsets"], ["--members"], ["--state"]):
        for verbose in ([], ["--verbose"]):
            theirs = tools.table(GROUPS, "--describe", "--group", group_id, *flags, *verbose)
            mine = rows(said(bootstrap, "groups", "describe", group_id, *flags, *verbose))
            assert in_order(mine) == in_order(theirs), (flags, verbose)
    (listed,) = of_group(tools.table(GROUPS, "--list", "--state", "--type"), group_id)
    (own,) = of_group(rows(said(bootstrap, "groups", "list", "--type", group_protocol)), group_id)
    assert {name: own[name] for name in listed} == listed

    refused = groupd(bootstrap, "groups", "delete", group_id)
    assert (refused.exit_code, "NON_EMPTY_GROUP" in refused.stderr) == (1, True)
    refused = groupd(bootstrap, "groups", "delete-offsets", group_id, "--topic", topic)
    assert (refused.exit_code, "GROUP_SUBSCRIBED_TO_TOPIC" in refused.stderr) == (1, True)
    refused = groupd(bootstrap, "groups", "reset-offsets", group_id, "--topic", topic, "--to-latest")
    assert (refused.exit_code, "inactive" in refused.stderr) == (1, True)
    if group_protocol == "classic":
        removed = json.loads(said(bootstrap, "groups", "remove-members", group_id, "--all", "--json"))
        assert sorted(removed["removed"]) == ["static-1", "static-2"]


def _own(members: list[JavaMember]) -> list[int]:
    return [len(member.owned) for member in members]


def test_every_scenario_of_a_reset_plans_the_same(
    tools: Tools, admin: AdminClient, bootstrap: str, topic: str, group_id: str, tmp_path: Path
) -> None:
    produce(bootstrap, topic, 6 * RECORDS)
    commit(admin, group_id, topic, RECORDS - 1)
    for scope in (["--topic", topic], ["--topic", f"{topic}:0,5"], ["--all-topics"]):
        for scenario in SCENARIOS:
            theirs = tools.table(GROUPS, "--reset-offsets", "--group", group_id, *scope, *scenario)
            mine = rows(said(bootstrap, "groups", "reset-offsets", group_id, *scope, *scenario))
            assert in_order(mine) == in_order(theirs), (scope, scenario)
    where = ["--all-topics", "--shift-by", "-2", "--export"]
    theirs = tools.run(GROUPS, "--reset-offsets", "--group", group_id, *where)
    mine = said(bootstrap, "groups", "reset-offsets", group_id, *where, "csv")
    plan = tmp_path / "plan.csv"
    plan.write_text("".join(line + "\n" for line in theirs.splitlines() if line.startswith(topic)))
    assert sorted(plan.read_text().splitlines()) == sorted(mine.splitlines())
    assert stored(admin, group_id) == dict.fromkeys(range(6), RECORDS - 1), "so far all was shown only"
    said(bootstrap, "groups", "reset-offsets", group_id, "--from-file", str(plan), "--execute")
    assert stored(admin, group_id) == dict.fromkeys(range(6), RECORDS - 3)


def test_offsets_and_groups_are_deleted(
    tools: Tools, admin: AdminClient, bootstrap: str, topic: str, group_id: str
) -> None:
    """These are rules O12 and O13."""
    commit(admin, group_id, topic, 0)
    assert "Deleted" in said(bootstrap, "groups", "delete-offsets", group_id, "--topic", f"{topic}:1,2")
    assert sorted(stored(admin, group_id)) == [0, 3, 4, 5]
    described = tools.table(GROUPS, "--describe", "--group", group_id)
    assert in_order(rows(said(bootstrap, "groups", "describe", group_id))) == in_order(described)
    assert said(bootstrap, "groups", "delete", group_id) == f"Deleted: {group_id}.\n"
    gone = groupd(bootstrap, "groups", "delete", group_id)
    assert (gone.exit_code, "there is no such group" in gone.stderr) == (1, True)


def test_configs_of_a_group_are_what_kafkas_tool_reads(tools: Tools, bootstrap: str, group_id: str) -> None:
    """A19: `groupd` sets a group's config, Kafka's tool reads it, and `groupd` deletes it."""
    name = "consumer.heartbeat.interval.ms"
    shown = json.loads(said(bootstrap, "groups", "configs", group_id, "--set", f"{name}=6000", "--json"))
    assert {"name": name, "value": "6000", "is_dynamic": True} in shown
    where = ("--entity-type", "groups", "--entity-name", group_id, "--describe")
    assert f"{name}=6000" in tools.run(CONFIGS, *where)
    shown = json.loads(said(bootstrap, "groups", "configs", group_id, "--delete", name, "--json"))
    assert [config for config in shown if config["is_dynamic"]] == []
    refused = groupd(bootstrap, "groups", "configs", group_id, "--set", f"{name}=no-number")
    assert (refused.exit_code, "INVALID_CONFIG" in refused.stderr) == (1, True)


def test_offsets_move_to_another_group_by_file(
    admin: AdminClient, bootstrap: str, topic: str, group_id: str, tmp_path: Path
) -> None:
    """Export, delete, import: what was committed is committed again, in either form."""
    produce(bootstrap, topic, 6 * RECORDS)
    commit(admin, group_id, topic, 4)
    for form in ("kafka", "json"):
        file = str(tmp_path / form)
        said(bootstrap, "offsets", "export", file, "--group", group_id, "--format", form)
        said(bootstrap, "groups", "delete", group_id)
        assert "6 offsets of 1 groups are imported" in said(bootstrap, "offsets", "import", file)
        assert stored(admin, group_id) == dict.fromkeys(range(6), 4)

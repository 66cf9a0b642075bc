"""Settings: where they come from, which wins, and what a wrong one says."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.ground.changeable import CHANGEABLE
from actors.ground.settings import GroupSettings
from actors.ground.spec import BrokerSettings, HistorySettings, RaftSettings
from cluster.node_plan import plan_nodes
from cluster.settings import SettingsError, load, parse_assignments
from cluster.settings_table import CONSTANTS, SETTINGS
from tests.kafka.jvm import CACHE_VARIABLE

IN_FRONT = {"upstream.bootstrap.servers": "b:1", "upstream.controllers": "c:1"}
"""A tier in front of a Kafka cluster."""


def test_defaults_are_kafkas_own() -> None:
    """Coordinators that no source tells anything have Kafka's defaults."""
    settings = load(environment={})
    assert settings.groups == GroupSettings()
    assert settings.broker == BrokerSettings()
    assert settings.raft == RaftSettings()
    assert settings.history == HistorySettings()
    assert not settings.is_given("nodes")


def test_every_field_that_actors_are_told_can_be_set() -> None:
    """A field that is added to the actors' settings gets a row in the table, or is named a constant."""
    told = (GroupSettings, BrokerSettings, HistorySettings)
    names = {field.replace("_", ".") for cls in told for field in cls._fields}
    names |= {"raft." + field.replace("_", ".") for field in RaftSettings._fields}
    assert names - set(SETTINGS) == CONSTANTS


def test_every_setting_says_what_it_means_and_allows() -> None:
    assert all(setting.meaning.endswith(".") and setting.allowed for setting in SETTINGS.values())


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "tier.toml"
    file.write_text('nodes = 5\nport = 1111\ngroup.max.size = 10\n[group.consumer]\nassignors = ["range"]\n')
    environment = {"GROUPD_PORT": "2222", "GROUPD_GROUP_MAX_SIZE": "20", "HOME": "/"}
    settings = load({"group.max.size": "30"}, config=file, environment=environment)
    assert (settings["nodes"], settings["port"], settings["group.max.size"]) == (5, 2222, 30)
    assert settings.groups.group_consumer_assignors == ("range",)
    origins = [settings.origins[name] for name in ("nodes", "port", "group.max.size", "host")]
    assert origins == [f"file {file}", "environment", "flag", "default"]


def test_a_tier_starts_beside_the_variable_that_names_the_cache_of_the_tests() -> None:
    """Tests hand their environment on to the tiers that they start."""
    assert load(environment={CACHE_VARIABLE: "/jars"}).groups == GroupSettings()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"nodes": "0"}, "nodes = '0' (flag): a whole number from 1 to 99"),
        ({"nodes": "three"}, "nodes = 'three' (flag): a whole number from 1 to 99"),
        ({"journal.sync": "sometimes"}, "journal.sync = 'sometimes' (flag): batch or off"),
        ({"auto.create.topics.enable": "perhaps"}, "true or false"),
        ({"group.consumer.assignors": "uniform,unheard-of"}, "a list of uniform, range, uniform-rack"),
        (
            {"group.consumer.session.timeout.ms": "1000"},
            "45000 (group.consumer.min.session.timeout.ms) to 60000",
        ),
        ({"group.heartbeat.hold.clients": "kgo:848"}, "hold.clients = 'kgo:848' (flag): names of client"),
        ({"group.min.session.timeout.ms": "1800000"}, "less than group.max.session.timeout.ms"),
        ({"raft.heartbeat.ms": "300"}, "a third of raft.election.timeout.min.ms"),
        ({"raft.tls.certificate": "/dev/null"}, "TLS needs raft.tls.key and raft.tls.ca too"),
        (
            {"raft.tls.certificate": "a", "raft.tls.key": "b", "raft.tls.ca": "c"},
            "all replicas are on this machine and use Unix sockets",
        ),
        ({"port": "65535"}, "3 nodes need ports up to 65537; at most 65533 is allowed"),
        ({"host": "0.0.0.0"}, "advertised"),
        ({"racks": "a,b"}, "one for each of the 3 nodes"),
        ({"advertised.port": "9094"}, "3 ports beside those of the nodes (9092 to 9094)"),
        ({"advertised.port": "65535"}, "and below 65536"),
        ({"upstream.other.port": "9093"}, "upstream.other.port = 9093 (flag): 3 ports beside those of the"),
        ({"history.dir": "nowhere://a"}, "history.dir = 'nowhere://a' (flag): Protocol not known"),
        (
            {"upstream.controllers": "c:1"},
            "(flag): a tier in front of a cluster needs upstream.bootstrap",
        ),
        (IN_FRONT | {"upstream.controllers": "c1:1,c2"}, "upstream.controllers = 'c2' (flag): a list of hos"),
        ({"grup.max.size": "1"}, "did you mean group.max.size?"),
    ],
)
def test_a_wrong_setting_is_one_error_with_key_value_and_what_is_allowed(
    flags: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError) as error:
        load(flags, environment={})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_proxys_ports_are_told_to_clients() -> None:
    """Nodes that share an address take them one after the other, as they take their own."""
    settings = load({"advertised.port": "29092"}, environment={})
    assert [(node.port, node.clients_port) for node in plan_nodes(settings, ())] == [
        (9092, 29092),
        (9093, 29093),
        (9094, 29094),
    ]
    machines = plan_nodes(settings, ("10.0.0.1", "10.0.0.2", "10.0.0.3"))
    assert {(node.port, node.clients_port) for node in machines} == {(9092, 29092)}
    assert [node.clients_port for node in plan_nodes(load(environment={}), ())] == [9092, 9093, 9094]


def test_bounds_that_are_moved_admit_what_they_refused() -> None:
    """The bounds of KIP-848's session timeout are settings themselves, as in Kafka."""
    flags = {"group.consumer.min.session.timeout.ms": 1000, "group.consumer.session.timeout.ms": 6000}
    assert load(flags, environment={}).groups.group_consumer_session_timeout_ms == 6000


def test_a_misspelt_environment_variable_is_not_ignored() -> None:
    with pytest.raises(SettingsError, match=r"GROUPD_PROT.*did you mean GROUPD_PORT"):
        load(environment={"GROUPD_PROT": "9092"})


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tier.toml"
    file.write_text("nodes =")
    with pytest.raises(SettingsError, match=r"tier\.toml: is no TOML"):
        load(config=file, environment={})
    with pytest.raises(SettingsError, match="cannot be read"):
        load(config=tmp_path / "none.toml", environment={})


def test_an_assignment_without_a_value_is_refused() -> None:
    assert parse_assignments(["nodes=1", "racks=a=b"]) == {"nodes": "1", "racks": "a=b"}
    with pytest.raises(SettingsError, match="NAME=VALUE"):
        parse_assignments(["nodes"])


def test_the_journals_sync_is_switched_by_its_word() -> None:
    assert load({"journal.sync": "off"}, environment={}).raft.journal_sync is False


def test_w33_what_can_change_at_run_time_keeps_to_the_bounds_of_its_row() -> None:
    """A tier never takes a value while it runs that it would not have started with."""
    for name, changeable in CHANGEABLE.items():
        setting = SETTINGS[name]
        if not changeable.choices:
            assert setting.low is not None
            assert setting.high is not None
            assert (changeable.low, changeable.high <= setting.high) == (setting.low, True), name
        elif setting.choices:
            assert set(changeable.choices) == set(setting.choices)

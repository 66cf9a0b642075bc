"""Kafka's settings by their names: what is heeded, what is ignored and said to be, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.ground.kafka_settings import kafka_settings
from cluster import kafka_names, properties_file
from cluster.cli import app
from cluster.kafka_names import TRANSLATED
from cluster.settings import Settings, SettingsError, load
from cluster.settings_table import SETTINGS

RUNNER = CliRunner()
REFUSED_DEFAULTS = {
    "log.retention.bytes",  # without a bound, and the logs are in memory
    "sasl.enabled.mechanisms",  # Kerberos
}
"""Settings of Kafka's whose own default the tier cannot have."""
SERVER_PROPERTIES = r"""
# A server.properties as Kafka brings it, cut down.
process.roles=broker,controller
node.id = 1
listeners=PLAINTEXT://:9092,\
          CONTROLLER://:9093
num.io.threads=8
log.dirs=/var/kafka
log.retention.hours=2
offsets.topic.num.partitions=7
group.initial.rebalance.delay.ms=0
zookeeper.connect=localhost\:2181
ssl.keystore.password=hunter2
"""


def given(**flags: str) -> Settings:
    return load({name.replace("_", "."): value for name, value in flags.items()}, environment={})


def test_every_setting_of_kafkas_is_the_tiers_or_has_a_reason_why_it_is_not() -> None:
    left = [
        name
        for name in kafka_settings()
        if name not in SETTINGS and name not in TRANSLATED and not kafka_names.why_ignored(name)
    ]
    assert left == []


def test_no_reason_is_left_of_a_setting_that_kafka_does_not_have() -> None:
    for beginning in kafka_names.REASONS:
        assert any(name.startswith(beginning) for name in (*kafka_settings(), kafka_names.OF_A_LISTENER))


@pytest.mark.parametrize("name", sorted(set(kafka_settings()) - REFUSED_DEFAULTS))
def test_kafkas_own_default_can_be_given(name: str) -> None:
    default = kafka_settings()[name].default
    if default is not None:
        load({name: default}, environment={})


@pytest.mark.parametrize("name", sorted(REFUSED_DEFAULTS))
def test_a_default_that_the_tier_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name} = .* is allowed"):
        load({name: kafka_settings()[name].default}, environment={})


def test_the_bounds_of_what_is_heeded_are_kafkas_or_within_them() -> None:
    for name, setting in SETTINGS.items():
        kafka = kafka_settings().get(name)
        if kafka is None:
            continue
        assert set(setting.choices) <= set(kafka.choices) | {each.lower() for each in kafka.choices} or (
            not kafka.choices
        )
        if kafka.low is not None and setting.low is not None:
            assert setting.low >= kafka.low, name


def test_what_is_ignored_is_kept_apart_with_its_reason() -> None:
    settings = given(num_io_threads="16", group_coordinator_new_enable="true")
    assert [(each.name, each.value, each.origin) for each in settings.ignored] == [
        ("group.coordinator.new.enable", "true", "flag"),
        ("num.io.threads", "16", "flag"),
    ]
    assert settings.values == load(environment={}).values


def test_a_value_that_kafka_would_refuse_is_refused_though_it_has_no_effect() -> None:
    with pytest.raises(SettingsError, match=r"num\.io\.threads = '0' \(flag\): a whole number from 1 to"):
        given(num_io_threads="0")


def test_an_unknown_name_is_an_error_that_names_the_nearest_of_either() -> None:
    with pytest.raises(SettingsError, match=r"did you mean num\.io\.threads\?"):
        given(num_io_treads="8")
    with pytest.raises(SettingsError, match=r"did you mean group\.max\.size\?"):
        given(group_max_sise="8")


def test_a_setting_under_kafkas_other_name_is_heeded() -> None:
    settings = given(log_retention_hours="2")
    assert (settings["log.retention.ms"], settings.origins["log.retention.ms"]) == (
        7_200_000,
        "flag, log.retention.hours",
    )
    assert given(log_retention_hours="2", log_retention_minutes="1")["log.retention.ms"] == 60_000
    assert given(log_retention_minutes="1", log_retention_ms="5")["log.retention.ms"] == 5
    standard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert given(authorizer_class_name=standard)["authorizer"] == "acl"
    with pytest.raises(SettingsError, match=r"authorizer\.class\.name = 'my\.Own' \(flag\): nothing or org"):
        given(authorizer_class_name="my.Own")


def test_the_classic_protocol_cannot_be_switched_off() -> None:
    name = "group.coordinator.rebalance.protocols"
    assert load({name: "classic"}, environment={}).groups.group_coordinator_rebalance_protocols == (
        "classic",
    )
    for wrong in ("consumer", "", "classic,raft", "Classic"):
        with pytest.raises(SettingsError, match=f"^{name} = "):
            load({name: wrong}, environment={})


def test_a_protocol_that_the_tier_does_not_have_is_ignored() -> None:
    """Kafka's own default names streams groups."""
    settings = given(group_coordinator_rebalance_protocols="classic,consumer,streams,share")
    assert [(each.name, each.value, each.why) for each in settings.ignored] == [
        ("group.coordinator.rebalance.protocols", "streams,share", "no streams and no share groups")
    ]


def test_a_policy_may_be_written_in_capitals_as_kafka_takes_it() -> None:
    assert given(group_consumer_migration_policy="UPGRADE")["group.consumer.migration.policy"] == "upgrade"


def test_the_environment_may_hold_kafkas_names_too() -> None:
    settings = load(environment={"GROUPD_NUM_IO_THREADS": "4", "GROUPD_LOG_RETENTION_HOURS": "1"})
    assert [(each.name, each.origin) for each in settings.ignored] == [("num.io.threads", "environment")]
    assert settings["log.retention.ms"] == 3_600_000


def test_a_server_properties_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(SERVER_PROPERTIES)
    settings = load(config=file, environment={})
    assert settings["offsets.topic.num.partitions"] == 7
    assert settings["group.initial.rebalance.delay.ms"] == 0
    assert settings["log.retention.ms"] == 7_200_000
    assert {each.name: each.value for each in settings.ignored} == {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "num.io.threads": "8",
        "log.dirs": "/var/kafka",
        "zookeeper.connect": "localhost:2181",
        "ssl.keystore.password": "hunter2",
    }


def test_toml_has_numbers_lists_and_booleans(tmp_path: Path) -> None:
    file = tmp_path / "tier.toml"
    file.write_text(
        'num.io.threads = 4\nauto.leader.rebalance.enable = false\nlog.cleanup.policy = ["compact"]\n'
    )
    ignored = load(config=file, environment={}).ignored
    assert [each.value for each in ignored] == ["false", "compact", "4"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("  a : 1 ", {"a": "1 "}),
        ("a 1", {"a": "1"}),
        ("a", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a\\=b=c\\\\d", {"a=b": "c\\d"}),
        ("a=\\u0041\\tb", {"a": "A\tb"}),
        ("a=1,\\\n   2\nb=3", {"a": "1,2", "b": "3"}),
        ("a=1\\\\\nb=3", {"a": "1\\", "b": "3"}),
        ("# a=1\n! b=2\n\na=3\na=4", {"a": "4"}),
        ("a=1\\", {"a": "1"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert properties_file.parse(text) == expected


def test_config_shows_what_was_given_and_hides_passwords() -> None:
    arguments = [
        "--set=ssl.keystore.password=hunter2",
        "--set=listener.name.a.ssl.key.password=hunter3",
        "--set=num.io.threads=4",
    ]
    listed = RUNNER.invoke(app, ["config", *arguments]).stdout
    assert "hunter" not in listed
    assert [line.split()[0] for line in listed.splitlines()][-3:] == [
        "listener.name.a.ssl.key.password",
        "num.io.threads",
        "ssl.keystore.password",
    ]
    rows = {row["name"]: row for row in json.loads(RUNNER.invoke(app, ["config", "--all", "--json"]).stdout)}
    assert set(rows) == {*SETTINGS, *kafka_settings()}
    assert rows["num.network.threads"]["meaning"] == "Ignored: actors have no thread pools."
    assert rows["log.retention.hours"]["meaning"] == "Taken for log.retention.ms."


def test_up_says_in_one_line_what_it_ignores_and_why(tmp_path: Path) -> None:
    """The next setting is wrong together with another, so that nothing starts."""
    data_dir = tmp_path / "a file"
    data_dir.write_text("")
    result = RUNNER.invoke(
        app,
        ["up", "--data-dir", str(data_dir), "--set=num.io.threads=4", "--set=log.dirs=/x", "--detach"],
    )
    said = [line for line in result.stderr.splitlines() if "ignored" in line]
    assert said == [
        "groupd: ignored: log.dirs (data.dir says it), num.io.threads (actors have no thread pools)"
    ]

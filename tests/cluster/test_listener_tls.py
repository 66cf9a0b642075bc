"""TLS of the nodes' listener is settled before a tier starts, and commands of its machine speak it by
themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster import administrator
from cluster.cli import app
from cluster.groups.properties import properties
from cluster.settings import Settings, SettingsError, load
from tests.authority import Authority, Issued


@pytest.fixture(scope="module")
def node(authority: Authority) -> Issued:
    return authority.certify("node")


def given(protocol: str, keystore: Path | str, **changes: str) -> Settings:
    flags = {"listener.security.protocol": protocol, "ssl.keystore.location": str(keystore)}
    names = {f"ssl.{name.replace('_', '.')}": value for name, value in changes.items()}
    return load(flags | names, environment={})


def test_paths_hold_wherever_actors_run(node: Issued, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(node.both.parent)
    assert given("SSL", node.both.name)["ssl.keystore.location"] == str(node.both)


def test_what_cannot_work_is_refused_before_anything_starts(authority: Authority, node: Issued) -> None:
    far = authority.certify("far", hosts=("DNS:far",)).both
    trusting = {"truststore_location": str(authority.path)}
    cases = (
        ("SSL", "", {}, "ssl.keystore.location: TLS needs a PEM file"),
        ("SASL_SSL", "/nowhere", {}, "ssl.keystore.location = '/nowhere': No such file"),
        ("SSL", node.both, {"keystore_type": "JKS"}, "ssl.keystore.type = 'JKS': PEM is allowed"),
        ("SSL", node.both, {"client_auth": "perhaps"}, "ssl.client.auth = 'perhaps'"),
        ("SSL", node.both, {"enabled_protocols": "SSLv3"}, "ssl.enabled.protocols = 'SSLv3'"),
        ("SSL", node.both, {"principal_mapping_rules": "alice"}, "ssl.principal.mapping.rules: 'alice'"),
        ("SSL", far, trusting, "IP address mismatch"),
    )
    for protocol, keystore, changes, expected in cases:
        with pytest.raises(SettingsError, match=expected):
            given(protocol, keystore, **changes)


def test_files_of_a_listener_without_tls_are_not_looked_at() -> None:
    assert given("PLAINTEXT", "/nowhere")["ssl.keystore.location"] == "/nowhere"


def test_nodes_of_several_machines_have_hosts_of_their_own(authority: Authority) -> None:
    far = authority.certify("far", hosts=("DNS:far",)).both
    flags = {"listener.security.protocol": "SSL", "ssl.keystore.location": str(far)}
    flags |= {"ssl.truststore.location": str(authority.path), "machine.address": "127.0.0.1:7000"}
    assert load(flags, environment={})["ssl.keystore.location"] == str(far)


def test_the_machines_commands_have_what_they_need(
    authority: Authority, node: Issued, tmp_path: Path
) -> None:
    """They show the nodes' own certificate where they must show one."""
    settings = given("SSL", node.both, truststore_location=str(authority.path), client_auth="required")
    assert administrator.prepare(settings, tmp_path) == ""
    found = properties("127.0.0.1:1", administrator.properties_of(tmp_path))
    assert found.security_protocol == "ssl"
    assert (found.ssl_ca, found.ssl_certificate) == (str(authority.path), str(node.both))
    assert found.tls() is not None
    password = administrator.prepare(given("SASL_SSL", node.both), tmp_path)
    found = properties("127.0.0.1:1", administrator.properties_of(tmp_path))
    assert (found.sasl_password, found.ssl_certificate) == (password, None)
    administrator.prepare(load({}, environment={}), tmp_path)
    assert administrator.properties_of(tmp_path) is None


def test_the_keys_password_is_shown_to_nobody(authority: Authority) -> None:
    locked = authority.certify("locked", password="hunter2").both
    flags = (f"--set=ssl.keystore.location={locked}", "--set=ssl.key.password=hunter2")
    shown = CliRunner().invoke(app, ["config", "--json", *flags, "--set=listener.security.protocol=SSL"])
    [row] = [row for row in json.loads(shown.output) if row["name"] == "ssl.key.password"]
    assert row["value"] == "(hidden)"
    assert "hunter2" not in shown.output

"""Properties of a Kafka: read as they are, and refused by name."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from cluster.groups.properties import names_bootstrap, properties
from cluster.tier_file import TierError

FILE = """
# of the staging cluster
bootstrap.servers = one:9092,[::1]:9093
security.protocol=SASL_SSL
sasl.mechanisms=SCRAM-SHA-512
sasl.username=billing
sasl.password=a=b
enable.ssl.certificate.verification=false
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "client.properties"
    path.write_text(FILE)
    return path


def test_a_file_says_where_and_how(file: Path) -> None:
    found = properties(None, file)
    assert found.addresses == [("one", 9092), ("::1", 9093)]
    assert (found.has_sasl, found.sasl_mechanism, found.sasl_password) == (True, "SCRAM-SHA-512", "a=b")
    context = found.tls()
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_NONE)
    assert "a=b" not in repr(found)


def test_librdkafka_is_given_just_what_was_said(file: Path) -> None:
    assert properties(None, file).librdkafka() == {
        "bootstrap.servers": "one:9092,[::1]:9093",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "billing",
        "sasl.password": "a=b",
        "enable.ssl.certificate.verification": False,
    }


def test_the_command_line_counts_more(file: Path) -> None:
    assert properties("other:1", file).addresses == [("other", 1)]
    assert names_bootstrap(file)
    assert not names_bootstrap(None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sasl.kerberos.keytab=x", "sasl.kerberos.keytab: this property is not known here"),
        ("security.protocol=tls", "security.protocol: plaintext, ssl, sasl_plaintext or sasl_ssl is allowed"),
        ("sasl.mechanism=GSSAPI", "sasl.mechanism: one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 is allowed"),
        ("client.id", "line 1: name=value is expected"),
        ("client.id=x", "bootstrap.servers: it is missing"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(TierError) as refused:
        properties(None, path)
    assert says in str(refused.value)
    assert str(path) in str(refused.value)


def test_an_address_without_port_and_a_missing_ca_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TierError, match=r"--bootstrap kafka: host:port is expected"):
        _ = properties("kafka", None).addresses
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=ssl\nssl.ca.location=/nowhere/ca.pem\n")
    with pytest.raises(TierError, match=r"ssl\.\* properties: .*No such file"):
        properties("kafka:1", path).tls()

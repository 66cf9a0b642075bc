"""The certificate of a node's port: what is refused when it is read, and what happens when it is renewed."""

from __future__ import annotations

import logging
import os
import shutil
import time
from pathlib import Path

import pytest

from actors.ground.spec import SSL, BrokerSettings
from actors.network.certificates import Certificates, TlsUnusable, check
from tests.authority import Authority, Issued

HOST = "127.0.0.1"
DAY_S = 86_400


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.certify("node")


def settings(authority: Authority, keystore: Path | str, **changes: str) -> BrokerSettings:
    names = {f"ssl_{name}": value for name, value in changes.items()}
    return BrokerSettings(
        listener_security_protocol=SSL,
        ssl_keystore_location=str(keystore),
        ssl_truststore_location=str(authority.path),
    )._replace(**names)


def test_a_good_one_is_taken(authority: Authority, issued: Issued) -> None:
    check(settings(authority, issued.both, client_auth="required"), HOST)
    encrypted = authority.certify("encrypted", password="word")
    check(settings(authority, encrypted.both, key_password="word"), HOST)


def test_one_without_authorities_is_taken_by_itself(authority: Authority, issued: Issued) -> None:
    check(settings(authority, issued.both, truststore_location=""), HOST)


def test_what_cannot_work_is_named(authority: Authority, issued: Issued, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger")
    other = authority.certify("other")
    mixed = tmp_path / "mixed.pem"
    mixed.write_text(issued.key.read_text() + other.certificate.read_text())
    garbled = tmp_path / "garbled.pem"
    garbled.write_text(authority.path.read_text().replace("-----END", "é-----END"))
    binary = tmp_path / "keystore.jks"
    binary.write_bytes(b"\xfe\xed\xfe\xed" + bytes(200))
    encrypted = authority.certify("locked", password="word").both
    cases = (
        (settings(authority, ""), "ssl.keystore.location: TLS needs a PEM file"),
        (settings(authority, "/nowhere"), "ssl.keystore.location = '/nowhere': No such file"),
        (settings(authority, tmp_path), "ssl.keystore.location = .*: Is a directory"),
        (settings(authority, binary), "ssl.keystore.location = .*: it is no PEM file with a certificate"),
        (settings(authority, issued.certificate), "ssl.keystore.location = .*: it has no private key"),
        (settings(authority, mixed), "the private key is not that of its first certificate"),
        (settings(authority, encrypted), "ssl.key.password: the private key is encrypted"),
        (settings(authority, encrypted, key_password="no"), "ssl.key.password is wrong"),
        (settings(authority, issued.both, keystore_type="JKS"), "ssl.keystore.type = 'JKS': PEM is allowed"),
        (
            settings(authority, issued.both, truststore_location="/nowhere"),
            "ssl.truststore.location = '/nowhere': No such file",
        ),
        (
            settings(authority, issued.both, truststore_location=str(issued.key)),
            "ssl.truststore.location = .*: it is no PEM file with a certificate",
        ),
        (
            settings(authority, issued.both, truststore_location=str(garbled)),
            "ssl.truststore.location: a certificate in it cannot be read",
        ),
        (
            settings(authority, issued.both, client_auth="required", truststore_location=""),
            "ssl.truststore.location: ssl.client.auth = 'required' needs it",
        ),
        (settings(authority, issued.both, principal_mapping_rules="RULE:x"), "ssl.principal.mapping.rules: "),
        (settings(authority, authority.certify("old", days=-1).both), "certificate has expired"),
        (settings(authority, authority.certify("far", hosts=("DNS:far",)).both), "IP address mismatch"),
        (
            settings(stranger, stranger.certify("n").both, truststore_location=str(authority.path))._replace(
                ssl_client_auth="required"
            ),
            "ssl.keystore.location: nodes and clients refuse it",
        ),
        (
            settings(authority, authority.certify("s", usage="serverAuth").both, client_auth="required"),
            "unsuitable certificate purpose",
        ),
    )
    for wrong, expected in cases:
        with pytest.raises(TlsUnusable, match=expected):
            check(wrong, HOST)


def test_hosts_are_compared_only_if_that_is_asked_for(authority: Authority) -> None:
    far = authority.certify("far", hosts=("DNS:far",))
    check(settings(authority, far.both, endpoint_identification_algorithm=""), HOST)


def test_a_renewed_certificate_is_taken_up(authority: Authority, issued: Issued, tmp_path: Path) -> None:
    keystore = tmp_path / "keystore.pem"
    shutil.copy(issued.both, keystore)
    held = Certificates(settings(authority, keystore), HOST)
    before = held.contexts
    held.look()
    assert held.contexts is before
    shutil.copy(authority.certify("renewed").both, keystore)
    held.look()
    assert held.contexts is not before
    assert held.contexts.certificate.subject == "CN=renewed"


def test_a_broken_certificate_leaves_the_one_before(
    authority: Authority, issued: Issued, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Half a file, none, one that has ended: each is told once, and the next good one is taken up."""
    keystore = tmp_path / "keystore.pem"
    shutil.copy(issued.both, keystore)
    held = Certificates(settings(authority, keystore), HOST)
    before = held.contexts
    ended = authority.certify("ended", days=-1)
    garbled = issued.both.read_text().replace("-----END CERTIFICATE", "é-----END CERTIFICATE")
    for broken in (issued.both.read_text()[:400], None, garbled, ended.both.read_text()):
        caplog.clear()
        if broken is None:
            keystore.unlink()
        else:
            keystore.write_text(broken)
        held.look()
        held.look()
        assert held.contexts is before
        assert [record.levelname for record in caplog.records] == ["ERROR"]
        assert "is not taken up, the one before goes on: ssl.keystore.location" in caplog.text
    shutil.copy(authority.certify("good").both, keystore)
    held.look()
    assert held.contexts.certificate.subject == "CN=good"


def test_a_certificate_that_is_about_to_end_is_told_of_in_time(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = time.time()
    times = settings(authority, authority.certify("long", days=60).both)
    held = Certificates(times, HOST, clock=lambda: now_s)
    for days, lines in ((0, 0), (25, 0), (31, 1), (32, 1), (54, 2), (59.5, 3), (61, 4), (90, 4)):
        now_s = time.time() + days * DAY_S
        held.look()
        assert len(caplog.records) == lines, days
    assert "the certificate of ssl.keystore.location ends in 29.0 days" in caplog.text
    assert caplog.records[-1].getMessage() == "the certificate of ssl.keystore.location has ended"


def test_a_node_comes_back_with_a_certificate_that_has_ended(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients that do not check are served, and the log says why the others are not."""
    held = Certificates(settings(authority, authority.certify("gone", days=-1).both), HOST)
    held.look()
    assert "certificate has expired" in caplog.text
    assert held.contexts.certificate.not_after_s < time.time()


def test_one_stamp_is_looked_at_again_only_when_files_change(
    authority: Authority, issued: Issued, tmp_path: Path
) -> None:
    """A truststore that is replaced in place counts, too."""
    truststore = tmp_path / "trust.pem"
    shutil.copy(authority.path, truststore)
    held = Certificates(settings(authority, issued.both, truststore_location=str(truststore)), HOST)
    before = held.contexts
    os.utime(truststore, ns=(1, 1))
    held.look()
    assert held.contexts is not before


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

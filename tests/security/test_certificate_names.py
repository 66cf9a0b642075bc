"""A certificate's owner is named as Java names him (`X500Principal.getName`, RFC 2253)."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest

from actors.security.certificate_names import certificate_of
from tests.authority import Authority


def der_of(path: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(path.read_text())


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("/C=DE/O=shop/OU=billing/CN=alice", "CN=alice,OU=billing,O=shop,C=DE"),
        ("/DC=org/DC=shop/UID=a1/CN=alice", "CN=alice,UID=a1,DC=shop,DC=org"),
        ("/O=a, b\\+c/CN= x#\\\\", "CN=\\ x\\#\\\\,O=a\\, b\\+c"),
        ("/CN=Jürgen", "CN=Jürgen"),
        # Java knows no keyword for it in this form, and writes the bytes of the value.
        ("/CN=a/emailAddress=a@b.c", "1.2.840.113549.1.9.1=#16056140622e63,CN=a"),
    ],
)
def test_a_distinguished_name_is_written_as_java_does(authority: Authority, subject: str, name: str) -> None:
    issued = authority.certify(f"n{len(subject)}", subject=subject)
    assert certificate_of(der_of(issued.certificate)).subject == name


def test_the_end_of_a_certificate_is_known(authority: Authority) -> None:
    left_s = certificate_of(der_of(authority.certify("end", days=3).certificate)).not_after_s - time.time()
    assert 3 * 86_400 - 120 < left_s <= 3 * 86_400


def test_half_a_certificate_is_none(authority: Authority) -> None:
    der = der_of(authority.certify("half").certificate)
    for size in range(0, len(der) // 2, 7):
        with pytest.raises(ValueError, match="no certificate"):
            certificate_of(der[:size])

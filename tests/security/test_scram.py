"""SCRAM: a password is proved without being sent (RFC 5802, RFC 7677)."""

from __future__ import annotations

from base64 import b64decode, b64encode

import pytest
from kafka.net.sasl.scram import ScramClient

from actors.ground.image import ScramCredential
from actors.security.scram import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ClientFirst,
    ScramError,
    ScramServer,
    is_password,
)
from tests.security.credentials import make_credential

SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
USER = make_credential("user", SCRAM_SHA_256, "pencil", SALT, 4096)
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def exchange() -> ScramServer:
    return ScramServer(USER, ClientFirst(FIRST), SERVER_NONCE)


def test_the_exchange_of_rfc_7677_ends_as_it_does_there() -> None:
    server = exchange()
    assert server.first == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert server.final(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_another_implementation_proves_its_password(mechanism: str) -> None:
    """The other implementation is kafka-python's client; a user's name may have any letter."""
    credential = make_credential("a=b,ä", mechanism, "söcret", b"salt", 4096)
    client = ScramClient("a=3Db=2Cä", "söcret", mechanism)
    first = ClientFirst(client.first_message())
    assert first.user == "a=b,ä"
    server = ScramServer(credential, first, "server-nonce")
    client.process_server_first_message(server.first)
    client.process_server_final_message(server.final(client.final_message()))


@pytest.mark.parametrize(
    "final",
    [
        FINAL.replace(b"p=d", b"p=e"),
        FINAL.replace(b"rOprNGfwEbe", b"rOprNGfwEbf"),
        FINAL.replace(b"c=biws", b"c=eSws"),
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=" + b64encode(b"short"),
        FINAL.replace(b"p=", b"p=?"),
        b"",
        b"\xff",
    ],
)
def test_a_wrong_proof_is_refused(final: bytes) -> None:
    with pytest.raises(ScramError):
        exchange().final(final)


@pytest.mark.parametrize(
    "first",
    [b"", b"n,,n=,r=abc", b"n,,n=user", b"p=tls-unique,,n=user,r=abc", b"n,a=bob,n=user,r=abc",
     b"n,,n=us=er,r=abc", b"n,,n=user,r=", b"\xff"],
)  # fmt: skip
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    with pytest.raises(ScramError):
        ClientFirst(first)


def test_a_credential_recognizes_its_password_and_no_other() -> None:
    assert is_password(USER, "pencil")
    assert not is_password(USER, "pencil2")
    assert b"pencil" not in b"".join(part for part in ScramCredential(*USER) if isinstance(part, bytes))

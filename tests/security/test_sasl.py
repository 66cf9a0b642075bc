"""The two requests of SASL, and how each mistake is answered (KIP-43, KIP-84, KIP-152, KIP-368)."""

from __future__ import annotations

from typing import Any

from kafka.net.sasl.scram import ScramClient

from actors.catalog.headers import parse_header
from actors.network.wire import parse_answer, request_frame
from actors.security.sasl import MECHANISMS, Passwords, SaslExchange, SaslPolicy, Step, refused_again
from actors.security.scram import SCRAM_SHA_256
from tests.security.credentials import make_credential

ALICE = make_credential("alice", SCRAM_SHA_256, "secret", b"salt", 4096)
FAILED, UNSUPPORTED, ILLEGAL = 58, 33, 34


def policy(reauth_ms: int = 0, mechanisms: tuple[str, ...] = MECHANISMS) -> SaslPolicy:
    made = SaslPolicy(mechanisms, reauth_ms, lambda: "nonce", Passwords(b"key"))
    made.credentials = {("alice", SCRAM_SHA_256): ALICE}
    return made


def ask(exchange: SaslExchange, api: str, version: int, **fields: Any) -> tuple[dict[str, Any], Step]:
    frame = request_frame(api, version, 7, "test", fields)[4:]
    step = exchange.on_request(*((parsed := parse_header(frame))[0], frame, parsed[1]))
    return (parse_answer(api, version, step.answer[4:])[1] if step.answer else {}), step


def test_plain_lets_in_who_knows_the_password() -> None:
    exchange = SaslExchange(policy())
    answer, _ = ask(exchange, "sasl_handshake", 1, mechanism="PLAIN")
    assert (answer["error_code"], answer["mechanisms"]) == (0, list(MECHANISMS))
    answer, step = ask(exchange, "sasl_authenticate", 2, auth_bytes=b"\0alice\0secret")
    assert (answer["error_code"], answer["session_lifetime"], step.principal) == (0, 0, "User:alice")


def test_plain_tells_nobody_whether_the_user_or_the_password_is_wrong() -> None:
    told = set()
    for token in (
        b"\0alice\0wrong",
        b"\0nobody\0secret",
        b"\0alice\0",
        b"bob\0alice\0secret",
        b"alice",
        b"\xff",
    ):
        exchange = SaslExchange(policy())
        ask(exchange, "sasl_handshake", 1, mechanism="PLAIN")
        answer, step = ask(exchange, "sasl_authenticate", 2, auth_bytes=token)
        assert answer["error_code"] == FAILED
        assert step.failure
        assert not step.principal
        told.add(answer["error_message"])
    assert len(told) == 1


def test_scram_lets_in_who_proves_the_password() -> None:
    client = ScramClient("alice", "secret", SCRAM_SHA_256)
    exchange = SaslExchange(policy())
    ask(exchange, "sasl_handshake", 1, mechanism=SCRAM_SHA_256)
    answer, step = ask(exchange, "sasl_authenticate", 2, auth_bytes=client.first_message())
    assert not step.principal
    client.process_server_first_message(answer["auth_bytes"])
    answer, step = ask(exchange, "sasl_authenticate", 2, auth_bytes=client.final_message())
    client.process_server_final_message(answer["auth_bytes"])
    assert step.principal == "User:alice"


def test_a_mechanism_that_is_not_enabled_is_refused_with_the_list_of_those_that_are() -> None:
    answer, step = ask(
        SaslExchange(policy(mechanisms=("PLAIN",))), "sasl_handshake", 1, mechanism=SCRAM_SHA_256
    )
    assert (answer["error_code"], answer["mechanisms"]) == (UNSUPPORTED, ["PLAIN"])
    assert step.failure


def test_tokens_come_bare_after_an_old_handshake() -> None:
    exchange = SaslExchange(policy())
    ask(exchange, "sasl_handshake", 0, mechanism="PLAIN")
    assert exchange.expects_bare_token
    step = exchange.on_bare_token(b"\0alice\0secret")
    assert (step.answer, step.principal) == (b"\0\0\0\0", "User:alice")
    exchange = SaslExchange(policy())
    ask(exchange, "sasl_handshake", 0, mechanism="PLAIN")
    step = exchange.on_bare_token(b"\0alice\0wrong")
    assert (step.answer, step.principal) == (b"", "")
    assert step.failure


def test_a_token_before_the_handshake_is_refused() -> None:
    _, step = ask(SaslExchange(policy()), "sasl_authenticate", 2, auth_bytes=b"\0alice\0secret")
    assert step.failure
    assert not step.principal


def test_reauthentication_tells_its_lifetime_and_keeps_the_principal() -> None:
    limited = policy(reauth_ms=60_000)
    limited.credentials = {**limited.credentials, ("bob", SCRAM_SHA_256): ALICE._replace(user="bob")}
    exchange = SaslExchange(limited, before="User:alice")
    ask(exchange, "sasl_handshake", 1, mechanism="PLAIN")
    answer, step = ask(exchange, "sasl_authenticate", 1, auth_bytes=b"\0alice\0secret")
    assert (answer["session_lifetime"], step.principal) == (60_000, "User:alice")
    exchange = SaslExchange(limited, before="User:alice")
    ask(exchange, "sasl_handshake", 1, mechanism="PLAIN")
    answer, step = ask(exchange, "sasl_authenticate", 1, auth_bytes=b"\0bob\0secret")
    assert answer["error_code"] == FAILED
    assert not step.principal


def test_sasl_out_of_place_is_an_illegal_state() -> None:
    frame = request_frame("sasl_handshake", 1, 7, "test", {"mechanism": "PLAIN"})[4:]
    answer = refused_again(parse_header(frame)[0])
    assert answer is not None
    assert parse_answer("sasl_handshake", 1, answer[4:])[1]["error_code"] == ILLEGAL
    frame = request_frame("heartbeat", 0, 7, "t", {"group_id": "", "generation_id": 0, "member_id": ""})[4:]
    assert refused_again(parse_header(frame)[0]) is None


def test_a_right_password_is_remembered_until_the_credential_changes() -> None:
    passwords = Passwords(b"key")
    assert passwords.is_right(ALICE, "secret")
    assert passwords.is_right(ALICE, "secret")
    assert not passwords.is_right(ALICE, "wrong")
    changed = make_credential("alice", SCRAM_SHA_256, "other", b"salt", 4096)
    assert not passwords.is_right(changed, "secret")

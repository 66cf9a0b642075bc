"""The command line's side of SASL against the tier's own (W10)."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from actors.catalog.headers import parse_header
from actors.security.sasl import MECHANISMS, Passwords, SaslExchange, SaslPolicy
from cluster.cli import app
from tests.security.credentials import make_credential

API_VERSIONS = 18
OFFERED = ((API_VERSIONS, 0, 0), (17, 0, 1), (36, 0, 2), (3, 9, 9))
USER, PASSWORD = "bill,i=ng", "p=ä,ss"
ITERATIONS = 4096


class Broker(socketserver.ThreadingTCPServer):
    """Lets a client authenticate, and hangs up at the first request after that."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        scram = [each for each in MECHANISMS if each != "PLAIN"]
        self.policy = SaslPolicy(MECHANISMS, 0, lambda: "server-nonce", Passwords(b"key"))
        self.policy.credentials = {
            (USER, name): make_credential(USER, name, PASSWORD, b"salt" * 4, ITERATIONS) for name in scram
        }
        self.principals: list[str] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(socketserver.StreamRequestHandler):
    server: Broker

    def handle(self) -> None:
        exchange = SaslExchange(self.server.policy)
        while size := self.rfile.read(4):
            frame = self.rfile.read(struct.unpack(">i", size)[0])
            if frame[:2] == struct.pack(">h", API_VERSIONS):
                body = frame[4:8] + struct.pack(">hi", 0, len(OFFERED))
                body += b"".join(struct.pack(">hhh", *row) for row in OFFERED)
                self.wfile.write(struct.pack(">i", len(body)) + body)
                continue
            step = exchange.on_request(*_parsed(frame))
            self.wfile.write(step.answer)
            if step.principal:
                self.server.principals.append(step.principal)
            if step.failure or step.principal:
                return


def _parsed(frame: bytes) -> tuple[Any, bytes, int]:
    header, body_offset = parse_header(frame)
    return header, frame, body_offset


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def said(broker: Broker, directory: Path, mechanism: str, password: str = PASSWORD) -> str:
    file = directory / "client.properties"
    file.write_text(
        f"bootstrap.servers={broker.address}\nsecurity.protocol=sasl_plaintext\n"
        f"sasl.mechanism={mechanism}\nsasl.username={USER}\nsasl.password={password}\n"
    )
    done = CliRunner().invoke(app, ["groups", "list", "--command-config", str(file)])
    assert done.exit_code == 1
    return done.stderr


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_proves_who_it_is(broker: Broker, tmp_path: Path, mechanism: str) -> None:
    assert "hung up instead of answering metadata" in said(broker, tmp_path, mechanism)
    assert broker.principals == [f"User:{USER}"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_by_name(broker: Broker, tmp_path: Path, mechanism: str) -> None:
    text = said(broker, tmp_path, mechanism, "guessed")
    assert text.startswith(f"groupd: user {USER} is refused ({mechanism}): Authentication failed")
    assert broker.principals == []


def test_a_mechanism_that_is_not_enabled_is_named(broker: Broker, tmp_path: Path) -> None:
    broker.policy.mechanisms = ("PLAIN",)
    text = said(broker, tmp_path, "SCRAM-SHA-256")
    assert text == "groupd: SASL mechanism SCRAM-SHA-256 is not enabled there: PLAIN\n"


def test_a_server_that_wants_few_iterations_gets_no_proof(broker: Broker, tmp_path: Path) -> None:
    """Whoever stood between could guess the password by it."""
    name = "SCRAM-SHA-256"
    credential = make_credential(USER, name, PASSWORD, b"salt" * 4, ITERATIONS - 1)
    broker.policy.credentials = {(USER, name): credential}
    assert f"asks for {ITERATIONS - 1} iterations" in said(broker, tmp_path, name)
    assert broker.principals == []

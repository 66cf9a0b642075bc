"""What is told when a tier that is asked over its port cannot be, or is none."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors.protocol.questions import NOT_ALLOWED, TIER_QUESTIONS, Told, pack_answer
from cluster.cli import app

RUNNER = CliRunner()
API_VERSIONS = 18
COMMANDS = [
    ("status",),
    ("metrics",),
    ("explain", "billing"),
    ("top", "--once"),
    ("leaders",),
    ("replicas", "list"),
    ("upgrade", "status"),
    ("backup", "copy"),
]


@contextmanager
def kafka(told: Told | None) -> Iterator[str]:
    """A server that knows ApiVersions, and says this to questions; None: it hangs up, as Kafka does."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                request = self.rfile.read(struct.unpack(">i", size)[0])
                api_key, _, correlation_id = struct.unpack_from(">hhi", request)
                if api_key == API_VERSIONS:
                    self.wfile.write(struct.pack(">iihi", 10, correlation_id, 0, 0))
                elif told is None:
                    return
                else:
                    assert api_key == TIER_QUESTIONS
                    self.wfile.write(pack_answer(correlation_id, told))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{running.server_address[1]}"
        finally:
            running.shutdown()
            thread.join()


def said(*arguments: str) -> str:
    done = RUNNER.invoke(app, arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    return done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_port_that_nobody_listens_on_is_named(command: tuple[str, ...], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    assert f"no Kafka answers at {address}" in said(*command, "--bootstrap", address)


def test_a_kafka_is_told_from_a_tier() -> None:
    with kafka(None) as address:
        text = said("status", "--bootstrap", address)
    assert text.startswith(f"groupd: {address} hangs up when it is asked for its tier: it is no groupd tier")


def test_who_is_not_allowed_is_told_what_it_takes(tmp_path: Path) -> None:
    with kafka(Told(NOT_ALLOWED, "DESCRIBE")) as address:
        text = said("status", "--bootstrap", address)
    assert text.startswith("groupd: user ANONYMOUS may not do that: it needs the operation DESCRIBE on the")


def test_wrong_properties_are_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=quantum\n")
    text = said("status", "--bootstrap", "127.0.0.1:1", "--command-config", str(file))
    assert "security.protocol" in text

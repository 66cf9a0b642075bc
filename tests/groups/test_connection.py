"""What is told when no Kafka answers, or one that cannot do it."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from typer.testing import CliRunner

from cluster.cli import app

RUNNER = CliRunner()
API_VERSIONS = 18
METADATA = 3


@contextmanager
def server(answers: bytes | None) -> Iterator[str]:
    """Takes one request after the other; `answers` goes out once for each, None hangs up."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                self.rfile.read(struct.unpack(">i", size)[0])
                if answers is None:
                    return
                self.wfile.write(answers)

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


def test_a_port_that_nobody_listens_on_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    text = said("groups", "list", "--bootstrap", f"{address},{address}")
    assert text.count(f"no Kafka answers at {address}") == 2


def test_a_server_that_hangs_up_is_no_kafka_of_this_protocol() -> None:
    with server(None) as address:
        text = said("groups", "list", "--bootstrap", address)
    assert text == f"groupd: {address} is no Kafka, or speaks another security.protocol than plaintext\n"


def test_a_kafka_that_is_too_old_is_told_from_one_that_is_away() -> None:
    """The server that is too old offers ApiVersions 0 and Metadata 0 to 1."""
    offered = [(API_VERSIONS, 0, 0), (METADATA, 0, 1)]
    body = struct.pack(">ihi", 1, 0, len(offered)) + b"".join(struct.pack(">hhh", *row) for row in offered)
    with server(struct.pack(">i", len(body)) + body) as address:
        text = said("groups", "list", "--bootstrap", address)
    assert f"{address} offers versions 0 to 1 of metadata; version 9 or later is needed" in text

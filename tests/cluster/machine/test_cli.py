"""`groupd machine` says what is wrong and what to do, and then nothing is made or changed."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster import machine_secret
from cluster.cli import app
from cluster.cli.common import EXIT_FAILED
from cluster.machine import identity
from cluster.ports import free_ports

HOST = "127.0.0.1"


def refused(*arguments: str) -> str:
    """Give a command that fails. Returns its one line."""
    done = CliRunner().invoke(app, ["machine", *arguments])
    assert done.exit_code == EXIT_FAILED, done.output
    lines = done.output.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "is no machine's yet: --head makes the first, --join HOST:PORT another one"),
        (("--head", "--join", "127.0.0.1:1"), "--head makes the first, --join HOST:PORT another one"),
        (("--head",), "--host is missing: this machine's address, as the others reach it"),
        (("--join", "127.0.0.1:1", "--host", HOST), "--secret is missing: the file machine-secret"),
        (("--head", "--host", "192.0.2.1"), "this machine cannot listen on 192.0.2.1:9900"),
        (("--join", "127.0.0.1:1", "--host", HOST, "--secret", "nowhere"), "secret nowhere cannot be read"),
    ],
    ids=["nothing", "both", "no-host", "no-secret", "not-ours", "no-file"],
)
def test_a_new_machine_that_cannot_be(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    assert why in refused("up", *arguments, "--dir", str(tmp_path), *_port(arguments))
    assert identity.read(tmp_path) is None


def _port(arguments: tuple[str, ...]) -> list[str]:
    return [] if "192.0.2.1" in arguments else ["--port", str(free_ports(1))]


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("up", "--head", "--host", HOST, "--port", str(port), "--dir", str(tmp_path))
    assert f"cannot listen on {HOST}:{port}: Address already in use" in said
    assert identity.read(tmp_path) is None


def test_a_directory_that_is_a_machines_stays_its(tmp_path: Path) -> None:
    made = identity.begin(tmp_path, f"{HOST}:9900")
    place = ("--dir", str(tmp_path))
    assert f"is machine {HOST}:9900's already: leave --head out" in refused("up", "--head", *place)
    said = refused("up", "--host", "203.0.113.9", *place)
    assert "this machine cannot listen on 203.0.113.9:9900" in said
    (tmp_path / machine_secret.NAME).unlink()
    assert f"{machine_secret.NAME} cannot be read: No such file" in refused("up", *place)
    assert "cannot be read" in refused("up", "--host", "127.0.0.9", *place)
    assert identity.read(tmp_path) == made


def test_who_asks_a_directory_without_a_machine_is_told_how_to_make_one(tmp_path: Path) -> None:
    assert "is no machine's; `groupd machine up` makes one" in refused("list", "--dir", str(tmp_path))


def test_who_asks_a_machine_that_is_not_up_is_told_so(tmp_path: Path) -> None:
    address = f"{HOST}:{free_ports(1)}"
    identity.begin(tmp_path, address)
    assert f"machine {address} does not answer" in refused("list", "--dir", str(tmp_path))


def test_the_secret_is_for_its_owner_only(tmp_path: Path) -> None:
    head, other = tmp_path / "head", tmp_path / "other"
    head.mkdir()
    other.mkdir()
    identity.begin(head, f"{HOST}:9900")
    machine_secret.take(other, head / machine_secret.NAME)
    assert machine_secret.read(other) == machine_secret.read(head)
    assert [(each / machine_secret.NAME).stat().st_mode & 0o077 for each in (head, other)] == [0, 0]

"""What `groupd attach` says before it has asked anybody, and how its plan looks on a terminal and in a
pipe."""

from __future__ import annotations

import io

import pytest
from typer.testing import CliRunner

from actors.upstream.image import Broker
from cluster.attaching.facts import Wishes
from cluster.attaching.plan import planned
from cluster.cli import app, attach
from cluster.cli.tables import Console
from cluster.ports import free_ports
from tests.cluster.attaching.clusters import FEATURES, facts, of_a_tier

ASKED = ("--bootstrap", "127.0.0.1:1", "--controllers", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--plan", *ASKED[2:]), "name brokers of the cluster with --bootstrap"),
        (("--plan", *ASKED[:2]), "name its controllers with --controllers"),
        (
            ("--plan", *ASKED, "--listeners", "PLAINTEXT"),
            "--listeners PLAINTEXT: NAME://HOST:PORT is expected",
        ),
        (("--plan", "--bootstrap", "here", "--controllers", "there:1"), "here: host:port is expected"),
        (("--plan", *ASKED[:2], "--controllers", "there"), "--controllers there: host:port is expected"),
        (("--plan", *ASKED, "--command-config", "/no/such/file"), "cannot be read"),
    ],
)
def test_what_is_said_without_a_cluster(arguments: tuple[str, ...], words: str) -> None:
    result = CliRunner().invoke(app, ["attach", *arguments])
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_cluster_that_does_not_answer() -> None:
    arguments = ("--bootstrap", f"127.0.0.1:{free_ports(1)}", *ASKED[2:])
    result = CliRunner().invoke(app, ["attach", "--plan", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no Kafka answers at 127.0.0.1:" in result.stderr


def shown(monkeypatch: pytest.MonkeyPatch, width: int | None) -> str:
    """A plan with obstacles as it is printed, on a terminal so wide or in a pipe."""
    out = io.StringIO()
    terminal = {} if width is None else {"force_terminal": True, "width": width, "color_system": None}
    monkeypatch.setattr(attach, "console", Console(file=out, **terminal))
    seen = facts(of_a_tier(2001, says_so=False), features={**FEATURES, "metadata.version": 21})
    attach.show(planned(seen, Wishes()))
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 160])
def test_no_line_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    text = shown(monkeypatch, width)
    assert [line for line in text.splitlines() if len(line) > width] == []
    assert "What stands in the way" in text
    assert "metadata-version" in text


def test_an_obstacle_is_a_line_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, None).splitlines()
    (blocking,) = [line for line in lines if line.startswith("blocks")]
    assert "metadata-version" in blocking
    assert "kafka-features.sh upgrade" in blocking
    (warning,) = [line for line in lines if line.startswith("warns")]
    assert "Broker 2001 has all log directories cordoned" in warning
    assert lines[-1] == "1 thing blocks. 1 thing to know."


def test_a_broker_without_directories_is_not_cordoned() -> None:
    """Before metadata.version 3.7 registrations have none."""
    nobody = Broker(1, 1, b"", (), (), None, False, False, (), ())
    assert not nobody.is_cordoned

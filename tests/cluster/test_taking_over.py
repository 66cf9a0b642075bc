"""What a command makes of the tier's words about a take-over."""

from __future__ import annotations

import io

import pytest

from actors.ground.upstream_goal import ABORTED, ATTACHED, DETACHED, GOAL_NAMES, PAUSED
from actors.upstream.joining import ATTACHED as SERVED
from actors.upstream.joining import GIVING_BACK, JOINING, TAKING, WAITING
from actors.upstream.levels import feature_levels
from cluster.cli import attach_progress
from cluster.cli.tables import Console
from cluster.taking_over import Row, TakeOverState, Upstream, begins, left_s
from cluster.tier_file import TierError

UPSTREAM = Upstream("cluster", "kafka:9092", "kafka:9093", ("PLAINTEXT",), "PLAINTEXT", has_authorizer=False)
NODES = {1001: "running", 1002: "running", 1003: "fenced"}


def state(goal: int, *phases: str, problem: str | None = None) -> TakeOverState:
    rows = tuple(
        Row(index, phase, 1, 1_000 * index, 0, problem if phase == JOINING else None)
        for index, phase in enumerate(phases)
    )
    return TakeOverState(UPSTREAM, goal, None, rows, NODES)


@pytest.mark.parametrize(
    ("goal", "phases", "is_over"),
    [
        (DETACHED, (), True),
        (ATTACHED, (), False),
        (ATTACHED, (SERVED, SERVED), True),
        (ATTACHED, (SERVED, WAITING), False),
        (ATTACHED, (SERVED, TAKING), False),
        (PAUSED, (SERVED, WAITING), True),
        (PAUSED, (SERVED, JOINING), False),
        (ABORTED, (SERVED, WAITING), True),
        (ABORTED, (SERVED, GIVING_BACK), False),
        (ABORTED, (WAITING, WAITING), False),
    ],
)
def test_a_command_waits_until_nothing_is_left_to_do(
    goal: int, phases: tuple[str, ...], is_over: bool
) -> None:
    assert state(goal, *phases).is_over is is_over


def test_a_line_says_how_far_it_is_and_what_is_wrong() -> None:
    told = state(ATTACHED, SERVED, JOINING, WAITING, problem="no answer")
    assert told.in_words() == (
        "attached: 1 of 3 partitions served, 3,000 records taken; 1 is joining (no answer)"
    )


@pytest.mark.parametrize("goal", [PAUSED, ABORTED])
def test_what_was_interrupted_is_resumed_by_its_own_command(goal: int) -> None:
    with pytest.raises(TierError, match=f"{GOAL_NAMES[goal]}: `groupd attach resume`"):
        begins(state(goal))
    assert begins(state(DETACHED))
    assert not begins(state(ATTACHED))


def test_the_rest_takes_as_long_as_what_was_done() -> None:
    assert left_s(0, 4, 10.0) is None
    assert left_s(1, 4, 10.0) == 30.0
    assert left_s(4, 4, 10.0) == 0.0


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_a_bar_or_lines(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=is_terminal, width=120, color_system=None)
    monkeypatch.setattr(attach_progress, "console", console)
    with attach_progress.progress(silent=False) as show:
        for told in (state(ATTACHED, JOINING, WAITING), state(ATTACHED, SERVED, SERVED)):
            show(told)
            show(told)
    lines = capsys.readouterr().out.splitlines()
    if is_terminal:
        assert "2/2" in out.getvalue()
        assert lines == []
    else:
        assert lines == [
            "attached: 0 of 2 partitions served, 1,000 records taken; 0 is joining",
            "attached: 2 of 2 partitions served, 1,000 records taken",
        ]


def test_a_state_is_shown_as_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = io.StringIO()
    monkeypatch.setattr(attach_progress, "console", Console(file=out, width=120))
    levels = feature_levels({"transaction.version": 1}, {})
    attach_progress.show_state(state(PAUSED, SERVED, WAITING)._replace(features=levels))
    said = capsys.readouterr().out
    assert "Cluster cluster: paused. Nodes as brokers: 1001 running, 1002 running, 1003 fenced." in said
    assert "  transaction.version: level 1, understood from level 0 to level 2" in said.splitlines()
    assert ["1", "waiting", "1", "1,000", "0"] in [line.split() for line in out.getvalue().splitlines()]

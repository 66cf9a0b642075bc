"""Two releases in one tier of three machines: forward, back and forward again while a swarm works on it; then
the level is finalized, and a machine that goes back is refused by name."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.ground.release import LEVEL_MAX, RELEASE
from bench.chaos.targets.machine_site import MachineSite
from cluster import child_process
from tests.machines import next_release
from tests.polling import until

pytestmark = [pytest.mark.machines, pytest.mark.timeout(900)]

BACK_S = 180.0
SWARM_S = 840.0
"""Longer than the story: the swarm is ended when it is told."""
NEXT = LEVEL_MAX + 1


def test_a_tier_is_upgraded_and_taken_back_while_it_serves(site: MachineSite, tmp_path: Path) -> None:
    packages = next_release.make(site.data_dir.parents[1] / "next")
    first, second, third = site.machines.all
    assert upgrade(site, "status")["level"] == LEVEL_MAX
    with swarm(site, tmp_path):
        exchange(site, first, packages)
        assert releases(site) == {RELEASE, next_release.NUMBER}
        assert upgrade(site, "status")["possible"] == LEVEL_MAX
        said = refused(site, "finalize", "--level", str(NEXT))
        assert f"has groupd {RELEASE}, which serves levels 1 to {LEVEL_MAX}" in said

        exchange(site, first, None)
        assert releases(site) == {RELEASE}

        for machine in (first, second, third):
            exchange(site, machine, packages)
        assert upgrade(site, "status")["possible"] == NEXT
        assert upgrade(site, "status")["level"] == LEVEL_MAX
        exchange(site, second, None)
        exchange(site, second, packages)
        assert upgrade(site, "finalize") == {"before": LEVEL_MAX, "level": NEXT}

        site.machines.exchange(third, None)
        until(lambda: has_refused(site, third.number), "the older release is refused by name", BACK_S)
        exchange(site, third, packages)
    assert upgrade(site, "status")["level"] == NEXT


def exchange(site: MachineSite, machine: Any, packages: Path | None) -> None:
    """Give a machine another release, and wait until the tier is whole."""
    site.machines.exchange(machine, packages)
    site.wait_until_whole(BACK_S)


def has_refused(site: MachineSite, node_id: int) -> bool:
    """Return whether every actor of a node says that its release is too old for the tier."""
    done = command(site, "status")
    if not done.stdout.startswith("{"):
        return False
    problems = [each["problem"] for each in json.loads(done.stdout)["actors"] if each["node_id"] == node_id]
    wanted = f"groupd {RELEASE} here serves levels 1 to {LEVEL_MAX}: install the release"
    return bool(problems) and all(problem is not None and wanted in problem for problem in problems)


def releases(site: MachineSite) -> set[str]:
    return {each["release"] for each in upgrade(site, "status")["actors"]}


def upgrade(site: MachineSite, *arguments: str) -> Any:
    done = command(site, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def refused(site: MachineSite, *arguments: str) -> str:
    done = command(site, *arguments)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stderr


def command(site: MachineSite, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `groupd upgrade` as the operator, who has this release."""
    line = child_process.python(
        "cluster.cli", "upgrade", *arguments, "--data-dir", str(site.data_dir), "--json"
    )
    return subprocess.run(line, capture_output=True, text=True, env=child_process.environment(), timeout=120)


@contextmanager
def swarm(site: MachineSite, directory: Path) -> Iterator[None]:
    """Let a swarm work on the tier, and have its judge find no promise broken."""
    line = child_process.python(
        *("cluster.cli", "swarm", "run", "steady", "--bootstrap", site.bootstrap, "--seed", "1"),
        *("--groups", "4", "--members", "12", "--seconds", str(SWARM_S), "--out", str(directory / "swarm")),
        *("--no-cleanup", "--least-answered", "0.1"),
    )
    output = directory / "swarm.log"
    with output.open("w") as log:
        running = subprocess.Popen(line, stdout=log, stderr=log, env=child_process.environment())
    try:
        until(lambda: (directory / "swarm").exists() and running.poll() is None, "the swarm begins", BACK_S)
        yield
        assert running.poll() is None, "the swarm has worked all the time"
        running.send_signal(signal.SIGINT)
        code = running.wait(BACK_S)
        assert code == 0, output.read_text()[-4_000:]
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()

"""A long story on machines: a swarm works through all of its steps, and the record says what each step cost.

What the judge is told is only what was done to machines: steps that an operator plans excuse nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.chaos import table
from bench.chaos.availability import Availability, availability
from bench.chaos.part import FAULTS_FILE
from bench.chaos.swarm_process import SwarmProcess
from bench.chaos.targets.machine_site import PORT, MachineSite
from bench.swarm.counted.figures import Figures
from bench.swarm.counted.life import Loss
from bench.swarm.told.report import Addition, report
from storage.history.call_files import CallWriter
from storage.history.calls import Fault, History
from storage.history.judge.findings import KEPT
from storage.history.judge.verdict import Verdict
from tests.machines.operator import copies, groupd, let_pass, look, nodes, status

SCENARIO = Path(__file__).with_name("growing.toml")
GROUPS = 28
"""How many groups the scenario has."""
BACK_S = 240.0
"""How long the tier may take for any step."""
QUIET_S = 25.0
"""How long groups go on after what was done: whether they have recovered is judged after 15 s of quiet."""
HEADINGS = ("step", "took s", *(name for name, _ in table.HEADINGS[2:]))


class Told(NamedTuple):
    """What the record of a story says."""

    verdict: Verdict
    found: Availability
    """What each step did to the groups."""
    losses: tuple[Loss, ...]
    rows: list[tuple[str, ...]]
    """The cells of a table: a row for each step, under HEADINGS."""

    def as_markdown(self) -> str:
        lines = [HEADINGS, ("---",) * len(HEADINGS), *self.rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


class LongStory:
    """A story with a swarm. Use as a context manager; `told` ends the swarm."""

    def __init__(self, site: MachineSite, bootstrap: str, directory: Path) -> None:
        self.site = site
        self.steps: list[Fault] = []
        self.faults: list[Fault] = []
        arguments = [str(SCENARIO), "--bootstrap", bootstrap, "--seed", "1", "--no-report", "--no-cleanup"]
        self._swarm = SwarmProcess(directory / "swarm", arguments)
        self._run_id = ""

    def __enter__(self) -> LongStory:
        try:
            self._run_id = self._swarm.wait_until_begun()
        except BaseException:
            self._swarm.stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._swarm.stop()

    def begin(self) -> None:
        """Wait until every group is stable, and let the groups go on for a while."""
        with self.step("the groups come"):
            look(lambda: groups(self.site, "Stable") == GROUPS, "every group is stable", BACK_S)
            let_pass(QUIET_S)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Play one step, and write down when that was."""
        began_us = now_us()
        yield
        self.steps.append(Fault(name, "", began_us, now_us()))
        print(f"{name}: {(now_us() - began_us) / 1e6:.1f} s", flush=True)
        assert self._swarm.is_running, f"the swarm ended: {self._swarm.last_words()}"

    @contextmanager
    def fault(self, kind: str, target: str) -> Iterator[None]:
        """Have something happen to machines that the judge is to know of. It lasts until the tier is seen to
        have got over it."""
        began_us = now_us()
        yield
        self.faults.append(Fault(kind, target, began_us, now_us(), silences=True))

    def told(self) -> Told:
        """End the swarm, and return what its record says."""
        with CallWriter(self._swarm.directory / FAULTS_FILE, self._run_id) as writer:
            for fault in self.faults:
                writer.write(fault)
            writer.end(now_us())
        self._swarm.stop()
        found: list[tuple[Availability, Figures]] = []

        def more(history: History, figures: Figures) -> Addition:
            steps = history._replace(faults=tuple(self.steps))
            found.append((availability(steps, figures), figures))
            return Addition()

        outcome = report(self._swarm.directory, more=more)
        [(by_step, figures)] = found
        return Told(outcome.verdict, by_step, tuple(figures.losses), self._rows(by_step))

    def _rows(self, found: Availability) -> list[tuple[str, ...]]:
        by_kind = {row.kind: table.cells(row) for row in table.rows([found])}
        rows = []
        for step in self.steps:
            name, _, *rest = by_kind[step.kind]
            rows.append((name, f"{(step.ended_us - step.began_us) / 1e6:.0f}", *rest))
        return rows


def check(told: Told, failovers: Collection[str]) -> None:
    """Check that every promise was kept, that no group rebalanced and nobody lost a membership but in steps
    that are failovers, and that whoever lost service has it again. Print what each step cost."""
    print(told.as_markdown(), told.verdict.summary, sep="\n", flush=True)
    assert told.verdict.status == KEPT, told.verdict.summary
    for harm in told.found.harms:
        assert not harm.never, harm
        assert harm.kind in failovers or not (harm.members_lost or harm.rebalances), harm
    lost = sum(harm.members_lost for harm in told.found.harms)
    assert len(told.losses) == lost, "nobody was lost before the first step"


def now_us() -> int:
    return time.monotonic_ns() // 1_000


def groups(site: MachineSite, state: str) -> int:
    """How many groups are in a state, as `groupd status` shows it."""
    return sum(partition["groups"].get(state, 0) for partition in status(site)["partitions"])


def add_machine(site: MachineSite) -> int:
    """Let another machine join, and the tier have a node there. Return the node's id."""
    machine = site.machines.add()
    added = json.loads(groupd(site, "nodes", "add", "--machine", f"{machine.host}:{PORT}", "--json"))
    return int(added["node_id"])


def wait_until_even(site: MachineSite, node_ids: set[int]) -> None:
    """Wait until these are the nodes, the tier is whole, and each has its share of copies and of leaders."""
    seen: dict[int, dict[str, Any]] = {}

    def even() -> bool:
        seen.clear()
        seen.update(nodes(site))
        held, led = ([row[key] for row in seen.values()] for key in ("replicas", "leads"))
        # A replica of the controller costs next to nothing: nobody moves one to make numbers even.
        is_even = max(held) - min(held) <= 2 and max(led) - min(led) <= 1
        return set(seen) == node_ids and is_even and bool(status(site)["healthy"])

    try:
        look(even, f"nodes {node_ids} share the work", BACK_S)
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}, {site.complaints()}") from None


def check_whole_start(site: MachineSite, node_ids: set[int], partitions: int) -> None:
    """Check that the next start has the nodes, copies and partitions of now, whatever is known of them
    where it is given, and that a machine that is away meanwhile comes into it."""
    assert len(status(site)["partitions"]) == partitions
    *_, at, last = site.machines.all
    last.lose_power()
    groupd(site, "down", fine=(0, 1))  # it says that the machine which is away may still run its part
    groupd(site, "up", "--detach", "--machine", f"{at.host}:{PORT}")
    site.machines.boot_again(last)
    wait_until_even(site, node_ids)
    assert copies(site) == {3}
    found = status(site)["partitions"]
    assert len(found) == partitions
    assert sum(sum(partition["groups"].values()) for partition in found) >= GROUPS


def wait_until_split_is_over(site: MachineSite) -> None:
    look(lambda: "A split runs" not in groupd(site, "partitions", "list"), "the split is over", BACK_S)

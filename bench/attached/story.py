"""The story: a tier takes the groups of a real Kafka over, both are broken and upgraded, and it gives them
back; as often as is wanted, while real consumers work."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from bench.attached import site as sites
from bench.attached.crews import CONFIGURATIONS, TRANSACTIONS, Crew, shares, started
from bench.attached.judge import STABLE, Evidence, Standing, Step, caught_up_s, findings, longest_gap_s
from bench.attached.site import Ground, Site
from bench.attached.writing import Writing
from bench.chaos.targets.target import until
from bench.ground.throwaway import Tier
from bench.peers.kafka_nodes import KafkaNodes

TOPIC: Final = "numbers"
COPIES: Final = "copies"
PARTITIONS_MAX: Final = 30
PARTITIONS_OF_COPIES: Final = 3
START_TIMEOUT_S: Final = 300.0
FETCH_WAIT_MS: Final = 500
"""What Kafka's own client does unasked; the programs would ask the brokers more often."""
LEADER, NODE, BROKER, CONTROLLER, RESTARTS = "leader", "node", "broker", "controller", "restarts"
Say = Callable[[str], None]
Look = Callable[[Site, list[str]], Mapping[str, Standing]]
"""What reads what the cluster says of groups."""


class Plan(NamedTuple):
    """What is to be done."""

    consumers: int = 28
    rounds: int = 2
    per_second: float = 20.0
    """Records."""
    deadline_s: float = 120.0
    kafka_home: Path | None = None
    keep: Path | None = None
    """Where the consumers' record stays; None: nowhere."""
    blows: tuple[str, ...] = (LEADER, BROKER, CONTROLLER, RESTARTS)
    """What is done while the tier is attached."""


class Row(NamedTuple):
    """What became of a step."""

    step: str
    what: str
    took_s: float
    slowest_s: float | None
    """How long after it the last group had committed all that was there; None: one of them never did."""
    gap_s: float
    """The longest time in which a group had no commit acknowledged, until all had caught up."""
    gap_group: str
    """The group that had it."""


class Result(NamedTuple):
    """What came of a story."""

    rows: list[Row]
    findings: list[str]
    software: str
    consumers: Mapping[str, int]
    records: int
    commits: int
    seconds: float


def run(plan: Plan, say: Say, look: Look = Site.standing, ground: Ground | None = None) -> Result:
    """Play the story and judge it; `look` reads in the end what the cluster says of the groups. Raises
    CannotRun, TimeoutError if the cluster or the tier does not come to rest, and RuntimeError with their
    words."""
    ground = ground or Ground()
    began = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="groupd-attached-"))
    try:
        with ExitStack() as stack:
            say("starting three brokers and three controllers")
            nodes = stack.enter_context(sites.kafka(plan.kafka_home, ground))
            say("starting a tier of three nodes in front of them")
            tier = stack.enter_context(sites.in_front_of(nodes, *ground.tier_flags()))
            story = _Story(plan, Site(nodes, tier, ground), directory, say)
            stack.callback(story.close)
            stack.callback(_keep_logs, nodes, tier, directory)
            result = story.play(look)
            return result._replace(software=sites.software_of(nodes), seconds=time.monotonic() - began)
    finally:
        if plan.keep is not None:
            shutil.copytree(directory, plan.keep, dirs_exist_ok=True)
        shutil.rmtree(directory, ignore_errors=True)


def _keep_logs(nodes: KafkaNodes, tier: Tier, directory: Path) -> None:
    """Put what Kafka and the tier have logged beside the consumers' record."""
    for number in nodes.all_numbers:
        (directory / f"kafka-{number}.log").write_text(nodes.words(number))
    for log in tier.data_dir.rglob("*.log"):
        shutil.copy(log, directory / f"tier-{'-'.join(log.relative_to(tier.data_dir).parts)}")


class _Story:
    """A story under way."""

    def __init__(self, plan: Plan, site: Site, directory: Path, say: Say) -> None:
        self._plan = plan
        self._site = site
        self._directory = directory
        self._say = say
        self._shares = {group: count for group, count in shares(plan.consumers).items() if count}
        self._partitions = min(PARTITIONS_MAX, max(self._shares.values()))
        self._crews: list[Crew] = []
        self._steps: list[tuple[Step, str]] = []

    def play(self, look: Look) -> Result:
        site, plan = self._site, self._plan
        site.create({TOPIC: self._partitions, COPIES: PARTITIONS_OF_COPIES})
        with Writing(site.client, TOPIC, self._partitions, plan.per_second) as writing:
            with self._step(writing, f"{plan.consumers} consumers join") as told:
                self._start()
                told.append(f"{len(self._crews)} groups")
                until(
                    lambda: all(self._begun(crew) for crew in self._crews), "all groups work", START_TIMEOUT_S
                )
            for number in range(plan.rounds):
                self._round(writing, number)
            writing.stop()
            with self._step(writing, "the end"):
                pass
            evidence = self._evidence(writing, look)
            found = [*(f"producer: {words}" for words in writing.errors), *findings(evidence)]
        rows = [self._row(step, what, evidence) for step, what in self._steps]
        commits = sum(event["event"] == "committed" for told in evidence.told.values() for event in told)
        return Result(rows, found, "", self._shares, sum(evidence.produced.values()), commits, 0.0)

    def _round(self, writing: Writing, number: int) -> None:
        """Attach, break, upgrade, detach."""
        site, name = self._site, f"round {number + 1}: " if self._plan.rounds > 1 else ""
        with self._step(writing, f"{name}attach") as told:
            told.append(site.tier.run("attach").strip().splitlines()[-1])
            site.wait_until_whole()
            site.check_taken_over(list(self._shares))
        blows: Mapping[str, tuple[str, Callable[[], str]]] = {
            LEADER: ("a leader of the tier is killed", lambda: site.kill_tier_leader(number)),
            NODE: ("a node of the tier is killed", lambda: site.kill_tier_node(number)),
            BROKER: ("a broker is killed", lambda: site.kill_broker(number)),
            CONTROLLER: ("the active controller is killed", site.kill_controller),
            RESTARTS: ("rolling restart of Kafka", lambda: site.restart_each(self._say)),
        }
        for what, strike in map(blows.__getitem__, self._plan.blows):
            with self._step(writing, f"{name}{what}") as told:
                told.append(strike())
        with self._step(writing, f"{name}detach") as told:
            told.append(site.tier.run("detach").strip().splitlines()[-1])
            site.wait_until_whole()

    @contextmanager
    def _step(self, writing: Writing, name: str) -> Iterator[list[str]]:
        """Do something, then wait until every group has committed all that was there when it had ended. Who
        does not within the deadline is found by the judge."""
        self._say(name)
        told: list[str] = []
        began = time.time()
        yield told
        step = Step(name, began * 1_000, time.time() * 1_000, writing.acknowledged())
        self._steps.append((step, "; ".join(told)))
        try:
            until(
                lambda: all(crew.has_committed(step.produced) for crew in self._crews),
                "all groups have caught up",
                self._plan.deadline_s,
            )
        except TimeoutError:
            late = [crew.group for crew in self._crews if not crew.has_committed(step.produced)]
            self._say(f"not caught up within {self._plan.deadline_s:.0f} s: {', '.join(late)}")
        else:
            later_s = time.time() - step.ended_ms / 1_000
            what = f" ({'; '.join(told)})" if told else ""
            self._say(f"{name}{what}: {step.took_s:.1f} s, all caught up {later_s:.1f} s later")

    def _start(self) -> None:
        settings = {
            "bootstrap.servers": self._site.bootstrap,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "fetch.max.wait.ms": FETCH_WAIT_MS,
            "topic": TOPIC,
            "output.topic": COPIES,
        }
        for group, members in self._shares.items():
            login = self._site.ground.login(CONFIGURATIONS[group].program)
            place = self._directory, self._plan.kafka_home
            self._crews.append(started(group, members, {**settings, **login}, *place))

    def _begun(self, crew: Crew) -> bool:
        if not crew.runs:
            words = crew.complaints.read_text(errors="replace")[-1_000:]
            raise RuntimeError(f"the consumers of {crew.group} have ended: {words}")
        return len(crew.acknowledged()) == self._partitions

    def _evidence(self, writing: Writing, look: Look) -> Evidence:
        standing = self._standing(look)
        self.close()
        copies = {TRANSACTIONS: self._site.copies(COPIES)} if TRANSACTIONS in self._shares else {}
        return Evidence(
            produced=writing.acknowledged(),
            told={crew.group: crew.told() for crew in self._crews},
            standing=standing,
            steps=[step for step, _ in self._steps],
            copied=copies,
            deadline_s=self._plan.deadline_s,
        )

    def _standing(self, look: Look) -> Mapping[str, Standing]:
        """Look at the groups, again if one of them just rebalances: what it needs for that is time, and no
        hand."""
        found: Mapping[str, Standing] = {}

        def all_stable() -> bool:
            nonlocal found
            found = look(self._site, list(self._shares))
            return all(each.state.lower() == STABLE for each in found.values())

        with suppress(TimeoutError):
            until(all_stable, "all groups are stable", self._plan.deadline_s)
        return found

    def _row(self, step: Step, what: str, evidence: Evidence) -> Row:
        late = [caught_up_s(step, told) for told in evidence.told.values()]
        known = [seconds for seconds in late if seconds is not None]
        slowest = max(known, default=0.0) if len(known) == len(late) else None
        until_ms = step.ended_ms + 1_000 * (self._plan.deadline_s if slowest is None else slowest)
        gaps = {group: longest_gap_s(told, step.began_ms, until_ms) for group, told in evidence.told.items()}
        longest = max(gaps, key=gaps.__getitem__)
        return Row(step.name, what, step.took_s, slowest, gaps[longest], longest)

    def close(self) -> None:
        """End all consumers."""
        for crew in self._crews:
            crew.end_input()
        for crew in self._crews:
            crew.close()

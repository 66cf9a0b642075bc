"""A scenario file: which groups with which members, what happens to them, for how long.

PURE but for reading the file. Every fault is a BadScenario with file, line, key and what is allowed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from heapq import merge
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, Field, ValidationError, field_validator

from bench.member.assigning import CLASSIC_RANGE
from bench.swarm.planning import scenario_errors, schedule
from bench.swarm.planning.clients import CLIENTS
from bench.swarm.planning.plan import CONSUMER, PROTOCOLS, Plan
from bench.swarm.planning.scenario_errors import BadScenario as BadScenario
from bench.swarm.planning.shape import Count, Disturbance, everybody
from bench.swarm.planning.tables import (
    PARTITIONS_MAX,
    GroupsTable,
    RecordsTable,
    Table,
    ThresholdsTable,
    TopicsTable,
)
from storage.history.judge.findings import LEAST_ANSWERED

READY: Final = Path(__file__).parents[1] / "scenarios"
"""The files that come with groupd."""
MEMBERS_MAX: Final = 200_000
"""How many members a plan may have: it is held in memory, and sent to every worker."""


class Changes(NamedTuple):
    """What is changed in a scenario for one run; None: it stays as it is."""

    duration_s: float | None = None
    protocol: str | None = None
    """The protocol of all groups."""
    client: str | None = None
    """The client software of all members."""
    members_per_connection: int | None = None
    commit_interval_ms: int | None = None
    """The time between two commits of those members that commit."""
    least_answered: float | None = None
    """The share of the due requests that have to be answered."""


class Scenario(Table):
    """What a scenario's file says. Without a `name` it has the file's."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$")]
    about: str = ""
    duration_s: Annotated[float, Field(ge=1, le=7 * 86_400)]
    members_per_connection: Count = 1
    thresholds: ThresholdsTable = {}  # noqa: RUF012 (pydantic copies it)
    """The limits of the run's figures, by figure."""
    least_answered: Annotated[float, Field(ge=0, le=1)] = LEAST_ANSWERED
    """The share of due requests that have to be answered, or the run shows nothing."""
    groups: Annotated[tuple[GroupsTable, ...], Field(min_length=1)]

    @field_validator("groups")
    @classmethod
    def _differ(cls, groups: tuple[GroupsTable, ...]) -> tuple[GroupsTable, ...]:
        names = [table.name for table in groups]
        if len(set(names)) < len(names):
            raise ValueError("each [[groups]] needs a name of its own")
        return groups

    @property
    def members(self) -> int:
        return sum(table.count * table.members for table in self.groups)

    def plan(self, seed: int, prefix: str = "") -> Plan:
        """Make the plan, which is the same for the same seed. `prefix` begins all names of groups, members
        and topics, for a Kafka that remembers an earlier run's. Raises BadScenario."""
        self._check_whole()
        stages = [schedule.stage_of(table, prefix, self.duration_s) for table in self.groups]
        actions = (
            schedule.actions(stage, table.shapes, f"{seed}/{table.name}")
            for table, stage in zip(self.groups, stages, strict=True)
        )
        return Plan(
            scenario=self.name,
            seed=seed,
            duration_s=self.duration_s,
            topics=tuple(topic for stage in stages for topic in stage.topics),
            members=tuple(member for stage in stages for member in everybody(stage.groups)),
            actions=tuple(merge(*actions, key=lambda action: action.at_s)),
            members_per_connection=self.members_per_connection,
            producers=tuple(producer for stage in stages for producer in stage.producers),
            thresholds=tuple(self.thresholds.values()),
            least_answered=self.least_answered,
        )

    def scaled(self, *, groups: int | None = None, members: int | None = None) -> Scenario:
        """Scale the scenario to so many groups, and so many members in all of them, as near as it goes:
        tables keep their proportions. Members alone make more groups or larger ones, as `scales` says."""
        by_groups = 1.0 if groups is None else groups / sum(table.count for table in self.groups)
        scenario = self._with(groups=tuple(_more(table, by_groups) for table in self.groups))
        if members is None:
            return scenario
        factor = members / scenario.members
        return scenario._with(
            groups=tuple(
                (_larger if table.scales == "members" or groups is not None else _more)(table, factor)
                for table in scenario.groups
            )
        )

    def changed(self, changes: Changes) -> Scenario:
        """The scenario with these changes. Raises BadScenario."""
        protocol, client, commit_interval_ms = changes.protocol, changes.client, changes.commit_interval_ms
        tables = self.groups
        if protocol is not None and protocol not in PROTOCOLS:
            hint = scenario_errors.hint(protocol, PROTOCOLS)
            raise BadScenario(f"{protocol}: there is no such protocol; {hint}")
        if protocol is not None:
            tables = tuple(table.model_copy(update={"protocols": {protocol: 1.0}}) for table in tables)
        if client is not None and client not in CLIENTS:
            raise BadScenario(f"{client}: there is no such client; {scenario_errors.hint(client, CLIENTS)}")
        if client is not None:
            tables = tuple(table.model_copy(update={"client": client}) for table in tables)
        if commit_interval_ms is not None:
            tables = tuple(
                table.model_copy(update={"commit_interval_ms": commit_interval_ms})
                if table.commit_interval_ms
                else table
                for table in tables
            )
        return self._with(
            groups=tables,
            duration_s=changes.duration_s or self.duration_s,
            members_per_connection=changes.members_per_connection or self.members_per_connection,
            least_answered=self.least_answered if changes.least_answered is None else changes.least_answered,
        )

    def _with(self, **fields: Any) -> Scenario:
        return self.model_copy(update=fields)

    def _check_whole(self) -> None:
        """Check what depends on several keys. Raises BadScenario."""
        if self.members > MEMBERS_MAX:
            raise BadScenario(f"{self.name}: {self.members:,} members; {MEMBERS_MAX:,} at most are allowed")
        for table in self.groups:
            if CONSUMER in table.protocols and not CLIENTS[table.client].speaks_consumer:
                raise BadScenario(
                    f"{self.name}: {table.name}: {table.client} does not speak the consumer protocol; "
                    f"choose another, as --protocol {CLASSIC_RANGE}"
                )
            if table.records is not None and table.records.fetch and not table.commit_interval_ms:
                raise BadScenario(f"{self.name}: {table.name}: who fetches commits, too: commit_interval_ms")
            for shape in table.shapes:
                if isinstance(shape, Disturbance) and shape.begin_s >= self.duration_s:
                    raise BadScenario(
                        f"{self.name}: {shape.shape} begins after {shape.begin_s:g} s, and the run ends "
                        f"after {self.duration_s:g} s: let it last longer, or the shape begin earlier"
                    )


TABLES: Final[Mapping[tuple[str, ...], type[BaseModel]]] = MappingProxyType(
    {
        (): Scenario,
        ("groups",): GroupsTable,
        ("groups", "topics"): TopicsTable,
        ("groups", "records"): RecordsTable,
    }
)


def names() -> list[str]:
    """The names of the scenarios that come with groupd."""
    return sorted(file.stem for file in READY.glob("*.toml"))


def load(path_or_name: str) -> Scenario:
    """Load a file, or a scenario that comes with groupd. Raises BadScenario."""
    return parse(read(path_or_name), path_or_name)


def read(path_or_name: str) -> str:
    """The text of a scenario. Raises BadScenario."""
    file = Path(path_or_name)
    if file.suffix != ".toml" and len(file.parts) == 1:
        if path_or_name not in names():
            hint = scenario_errors.hint(path_or_name, names())
            raise BadScenario(f"{path_or_name}: there is no such scenario; {hint}, or a .toml file")
        file = READY / f"{path_or_name}.toml"
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadScenario(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def parse(text: str, path_or_name: str) -> Scenario:
    """Read a file's text. Raises BadScenario."""
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadScenario(scenario_errors.no_toml(path_or_name, str(error))) from None
    try:
        return Scenario.model_validate({"name": Path(path_or_name).stem, **said})
    except ValidationError as error:
        raise BadScenario(scenario_errors.words(path_or_name, text, said, error, TABLES)) from None


def _times(count: int, factor: float) -> int:
    return max(1, round(count * factor))


def _more(table: GroupsTable, factor: float) -> GroupsTable:
    return table.model_copy(update={"count": _times(table.count, factor)})


def _larger(table: GroupsTable, factor: float) -> GroupsTable:
    """A table whose groups have more members or fewer; with more members, they get partitions for them."""
    partitions = min(PARTITIONS_MAX, _times(table.topics.partitions, max(1.0, factor)))
    topics = table.topics.model_copy(update={"partitions": partitions})
    return table.model_copy(update={"members": _times(table.members, factor), "topics": topics})

"""The tables of a scenario file: groups, their topics and the records in them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from bench.member.assigning import CLASSIC_COOPERATIVE
from bench.swarm.planning import scenario_errors, thresholds
from bench.swarm.planning.clients import CLIENTS, JAVA
from bench.swarm.planning.plan import CONSUMER, RecordsPlan
from bench.swarm.planning.shape import Count
from bench.swarm.planning.shapes import AnyShape
from bench.swarm.planning.thresholds import BadThreshold

PARTITIONS_MAX: Final = 10_000

Protocol = Literal["range", "cooperative-sticky", "opaque", "consumer"]

Millis = Annotated[float, Field(ge=0, le=600_000)]

ProcessRange = tuple[Millis, Millis]

Weight = Annotated[float, Field(gt=0, le=1_000_000)]


def _with_figures(said: Any) -> Any:
    """Put the figure before each limit, which alone does not say what it limits."""
    return {figure: (figure, limit) for figure, limit in said.items()} if isinstance(said, dict) else said


def _threshold(said: tuple[str, Any]) -> str:
    """Parse a threshold. Raises BadThreshold, which pydantic tells with its key."""
    figure, limit = said
    if not isinstance(limit, str):
        raise BadThreshold(f'{limit!r:.80} is not allowed: text is needed, as "< 50ms"')
    return thresholds.parse(f"{figure} {limit}").text


ThresholdsTable = Annotated[
    dict[str, Annotated[str, BeforeValidator(_threshold)]], BeforeValidator(_with_figures)
]


class Table(BaseModel):
    """A table of a scenario file: it has no unknown keys, and does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TopicsTable(Table):
    """The topics that a group reads."""

    count: Annotated[int, Field(ge=1, le=1_000)] = 1
    partitions: Annotated[int, Field(ge=1, le=PARTITIONS_MAX)] = 12
    """The number of partitions of each topic."""
    shared: bool = False
    """Whether all groups of the table read the same topics; otherwise each has its own."""


class RecordsTable(Table):
    """The records that are really written and read (CLIENTS.md)."""

    produce_s: Annotated[float, Field(gt=0, le=1_000_000)]
    """How many records per second are written to the topics of each group, or to those that all groups of the
    table read."""
    bytes: Annotated[int, Field(ge=16, le=100_000)] = 100
    """The bytes of one record."""
    fetch: bool = True
    """Whether members fetch the records; False: these are only written, and members commit without
    reading."""
    process_ms: Millis | ProcessRange = 1.0
    """How long a record takes to process: a time, or any time between two."""
    max_poll_records: Count = 500

    @property
    def plan(self) -> RecordsPlan | None:
        """How a member processes records."""
        ms = self.process_ms
        between = ms if isinstance(ms, tuple) else (ms, ms)
        return RecordsPlan(between, self.max_poll_records) if self.fetch else None


class GroupsTable(Table):
    """Groups with the same settings."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")]
    count: Count
    members: Count
    """How many members each group has when all are there."""
    scales: Literal["groups", "members"] = "groups"
    """What `--members` adds: groups of the same size, or members of each group, with partitions for them."""
    protocols: Annotated[dict[Protocol, Weight], Field(min_length=1)] = {CONSUMER: 1, CLASSIC_COOPERATIVE: 1}
    """The weights of the protocols among the groups."""
    static: bool = False
    """Whether members have a group.instance.id."""
    topics: TopicsTable = TopicsTable()
    records: RecordsTable | None = None
    client: str = JAVA
    """The client software of the members (CLIENTS.md)."""
    session_timeout_ms: Annotated[int, Field(ge=1_000, le=1_800_000)] | None = None
    heartbeat_interval_ms: Annotated[int, Field(ge=100, le=600_000)] | None = None
    """The heartbeat interval of the members; None: the default of their software."""
    rebalance_timeout_ms: Annotated[int, Field(ge=1_000, le=3_600_000)] = 60_000
    commit_interval_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 5_000
    commit_partitions_max: Count = 1_000
    shapes: Annotated[tuple[AnyShape, ...], Field(min_length=1)]

    @field_validator("client")
    @classmethod
    def _is_known(cls, client: str) -> str:
        if client not in CLIENTS:
            raise ValueError(f"{client}: there is no such client; {scenario_errors.hint(client, CLIENTS)}")
        return client

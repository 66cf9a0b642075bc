"""One area of rules (a kind of group, offsets, transactions) as the shard sees it."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from actors.catalog.api import Refusal
from actors.coordinator.ground.state import ShardState
from actors.ground.contract import NOTHING, Key, Record, Request, Result, Value
from actors.ground.image import MetadataImage

Handler = Callable[[ShardState, Request, int], Result]
"""(state, request, now_ms). Raises GroupError to refuse; the shard turns it into the API's answer."""
Applier = Callable[[ShardState, Key, Value | None], Value | None]
"""A function (state, key, value) -> the value that was replaced. It takes every record of its kinds."""
Fire = Callable[[ShardState, tuple[object, ...], int], Result]
"""A function of (state, timer key, now_ms) that carries a timer out."""
NoteImage = Callable[[ShardState, MetadataImage, int], None]
"""(state with the new image, the image before it, now_ms)."""


NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


def _no_records(state: ShardState) -> Iterator[Record]:
    return iter(())


def _nothing_on_elected(state: ShardState, now_ms: int) -> Result:
    return NOTHING


def _nothing_to_note(state: ShardState, before: MetadataImage, now_ms: int) -> None:
    return None


class Area(NamedTuple):
    handlers: Mapping[int, Handler] = NONE
    """API key -> who answers."""
    refusals: Mapping[int, Refusal] = NONE
    """Number of a request that only the tier makes -> the answer that refuses it as a whole. The catalog has
    the refusals of clients' requests."""
    appliers: Mapping[int, Applier] = NONE
    """Record kind -> who applies it."""
    timers: Mapping[str, Fire] = NONE
    """First field of a timer's key -> who carries it out."""
    records: Callable[[ShardState], Iterator[Record]] = _no_records
    """Every live record of the area's kinds."""
    on_elected: Callable[[ShardState, int], Result] = _nothing_on_elected
    """Build volatile state, arm timers; no replies. As `work` if that takes long."""
    on_metadata: NoteImage = _nothing_to_note
    """A newer metadata image is here, on leaders and followers."""

"""Answer what a request asks of partitions, topic by topic, in the order of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from actors.catalog import codec


def topic_answers(
    topic_class: Any,
    asked: Iterable[tuple[str, Iterable[Any]]],
    answer: Callable[[str, Any], Any],
) -> tuple[Any, ...]:
    """Return the answer's entry of each topic that is asked about. `answer` takes a topic's name and what is
    asked of one of its partitions, and returns that partition's part of the answer."""
    return tuple(
        codec.build(
            topic_class,
            name=name,
            topic=name,
            partitions=tuple(answer(name, partition) for partition in partitions),
        )
        for name, partitions in asked
    )

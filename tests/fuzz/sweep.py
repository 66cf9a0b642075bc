"""Scripts that leave no version to chance: every version of every API that clients are told of, right and
with its fields made wrong in each way, one at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.fuzz.campaign import Wanted, every_distortion
from tests.protocol.random_entities import EVERY_VERSION

RIGHT_FRAMES = 12
"""How many right frames of each version a whole sweep has."""
RIGHT_FRAMES_MIN = 8
"""How many a share of a sweep has: enough to make producers, members and topics that others then name."""


def sweep(seed: int, share: float = 1.0) -> list[Wanted]:
    """Every frame of the sweep, or a share of them with a few of each version, in an order that is the
    seed's: topics and members come and go meanwhile."""
    rng = random.Random(f"sweep/{seed}")
    frames = [frame for key, version in EVERY_VERSION for frame in _of_version(rng, key, version, share)]
    rng.shuffle(frames)
    return frames


def _of_version(rng: random.Random, key: int, version: int, share: float) -> Iterator[Wanted]:
    yield from [Wanted(key, version)] * max(round(RIGHT_FRAMES * share), RIGHT_FRAMES_MIN)
    distortions = every_distortion(key, version)
    for distortion in rng.sample(distortions, round(len(distortions) * share)):
        yield Wanted(key, version, distortion)

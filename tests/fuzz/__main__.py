"""`python -m tests.fuzz --frames 1000000 --seed 1`: campaigns of 20,000 frames, each at a new stack."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import psutil

from tests.fuzz.campaign import Campaign, Failure, Tally

FRAMES_PER_CAMPAIGN = 20_000
GROWTH_MIB_MAX = 64.0
"""Growth of the process between the second campaign and the last: more is a leak."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first campaign")
    asked = parser.parse_args()
    began_at, total, done = time.monotonic(), Tally(), 0
    rss_mib: list[float] = []
    number = asked.first
    while done < asked.frames:
        frames = min(FRAMES_PER_CAMPAIGN, asked.frames - done)
        try:
            tally = Campaign(asked.seed, number).run(frames)
        except Failure as failure:
            print(
                f"\n{failure}\nagain: python -m tests.fuzz"
                f" --seed {asked.seed} --first {number} --frames {frames}"
            )
            return 1
        number, done = number + 1, done + frames
        _add(total, tally)
        rss_mib.append(psutil.Process().memory_info().rss / 2**20)
        seconds = time.monotonic() - began_at
        print(f"{done:>9,} frames  {done / seconds:>6,.0f}/s  {rss_mib[-1]:.0f} MiB", flush=True)
    print(_summary(total))
    if len(rss_mib) > 2 and rss_mib[-1] - rss_mib[1] > GROWTH_MIB_MAX:
        print(f"the process grew from {rss_mib[1]:.0f} to {rss_mib[-1]:.0f} MiB")
        return 1
    return 0


def _add(total: Tally, tally: Tally) -> None:
    for name in ("frames", "answered", "closed", "unfinished", "parked"):
        setattr(total, name, getattr(total, name) + getattr(tally, name))
    total.mutations += tally.mutations
    total.errors += tally.errors


def _summary(total: Tally) -> str:
    by_code: Counter[int] = Counter()
    for (_, code), count in total.errors.items():
        by_code[code] += count
    codes = ", ".join(f"{code}: {count:,}" for code, count in by_code.most_common())
    return (
        f"{total.frames:,} frames: {total.answered:,} answers, {total.closed:,} connections closed, "
        f"{total.parked:,} parked, {total.unfinished:,} left unfinished\nerror codes: {codes}"
    )


if __name__ == "__main__":
    sys.exit(main())

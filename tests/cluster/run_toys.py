"""Run a tier of toy actors as `groupd up` would: `python -m tests.cluster.run_toys NAME=VALUE ...`."""

from __future__ import annotations

import sys

from cluster import lifecycle
from cluster.settings import load, parse_assignments
from cluster.tier_file import TierError
from tests.cluster.toys import KINDS


def main() -> int:
    settings = load(parse_assignments(sys.argv[1:]), environment={})
    try:
        lifecycle.run(
            settings,
            lambda *_: None,
            lambda tier, file: print("READY", file.tier_id, flush=True),
            kinds=KINDS,
        )
    except TierError as error:
        print("FAILED", error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

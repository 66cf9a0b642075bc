"""What holds for all tests: the environment of the processes that they start."""

from __future__ import annotations

import os
from pathlib import Path

_LEAN = str(Path(__file__).with_name("lean"))
# kio imports hypothesis wherever it is installed: a quarter of the start of each of a tier's many processes,
# which users' tiers do not have.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_LEAN, os.environ.get("PYTHONPATH"))))

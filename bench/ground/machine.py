"""The machine and the packages with which figures were measured."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("ray", "pysyncobj", "kio", "uvloop", "msgpack")


def machine() -> str:
    """The machine on which figures were measured, in words."""
    packages = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, {packages}"
    )


def _processor() -> str:
    """The processor's own name, where the kernel tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())

"""What is raised when two sides stay apart."""

from __future__ import annotations


class Unsettled(Exception):
    """The sides still differ; what each of them shows is its last step's answer."""

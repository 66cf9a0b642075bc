"""A store of reservations in memory: what a test sees of the disk."""

from __future__ import annotations


class Memory:
    def __init__(self, content: bytes = b"") -> None:
        self.content = content
        self.is_full = False

    def load(self) -> bytes:
        return self.content

    def append(self, data: bytes) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.content += data

    def replace(self, data: bytes) -> None:
        self.content = data

"""Tables that tasks have made: Parquet by part and day, in a folder that all who work reach."""

from __future__ import annotations

import datetime as dt
import shutil
from typing import Final

import fsspec

from storage.history.period import Period

DAY: Final = "date="


def part_url(url: str, name: str, part: str) -> str:
    """Where a part of a table is."""
    return f"{url}/{name}/part={part}"


class Staged:
    """A folder that is there for as long as its tables are read. Methods raise OSError."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.parts: list[str] = []
        """The parts that are whole."""
        self._fs, self._root = fsspec.url_to_fs(url)

    def folders(self, name: str) -> list[str]:
        """The URLs of the parts of a table that have rows."""
        self._fs.invalidate_cache()
        return [part_url(self.url, name, part) for part in self.parts if self._files(name, part)]

    def bytes_of(self, name: str) -> int:
        self._fs.invalidate_cache()
        return sum(int(self._fs.size(path)) for part in self.parts for path in self._files(name, part))

    def copy(self, name: str, days: Period, url: str) -> None:
        """Copy what a table has of these days into a folder that is not there yet: a file of each part
        for each day."""
        self._fs.invalidate_cache()
        there, root = fsspec.url_to_fs(url)
        there.makedirs(root, exist_ok=True)
        for part in self.parts:
            for number, path in enumerate(self._files(name, part)):
                day = path.rsplit("/", 2)[-2]
                if days.first <= dt.date.fromisoformat(day.removeprefix(DAY)) <= days.last:
                    there.makedirs(f"{root}/{day}", exist_ok=True)
                    to = f"{root}/{day}/{part}-{number}.parquet"
                    with self._fs.open(path, "rb") as source, there.open(to, "wb") as sink:
                        shutil.copyfileobj(source, sink)

    def remove(self) -> None:
        if self._fs.exists(self._root):
            self._fs.rm(self._root, recursive=True)

    def _files(self, name: str, part: str) -> list[str]:
        found = self._fs.find(part_url(self._root, name, part))
        return sorted(path for path in found if path.endswith(".parquet"))

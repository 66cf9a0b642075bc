"""Peers of one process, which prints its port and lives until its input ends: mock, kfake, the floor."""

from __future__ import annotations

import shutil
import subprocess
import time
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, Final

import confluent_kafka

from bench.peers.jars import cache
from bench.peers.lines import Address
from bench.peers.options import Options, Refused
from bench.peers.peer import Peer, end
from cluster import child_process

BUILD_TIMEOUT_S: Final = 300
GO: Final = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
KFAKE: Final = "github.com/twmb/franz-go/pkg/kfake"
KFAKE_NEEDS: Final = ("github.com/twmb/franz-go", "github.com/twmb/franz-go/pkg/kmsg")
KFAKE_MAIN: Final = """package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

// One broker with the settings given as name=value. It lives until its input ends.
func main() {
	settings := map[string]string{}
	for _, argument := range os.Args[1:] {
		name, value, _ := strings.Cut(argument, "=")
		settings[name] = value
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(settings))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	address := cluster.ListenAddrs()[0]
	fmt.Println(address[strings.LastIndex(address, ":")+1:])
	io.Copy(io.Discard, os.Stdin)
	cluster.Close()
}
"""


class _Process(Peer):
    """`command` prints its port in the first line of its output."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def command(self) -> list[str]:
        return child_process.python(self.module)

    module: ClassVar[str] = ""

    def start(self) -> None:
        command = self.command()
        self.launched_at = time.monotonic()
        self._process = subprocess.Popen(
            command,
            env=child_process.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout is not None, "it is a pipe"
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} did not start: {' '.join(command)}")
        self._port = int(line)

    def _end(self) -> None:
        if self._process is None:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "they are pipes"
            pipe.close()
        end(self._process)
        self._process = None

    @property
    def bootstrap(self) -> list[Address]:
        return [("127.0.0.1", self._port)]

    def pids(self) -> list[int]:
        assert self._process is not None, "started"
        return [self._process.pid]


class Floor(_Process):
    """The floor server: what any server in Python costs, with uvloop, kio's decoder, a constant answer and no
    coordinator."""

    name = "floor"
    coordinates = False
    module = "bench.peers.floor_server"

    def software(self) -> str:
        return f"uvloop {version('uvloop')}, kio {version('kio')}"

    def version(self, api_key: int, wanted: int) -> int:
        if api_key not in (8, 12):
            raise Refused("it only answers Heartbeat and OffsetCommit")
        return wanted

    def wait_until_ready(self) -> None:
        """Nothing has to be waited for: it is ready when it listens."""


class Mock(_Process):
    """librdkafka's mock cluster: one thread of C, one broker, nothing kept on a disk."""

    name = "mock"
    group_size = 1  # it refuses a SyncGroup that comes after the leader's
    connections_max = 50  # it takes a tenth of a second to accept one
    session_timeout_ms = 1_800_000  # above 2^31 us its timers go off at once
    module = "bench.peers.mock_server"

    def software(self) -> str:
        return f"librdkafka {confluent_kafka.libversion()[0]}, mock cluster of one broker"


class Kfake(_Process):
    """franz-go's fake cluster: one process of Go, everything in memory."""

    name = "kfake"

    def missing(self) -> str:
        if GO is None:
            return "go not found"
        try:
            self._build()
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            return f"it cannot be built: {str(error).strip().splitlines()[-1]}"
        return ""

    def command(self) -> list[str]:
        return [
            str(self._directory() / "kfake"),
            *(f"{name}={value}" for name, value in self.settings.items()),
        ]

    def software(self) -> str:
        listed = self._go("list", "-m", KFAKE)
        return listed.strip()

    def _directory(self) -> Path:
        return cache() / "kfake"

    def _build(self) -> None:
        """Build the program once: it is kept in the user's cache directory."""
        directory = self._directory()
        source = directory / "main.go"
        if (directory / "kfake").exists() and source.read_text() == KFAKE_MAIN:
            return
        directory.mkdir(parents=True, exist_ok=True)
        source.write_text(KFAKE_MAIN)
        (directory / "go.mod").write_text("module groupd.bench/kfake\n\ngo 1.24\n")
        # Its own requirements name releases it does not build with: those of the same day do.
        self._go("get", *(f"{module}@master" for module in (KFAKE, *KFAKE_NEEDS)))
        self._go("build", "-o", "kfake", ".")

    def _go(self, *arguments: str) -> str:
        done = subprocess.run(
            [GO or "go", *arguments],
            cwd=self._directory(),
            capture_output=True,
            text=True,
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr or f"go {arguments[0]} failed")
        return done.stdout

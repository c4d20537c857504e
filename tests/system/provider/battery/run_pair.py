# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs the commands of one row with one provider, and checks their status and output."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Dict, List, NamedTuple

from rows import Row

LIB = Path(__file__).parents[2] / "lib"
BUILD = Path(os.environ.get("BUILD", "build/release")).absolute()
LIMIT = 30  # seconds; ends a hang
MAX_REASON = 70  # characters
COMPLAINT = re.compile(
    r"fail|error|cannot|can't|could ?n[o']t|unable|unsupported|not support|invalid|refuse|no such",
    re.IGNORECASE,
)
TIMESTAMP = re.compile(r"^\[\d+\.\d+\] \[[^]]*\]")  # of UCX
SERVED = "is served by coherdma"


class Result(NamedTuple):
    """reason: why it did not pass; empty: it passed. output: of both sides."""

    reason: str
    output: str


class Side:
    """The server's or the client's command, a shell in a process group of its own."""

    def __init__(self, name: str, command: str, folder: Path, env: Dict[str, str]) -> None:
        self.name, self.path = name, folder / f"{name}.out"
        with open(self.path, "wb") as file:
            self.process = subprocess.Popen(
                ["bash", "-c", command],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self) -> str:
        return self.path.read_text(encoding="utf-8", errors="replace").replace("\0", "")

    def has_printed(self, pattern: str) -> bool:
        return re.search(pattern, self.output(), re.MULTILINE) is not None

    def is_running(self) -> bool:
        return self.process.poll() is None

    def has_failed(self, row: Row) -> bool:
        """Whether it has ended with a status other than 0 that the row does not accept."""
        if self.is_running() or self.process.returncode == 0:
            return False
        return not (row.exit_race and self.has_printed(row.exit_race))

    def kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def complaint(self) -> str:
        """The first line of its output that reports a failure; else its last line."""
        lines = [TIMESTAMP.sub("", line).strip() for line in self.output().splitlines()]
        complaints = [line for line in lines if COMPLAINT.search(line)]
        line = (complaints or [line for line in lines if line][-1:] or ["no output"])[0]
        return line if len(line) <= MAX_REASON else f"{line[:MAX_REASON]}..."


def has_socket(protocol: str, port: int) -> bool:
    """Whether a socket listens on the TCP port, or is bound to the UDP port."""
    state = {"tcp": "0A", "udp": "07"}[protocol]
    socket = re.compile(rf":{port:04X} [0-9A-F]+:0000 {state} ")
    return any(
        socket.search(Path(table).read_text(encoding="ascii"))
        for table in (f"/proc/net/{protocol}", f"/proc/net/{protocol}6")
        if os.path.exists(table)
    )


def is_ready(server: Side, ready: str) -> bool:
    """ready: `cm PORT`, `rsocket PORT`, `tcp PORT`, `udp PORT` or `prints PATTERN`."""
    kind, detail = ready.split(" ", 1)
    if kind in ("tcp", "udp"):
        return has_socket(kind, int(detail))
    if kind == "prints":
        return server.has_printed(detail)
    option = ["--rsocket"] if kind == "rsocket" else []
    return subprocess.run([LIB / "is_listening", detail, *option], check=False).returncode == 0


def wait_for_end(row: Row, server: Side, folder: Path, env: Dict[str, str]) -> List[Side]:
    """Runs the client once the server is ready, until both have done their work, one has failed, or
    LIMIT is over. Returns the sides that were started."""
    sides = [server]
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline and not any(side.has_failed(row) for side in sides):
        if len(sides) == 1:
            if is_ready(server, row.ready):
                sides.append(Side("client", row.client, folder, env))
            elif not server.is_running():
                break
        elif not sides[1].is_running():
            has_ended = (
                server.has_printed(row.server_prints) if row.daemon else not server.is_running()
            )
            if has_ended or not sides[1].has_printed(row.client_prints):
                break
        time.sleep(0.02)
    return sides


def find_failure(row: Row, sides: List[Side]) -> str:
    """Why the row has not passed; called before the sides are killed."""
    for side in sides:
        if side.has_failed(row):
            status = side.process.returncode
            signal_name = f"{signal.Signals(-status).name}: " if status < 0 else ""
            return f"{side.name}: {signal_name}{side.complaint()}"
    if len(sides) == 1 and row.server:
        return f"server: not ready for a client: {sides[0].complaint()}"
    for side in reversed(sides):
        if side.is_running() and not (row.daemon and side.name == "server"):
            return f"{side.name}: no end within {LIMIT} s"
        pattern = row.server_prints if side.name == "server" else row.client_prints
        if not side.has_printed(pattern):
            return f"{side.name}: does not print '{pattern}': {side.complaint()}"
        if row.never_prints and side.has_printed(row.never_prints):
            return f"{side.name}: {side.complaint()}"
    return ""


def run_pair(row: Row, plugin: str, folder: Path, observers: str = "") -> Result:
    """Runs the row's commands, in which the device's facts are filled in. plugin: the provider's, or
    "" for the stock one. observers: the plugin of the interposer, or "" without it."""
    log = folder / "verbs.log"
    log.unlink(missing_ok=True)
    env = {name: value for name, value in os.environ.items() if name != "RDMAV_DRIVERS"}
    env.update(VERBS_LOG_LEVEL="3", VERBS_LOG_FILE=str(log))
    if plugin or observers:
        env["RDMAV_DRIVERS"] = ":".join(filter(None, (plugin, observers)))
    if row.preload:
        env["LD_PRELOAD"] = str(BUILD / row.preload)
    if row.server:
        sides = wait_for_end(row, Side("server", row.server, folder, env), folder, env)
    else:
        sides = [Side("client", row.client, folder, env)]
        try:
            sides[0].process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            pass
    reason = find_failure(row, sides)
    for side in sides:
        side.kill()
    times_served = log.read_text(encoding="utf-8").count(SERVED) if log.exists() else 0
    if not reason and plugin and times_served < row.opens:
        reason = f"served {times_served} times by coherdma, not {row.opens}"
    if not plugin and times_served:
        reason = "served by coherdma, not by the stock provider"
    return Result(reason, "".join(f"{side.name}:\n{side.output()}" for side in sides))

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs a program of uDAPL under random scenarios of coherdma fault.

Whatever fails, a program neither crashes nor hangs, and where it says that its data are right, they
are. A scenario depends on its seed alone.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

HANG_SECONDS = 240  # dtest waits 100 s for a connection
CONFORM_SECONDS = 600
PEER_SECONDS = 40
SERVER_SECONDS = 20  # to end after its client
DTEST_PORT = 15828  # of TCP, by which it exchanges addresses
ERRORS = ["ENOMEM", "EINVAL", "EAGAIN", "EINTR", "EIO", "EBUSY", "ETIMEDOUT", "ENODEV"]
REQUESTS = ["request", "send", "write", "read", "atomic", "receive"]
# Calls that neither our uDAPL nor librdmacm makes for it.
UNUSED_CALLS = re.compile(
    "import|dmabuf|dm_mr|null_mr|buf_mr|cast|open_qp|parent|_ah|wr_complete|start_poll|create_ep"
    "|migrate|get_request|rereg"
)


class Problem(Exception):
    """A run that shows a mistake of the program or of its libraries."""


class ScenarioMaker:
    def __init__(self, tool: str) -> None:
        """tool: coherdma, which knows the names."""
        self.names: dict[str, list[str]] = {}
        words: list[str] = []
        for line in subprocess.check_output([tool, "fault", "--list"], text=True).splitlines():
            if title := re.match(r" *([A-Z]\w+) +", line):
                words = self.names[title[1]] = []
                line = line[title.end() :]
            words += re.findall(r"\w+", line)
        self.names["Calls"] = [c for c in self.names["Calls"] if not UNUSED_CALLS.search(c)]

    def make(self, rng: random.Random) -> str:
        return "; ".join(self._make_fault(rng) for _ in range(rng.choice([1, 1, 2, 3])))

    def _make_fault(self, rng: random.Random) -> str:
        call, status = rng.choice(self.names["Calls"]), rng.choice(self.names["Statuses"])
        request, error = rng.choice(REQUESTS), rng.choice(ERRORS)
        prefix = f"after {rng.randrange(1, 400)}ms " if rng.random() < 0.2 else ""
        which, milliseconds = self._select(rng), rng.randrange(1, 30)
        queue = f" of qp {rng.randrange(1, 4)}" if rng.random() < 0.2 else ""
        event = rng.choice(self.names["Events"])
        return rng.choices(
            [
                f"{prefix}{which} {call} fails {error}",
                f"{prefix}{which} {call} takes {milliseconds}ms",
                f"{prefix}{which} {request}{queue} fails {status}",
                f"each request{queue} takes {milliseconds}ms",
                f"after {rng.randrange(0, 500)}ms event {event}",
            ],
            [9, 2, 6, 1, 3],
        )[0]

    @staticmethod
    def _select(rng: random.Random) -> str:
        number = rng.randrange(1, rng.choice([3, 10, 60]))
        ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number // 10 != 1 else 0, "th")
        return rng.choice([f"{number}{ending}", f"every {number}{ending}", f"{number}% of"])


@dataclasses.dataclass
class Lab:
    """The device, and where the programs are."""

    build: pathlib.Path
    device: str
    address: str

    @property
    def tool(self) -> str:
        return str(self.build / "tools/coherdma")


class Process:
    """A program, with its output in a file."""

    is_killed = False

    def __init__(self, name: str, command: list[str], folder: pathlib.Path) -> None:
        self.name, self.file = name, folder / f"{name}.out"
        with open(self.file, "wb") as out:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                # Memory that is free has no valid content.
                env=dict(os.environ, MALLOC_PERTURB_="165"),
            )

    def text(self) -> str:
        return self.file.read_text(errors="replace")

    def wait(self, seconds: float) -> int | None:
        """Its status. None: it has not ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def expect_end(self, seconds: float, expected_signal: int = 0) -> int:
        """0: no signal is expected to end it."""
        status = self.wait(seconds)
        if status is None:
            raise Problem(f"the {self.name} hangs: it did not end in {seconds} s\n{self._stacks()}")
        number = -status if status < 0 else status - 128
        if 0 < number < signal.SIGRTMIN and number != expected_signal:
            raise Problem(f"the {self.name} crashes: signal {number}")
        return status

    def send_signal(self, number: int) -> None:
        """coherdma passes it on."""
        self._process.send_signal(number)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.is_killed = True

    def _stacks(self) -> str:
        """Of the processes of its session, if there is gdb."""
        text = ""
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                if os.getsid(int(folder.name)) == self._process.pid:
                    gdb = ["gdb", "-p", folder.name, "-batch", "-ex", "thread apply all bt 16"]
                    text += subprocess.run(
                        gdb,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL,
                        text=True,
                        timeout=60,
                        check=False,
                    ).stdout
        return text


class Run:
    """The processes of a scenario."""

    def __init__(self, lab: Lab, scenario: str, seed: int, sides: list[str]) -> None:
        """sides: the names of the processes that have the faults."""
        self._lab, self._scenario, self._seed, self._sides = lab, scenario, seed, sides
        self._processes: list[Process] = []
        self._folder = pathlib.Path(tempfile.mkdtemp())

    def start(self, name: str, command: list[str]) -> Process:
        if name in self._sides:
            tool = [self._lab.tool, "fault", "--seed", str(self._seed)]
            command = [*tool, self._scenario, "--", *command]
        self._processes.append(Process(name, command, self._folder))
        return self._processes[-1]

    def has_effect(self) -> bool:
        faulty = [each for each in self._processes if each.name in self._sides]
        return any("no fault was made" not in each.text() for each in faulty)

    def describe(self, problem: Problem) -> str:
        outputs = (f"-- the {each.name} says:\n{each.text()}" for each in self._processes)
        sides = " and ".join(self._sides)
        title = f"seed {self._seed}, faults of the {sides}: {self._scenario}"
        return "\n".join([title, str(problem), *outputs])

    def end(self) -> None:
        for each in self._processes:
            each.end()
            each.file.unlink()
        self._folder.rmdir()


def wait_until(condition: Callable[[], bool], server: Process) -> None:
    """Or the server has ended, or ten seconds have passed: then its client tells."""
    deadline = time.monotonic() + 10
    while not condition() and server.wait(0.02) is None and time.monotonic() < deadline:
        pass


class Program(Protocol):
    sides: list[list[str]]  # the processes that may have the faults
    jobs: int  # that can run at the same time

    def run(self, run: Run, rng: random.Random) -> int:
        """Its status. Raises Problem."""


class Datping:
    """It compares each byte itself, and says which event it did not expect."""

    sides = [["client"], ["server"], ["client", "server"]]
    jobs = 1

    def __init__(self, lab: Lab) -> None:
        self._lab, self._program = lab, str(lab.build / "tools/datping/datping")

    def run(self, run: Run, rng: random.Random) -> int:
        options = ["-m", rng.choice(["all", "all", "pingpong", "send", "write", "read"])]
        options += ["-c", rng.choice(["1", "5", "20"]), "-S", rng.choice(["1", "4097", "100k"])]
        options += ["-t", "2"] + rng.choice([[], [], ["--poll"]])
        server = run.start("server", [self._program, "-s", "-t", "2"])
        wait_until(lambda: "listens" in server.text(), server)
        client = run.start("client", [self._program, *options, self._lab.address])
        status = client.expect_end(HANG_SECONDS)
        server.send_signal(signal.SIGINT)
        server.expect_end(SERVER_SECONDS)
        if re.search(
            r"[1-9]\d* WRONG|wrong: [1-9]|unexpected event", client.text() + server.text()
        ):
            raise Problem("the data or the events are wrong")
        return status


class Dtest:
    """Of OFED. Not with -W: it waits in a loop for bytes, whatever becomes of its peer."""

    sides = Datping.sides
    jobs = 1

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def run(self, run: Run, rng: random.Random) -> int:
        variants: list[list[str]] = [[], ["-c"], ["-p"], ["-w"], ["-u"]]
        variant = rng.choice(variants)
        command = ["dtest", "-P", self._lab.device, "-b", rng.choice(["64", "4096"])] + variant
        server = run.start("server", [*command, "-s"])
        wait_until(lambda: listens(DTEST_PORT), server)
        client = run.start("client", [*command, "-h", self._lab.address])
        # Of two that wait for each other, one ends; the other must learn that its peer is gone.
        if client.wait(PEER_SECONDS) is None:
            server.end()
        status = client.expect_end(HANG_SECONDS)
        # A server without a client waits for one.
        if server.is_killed:
            return status
        if "CONNECTED!" not in server.text() or server.wait(SERVER_SECONDS) is None:
            server.send_signal(signal.SIGTERM)
        server.expect_end(SERVER_SECONDS, signal.SIGTERM)
        written = "CLIENT: RDMA write buffer contains: server RDMA write data"
        if "PASSED" in client.text() and not variant and written not in client.text():
            raise Problem("the data are wrong")
        return status


def listens(port: int) -> bool:
    listening = rf":{port:04X} \S+ 0A "
    tables = [pathlib.Path("/proc/net/tcp"), pathlib.Path("/proc/net/tcp6")]
    return any(re.search(listening, table.read_text()) for table in tables)


class Conform:
    """Some cases of the conformance suite, which wait ten seconds for an event that is missing."""

    sides = [["program"]]
    jobs = 6

    def __init__(self, lab: Lab) -> None:
        program = str(lab.build / "tests/system/udapl/conform/conform")
        unused_address = re.sub(r"\d+$", "77", lab.address)
        self._command = [program, "--ia", lab.device, "--device", lab.device]
        self._command += ["--unused-address", unused_address, "--timeout", "120"]
        self._cases = subprocess.check_output([program, "--list"], text=True).split()

    def run(self, run: Run, rng: random.Random) -> int:
        program = run.start("program", [*self._command, *rng.sample(self._cases, 5)])
        return program.expect_end(CONFORM_SECONDS)


PROGRAMS: dict[str, Callable[[Lab], Program]] = {
    "datping": Datping,
    "dtest": Dtest,
    "conform": Conform,
}


def run_seed(lab: Lab, program: Program, maker: ScenarioMaker, seed: int) -> str:
    """Its status, and whether a fault was made."""
    rng = random.Random(seed)
    scenario, sides = maker.make(rng), rng.choice(program.sides)
    run = Run(lab, scenario, seed, sides)
    try:
        status = program.run(run, rng)
        return f"status {status}" + ("" if run.has_effect() else ", no fault")
    except Problem as problem:
        raise Problem(run.describe(problem)) from None
    finally:
        run.end()


def results(lab: Lab, program: Program, seeds: range) -> Iterator[str | Problem]:
    maker = ScenarioMaker(lab.tool)
    with concurrent.futures.ThreadPoolExecutor(program.jobs) as pool:
        runs = [pool.submit(run_seed, lab, program, maker, seed) for seed in seeds]
        for run in concurrent.futures.as_completed(runs):
            try:
                yield run.result()
            except Problem as problem:
                yield problem


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("first", type=int, help="seed of the first run")
    parser.add_argument("count", type=int, help="of runs")
    options = parser.parse_args()
    driver = os.environ["DRIVER"].upper()
    lab = Lab(
        build=pathlib.Path(os.environ["BUILD"]),
        device=os.environ[f"SOFTRDMA_{driver}_DEVICE"],
        address=os.environ[f"SOFTRDMA_{driver}_ADDRESS"],
    )
    seeds = range(options.first, options.first + options.count)
    counts: Counter[str] = Counter()
    for result in results(lab, PROGRAMS[options.program](lab), seeds):
        if isinstance(result, Problem):
            print(result, flush=True)
        counts["problem" if isinstance(result, Problem) else result] += 1
    without_fault = sum(count for name, count in counts.items() if "no fault" in name)
    print(f"{options.program}: {options.count} scenarios:", dict(sorted(counts.items())))
    print(f"{options.count - without_fault} with a fault")
    return 1 if counts["problem"] else 0


if __name__ == "__main__":
    sys.exit(main())

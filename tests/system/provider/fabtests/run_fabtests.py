#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs libfabric's tests over a device, each with a server and a client (TAP).

    run_fabtests.py FOLDER DRIVER verbs|rxm|rxd [TEST...]

FOLDER: of make_fabtests. verbs, rxm, rxd: libfabric's provider, and what it has above that. With two hosts, the client
is on host 2. With RDMAV_DRIVERS, coherdma's plugin has to serve each test: libibverbs may take another one.
Without TEST it runs all tests but those for several nodes. A test that libfabric's own list excludes for
the provider is skipped, as is one that fails and has a cause in causes.txt.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, IO, List, NamedTuple

PROVIDERS = {"verbs": "verbs", "rxm": "verbs;ofi_rxm", "rxd": "verbs;ofi_rxd"}
SETS = ("unit", "neg_unit", "functional", "short", "standard")
CAUSES = Path(__file__).with_name("causes.txt")
SERVED = "is served by coherdma"  # in the log of libibverbs
LIMIT = 60  # seconds; ends a hang
LISTEN_LIMIT = 20
TCP_LISTEN = re.compile(r": \S+:\S+ 0+:0000 0A ")  # in /proc/net/tcp
NO_DATA = 61  # status of a test that finds no such provider, as those of the set neg_unit shall
UNIT_SETS = {"unit": 0, "neg_unit": NO_DATA}  # of one process, with its status


class Test(NamedTuple):
    name: str  # its command
    set_name: str


class Result(NamedTuple):
    is_passed: bool
    reason: str
    output: str


def read_tests(folder: Path) -> List[Test]:
    """The tests of libfabric's script, in its order, each once."""
    script = (folder / "bin" / "runfabtests.sh").read_text(encoding="utf-8")
    tests: Dict[str, Test] = {}
    for name in SETS:
        array = re.search(rf"^{name}_tests=\((.*?)\n\)", script, re.DOTALL | re.MULTILINE)
        if not array:
            sys.exit(f"runfabtests.sh has no tests of the set {name}")
        for command in re.findall(r'"([^"]+)"', array[1]):
            tests.setdefault(command, Test(command, name))
    return list(tests.values())


def read_exclusions(folder: Path, provider: str) -> List[str]:
    """Patterns of the tests that the provider cannot pass, as libfabric says."""
    name = provider.split(";")[-1]
    path = folder / "test_configs" / name / f"{name}.exclude"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def read_causes(driver: str, layer: str) -> Dict[str, str]:
    """The tests that may fail, and why: lines of DRIVER | LAYER | TEST | CAUSE; "*" is any."""
    causes = {}
    for line in CAUSES.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            for_driver, for_layer, name, cause = (part.strip() for part in line.split("|"))
            if for_driver in ("*", driver) and for_layer in ("*", layer):
                causes[name] = cause
    return causes


class Side:
    """A process of a test, in a group of its own."""

    def __init__(self, command: List[str]) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self.file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def end(self, deadline: float) -> int:
        """The exit status; kills a process that is there at the deadline."""
        try:
            return self.process.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGTERM)  # `on` forwards it
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            return -signal.SIGKILL

    def output(self) -> str:
        self.file.seek(0)
        return self.file.read().decode(errors="replace").replace("\0", "")


def is_listening() -> bool:
    """Whether a test's server waits for a client, by TCP or by rdma_cm."""
    sockets = "".join(Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6"))
    if TCP_LISTEN.search(sockets):
        return True
    command = ["rdma", "resource", "show", "cm_id"]
    return (
        "LISTEN" in subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    )


def run_unit(words: List[str], provider: str, address: str, expected_status: int) -> Result:
    addresses = {"SERVER_ADDR": address, "GOOD_ADDR": address}
    side = Side([*(addresses.get(word, word) for word in words), "-p", provider])
    status = side.end(time.monotonic() + LIMIT)
    return Result(status == expected_status, f"status {status}", side.output())


def run_pair(words: List[str], provider: str, address: str) -> Result:
    deadline = time.monotonic() + LIMIT
    server = Side([*words, "-p", provider, "-s", address])
    while not is_listening() and server.process.poll() is None:
        if time.monotonic() > deadline - LIMIT + LISTEN_LIMIT:
            break
        time.sleep(0.05)
    has_two_hosts = "HOST2" in os.environ
    client_address = os.environ.get("HOST2", address)
    on_client = ["on", "2"] if has_two_hosts else []
    client = Side([*on_client, *words, "-p", provider, "-s", client_address, address])
    client_status = client.end(deadline)
    server_status = server.end(deadline if client_status == 0 else time.monotonic() + 2)
    output = f"server:\n{server.output()}\nclient:\n{client.output()}"
    reason = f"status {server_status} of the server, {client_status} of the client"
    return Result(server_status == client_status == 0, reason, output)


def run(test: Test, folder: Path, provider: str) -> Result:
    with tempfile.TemporaryDirectory() as log_folder:
        log = Path(log_folder) / "verbs.log"
        os.environ.update(VERBS_LOG_LEVEL="3", VERBS_LOG_FILE=str(log))
        result = run_sides(test, folder, provider)
        if "RDMAV_DRIVERS" in os.environ and not (log.exists() and SERVED in log.read_text()):
            return Result(False, "not served by coherdma", result.output)
        return result


def run_sides(test: Test, folder: Path, provider: str) -> Result:
    words = test.name.split()
    words[0] = str(folder / "bin" / words[0])
    address = os.environ["SOFTRDMA_ADDRESS"]
    if test.set_name in UNIT_SETS:
        return run_unit(words, provider, address, UNIT_SETS[test.set_name])
    return run_pair(words, provider, address)


def main(folder_name: str, driver: str, layer: str, *names: str) -> int:
    folder, provider = Path(folder_name), PROVIDERS[layer]
    exclusions, causes = read_exclusions(folder, provider), read_causes(driver, layer)
    tests = read_tests(folder)
    unknown = set(names) - {test.name for test in tests}
    if unknown:
        sys.exit(f"no such test: {', '.join(sorted(unknown))}")
    tests = [test for test in tests if not names or test.name in names]
    print(f"1..{len(tests)}", flush=True)
    failed = 0
    for number, test in enumerate(tests, 1):
        if any(re.search(pattern, test.name) for pattern in exclusions):
            print(
                f"ok {number} {test.name} # SKIP libfabric excludes it for {provider}", flush=True
            )
            continue
        result = run(test, folder, provider)
        if result.is_passed:
            print(f"ok {number} {test.name}", flush=True)
        elif test.name in causes:
            print(f"ok {number} {test.name} # SKIP {causes[test.name]}", flush=True)
        else:
            failed += 1
            for line in [result.reason, *result.output.splitlines()[-40:]]:
                print("#", line)
            print(f"not ok {number} {test.name}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma bench` where the devices exist: runs perftest, and prints a table or JSON.

    bench.py table|json NUMBER-OF-HOSTS DRIVER...

A program of its own: softrdma runs it as it runs any command.
"""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, NamedTuple, Optional

# perftest listens at every address, so a measurement has a port that another is unlikely to have.
PORTS = range(20000, 30000)
# perftest fails at times, on a busy machine often, or waits without end for a message.
MAX_ATTEMPTS, ATTEMPT_SECONDS = 5, 30.0
SERVER_EXIT_SECONDS = 5.0
RETRY_SECONDS = 0.1
# Of a client whose server does not listen yet.
NOT_CONNECTED = ("Unable to perform rdma_client function", "RDMA_CM_EVENT_REJECTED")
# The columns of perftest's row, which begins with the size and the number of requests.
ROW = re.compile(r"^ *\d+ +\d+ +(?P<numbers>[0-9. \t]+)$", re.MULTILINE)
AVERAGE_BANDWIDTH, TYPICAL_LATENCY, LATENCY_OF_99_PERCENT = 1, 2, 5


class Measurement(NamedTuple):
    program: str
    options: List[str]
    fields: Dict[str, int]  # names for JSON, of columns of the row


# -D 1 is a second, of which perftest leaves out the margins -f.
BANDWIDTH_OPTIONS = ["-D", "1", "-f", "0"]
BANDWIDTH_FIELDS = {"mib_per_s": AVERAGE_BANDWIDTH}
MEASUREMENTS = {
    "write 64 KiB": Measurement(
        "ib_write_bw", ["-s", "65536", *BANDWIDTH_OPTIONS], BANDWIDTH_FIELDS
    ),
    "write 4 KiB": Measurement("ib_write_bw", ["-s", "4096", *BANDWIDTH_OPTIONS], BANDWIDTH_FIELDS),
    "write 64 B": Measurement(
        "ib_write_lat",
        ["-s", "64", "-n", "2000"],
        {"typical_us": TYPICAL_LATENCY, "p99_us": LATENCY_OF_99_PERCENT},
    ),
}


class Failure(Exception):
    status = 1


class NotPossible(Failure):
    status = 77


def check_hosts(drivers: List[str], hosts: int) -> None:
    if hosts > 1 and "siw" in drivers:
        other_name = subprocess.run(
            ["on", str(hosts), "uname", "-n"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        if other_name.strip() == os.uname().nodename:
            raise NotPossible(
                "siw between two hosts of one kernel: perftest listens at every address, which siw "
                "refuses in a network namespace; use: softrdma bench --in uml --hosts 2"
            )


def measure(driver: str, hosts: int, measurement: Measurement) -> Dict[str, float]:
    for attempts_left in reversed(range(MAX_ATTEMPTS)):
        try:
            return _attempt(driver, hosts, measurement)
        except Failure:
            if attempts_left == 0:
                raise
            time.sleep(RETRY_SECONDS)
    raise AssertionError


def _attempt(driver: str, hosts: int, measurement: Measurement) -> Dict[str, float]:
    prefix = f"SOFTRDMA_{driver.upper()}_"
    device, address = os.environ[f"{prefix}DEVICE"], os.environ[f"{prefix}HOST{hosts}"]
    # -R: connect by rdma_cm, as siw demands. -F: do not stop at a clock rate that varies.
    port = str(random.choice(PORTS))
    command = [measurement.program, "-R", "-F", "-p", port, *measurement.options]
    # The shell has the environment of its host.
    serve = ["sh", "-c", f'exec "$@" -d "${prefix}DEVICE"', "sh", *command]
    server_argv = ["on", str(hosts), *serve] if hosts > 1 else serve
    client_argv = [*command, "-d", device, address]
    deadline = time.monotonic() + ATTEMPT_SECONDS
    with tempfile.TemporaryFile() as server_log:
        server = subprocess.Popen(
            server_argv, stdin=subprocess.DEVNULL, stdout=server_log, stderr=server_log
        )
        try:
            while True:
                output = _run_client(client_argv, deadline)
                fields = _parse(output, measurement)
                if fields:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        server.wait(SERVER_EXIT_SECONDS)
                    return fields
                is_too_early = any(text in output for text in NOT_CONNECTED)
                if not is_too_early or server.poll() is not None:
                    break
                time.sleep(RETRY_SECONDS)  # the server does not listen yet
        finally:
            server.kill()
            server.wait()
        server_log.seek(0)
        server_output = server_log.read().decode(errors="replace")
    raise Failure(
        f"{' '.join(client_argv)} fails: {_last_lines(output)}; its server: "
        f"{_last_lines(server_output)}; on a busy or emulated processor, try again"
    )


def _run_client(argv: List[str], deadline: float) -> str:
    try:
        output = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=max(deadline - time.monotonic(), 1),
        ).stdout
        return output.decode(errors="replace")
    except subprocess.TimeoutExpired as problem:
        partial = (problem.output or b"").decode(errors="replace")
        return f"{partial}\nno result within {ATTEMPT_SECONDS:.0f} s"


def _last_lines(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip(" -*\t")]
    text = " | ".join(lines[-2:])
    # As progress.escape(), which this program cannot import.
    characters = [c if c.isprintable() else c.encode("unicode_escape").decode() for c in text]
    return "".join(characters) or "no output"


def _parse(output: str, measurement: Measurement) -> Optional[Dict[str, float]]:
    """None without a row, or with one of zeros, which perftest prints if its clocks disagree."""
    row = ROW.search(output)
    if not row:
        return None
    numbers = [float(number) for number in row["numbers"].split()]
    fields = {name: numbers[column] for name, column in measurement.fields.items()}
    return fields if all(fields.values()) else None


def format_cell(fields: Dict[str, float]) -> str:
    if "mib_per_s" in fields:
        return f"{fields['mib_per_s']:.0f} MiB/s"
    return f"{fields['typical_us']:.1f} us, 99 % {fields['p99_us']:.1f} us"


def print_row(cells: List[str]) -> None:
    widths = (6, 12, 12, 0)
    print("  ".join(cell.rjust(width) for cell, width in zip(cells, widths)), flush=True)


def main(output_format: str, hosts: int, drivers: List[str]) -> None:
    check_hosts(drivers, hosts)
    results: Dict[str, Any] = {driver: {} for driver in drivers}
    if output_format == "table":
        print_row(["driver", *MEASUREMENTS])
    for driver, result in results.items():
        for name, measurement in MEASUREMENTS.items():
            result[name.replace(" ", "_").lower()] = measure(driver, hosts, measurement)
        if output_format == "table":
            print_row([driver, *map(format_cell, result.values())])
    if output_format == "json":
        processors = len(os.sched_getaffinity(0))
        facts = {"schema": 1, "kernel": os.uname().release, "processors": processors}
        print(json.dumps({**facts, "hosts": hosts, "drivers": results}))


if __name__ == "__main__":
    # As in any command: an interruption or a closed pipe ends it.
    for signum in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(signum, signal.SIG_DFL)
    try:
        main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
    except Failure as failure:
        print(f"softrdma: bench: {failure}", file=sys.stderr)
        sys.exit(failure.status)

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""rdma-core's test suite as Debian ships it, run to its end although its process may crash or hang."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import time
from typing import Any, Dict, List, Optional

SHIPPED = "/usr/share/doc/rdma-core/tests"
INSIDE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "inside.py")
# The suite looks here for a device's interface, which soft devices do not say.
SYSFS = "/sys/class/infiniband/{}/device/net/"
LIMIT_SECONDS = 240  # without a result: a hang

Results = Dict[str, Dict[str, Any]]


class Suite:
    def __init__(self, folder: str, device: str, gid: int, netdev: str, left_out: Dict[str, str]):
        """folder: an empty one to unpack it in; left_out: tests to skip, and why."""
        self.left_out = left_out
        self.folder, self.device, self.gid = folder, device, gid
        self.runs = 0
        shutil.copytree(SHIPPED, os.path.join(folder, "tests"))
        os.makedirs(os.path.join(folder, "net", netdev))
        for path, _, names in os.walk(os.path.join(folder, "tests")):
            for name in names:
                self._prepare(os.path.join(path, name))
        # The suite finds this one as a module of its own folder and as one of the path.
        shutil.copy(os.path.join(folder, "tests", "args_parser.py"), folder)

    def _prepare(self, path: str) -> None:
        """Unpack a file of the suite, and have it look for interfaces in self.folder instead of sysfs."""
        with open(path, "rb") as file:
            data = file.read()
        text = (gzip.decompress(data) if path.endswith(".gz") else data).decode()
        with open(path.removesuffix(".gz"), "w", encoding="utf-8") as file:
            file.write(text.replace(SYSFS, os.path.join(self.folder, "net", "")))

    def run(self, env: Dict[str, str], only: Optional[List[str]] = None) -> Results:
        """The results of all tests, or of `only`: status (pass, fail, skip, crash, hang), why, seconds.

        After a crash or hang another process runs the tests that have no result yet.
        """
        test_results: Results = {
            test: {"status": "skip", "why": why, "seconds": 0}
            for test, why in self.left_out.items()
        }
        while True:
            failure = self._run_process(env, only, test_results)
            unfinished = [
                name for name, result in test_results.items() if result["status"] == "began"
            ]
            for name in unfinished:
                test_results[name] = {
                    "status": failure.split(":")[0],
                    "why": failure,
                    "seconds": 0,
                }
            if not unfinished:
                if failure:
                    raise RuntimeError(f"the suite did not run: {failure}\n{self.read_log()}")
                return test_results

    def _run_process(
        self, env: Dict[str, str], only: Optional[List[str]], test_results: Results
    ) -> str:
        """Run the tests without a result in one process, and add their results to test_results.

        Returns how the process failed, such as "crash: status -11"; empty if it did not.
        """
        self.runs += 1
        results = os.path.join(self.folder, f"results{self.runs}")
        with open(results, "wb"):
            pass
        choice = {"device": self.device, "gid": self.gid, "only": only, "done": list(test_results)}
        with open(os.path.join(self.folder, "log"), "ab") as log:
            process = subprocess.Popen(
                ["/usr/bin/python3", INSIDE, results, json.dumps(choice)],
                cwd=self.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        failure = self._wait_process(process, results)
        with open(results, encoding="utf-8") as file:
            for line in file:
                result = json.loads(line)
                test_results[result.pop("test")] = result
        return failure

    def _wait_process(self, process: "subprocess.Popen[bytes]", results: str) -> str:
        """Wait for the end of the process, and kill its group. Returns how it failed; empty if it did not."""
        size, last_growth = 0, time.monotonic()
        failure = ""
        while not failure:
            try:
                status = process.wait(0.2)
                failure = f"crash: status {status}" if status else ""
                break
            except subprocess.TimeoutExpired:
                if os.path.getsize(results) != size:
                    size, last_growth = os.path.getsize(results), time.monotonic()
                elif time.monotonic() - last_growth > LIMIT_SECONDS:
                    failure = f"hang: more than {LIMIT_SECONDS} s"
        try:  # and what the test had started
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        return failure

    def read_log(self) -> str:
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-20:])

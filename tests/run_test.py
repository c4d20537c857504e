#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs one CTest test and shows its cases.

    run_test.py [OPTION...] NAME KIND ARGUMENT...

KIND: cmocka PROGRAM, bats FILE..., unittest FILE and tap COMMAND... print TAP; command COMMAND... is
one case, which passes if its exit status is 0.

The log is $BUILD/logs/NAME.log, the results are in NAME.results beside it. All processes of the test
are killed at its end. Exit status: 0 no case failed, 1 a case failed, 77 all cases were skipped.
Environment:

  TEST_FILTER      a regular expression: run only the bats cases that match it as "NAME: CASE"
  LAB              the kernel for --lab: uml (the default) or qemu
"""

import argparse
import contextlib
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from typing import Any, List, NoReturn, Optional

BUILD = os.environ.get("BUILD", "build/release")
ELSEWHERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "elsewhere")
TAP_RESULT = re.compile(r"(not )?ok (\d+)(?: -)? ?(.*)$")
TAP_SKIP = re.compile(r"(.*?) *# skip ?(.*)$", re.IGNORECASE)
MAX_OUTPUT_LINES = 20  # of a failed case
# Where the report of a sanitizer or of valgrind begins.
REPORT_START = re.compile(
    r"(WARNING|ERROR): \w+Sanitizer|runtime error:|==\d+== (ERROR|Invalid|Cond|Use)"
)


class Case:
    """One case of the test; result: ok, FAIL or skip."""

    def __init__(self, result: str, name: str, reason: str = "") -> None:
        self.result, self.name, self.reason = result, name, reason
        self.comments: List[str] = []
        self.seconds = 0.0

    def summary(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"  {self.result:<4} {self.name}{reason}"


class TapParser:
    """Reads the cases of a TAP stream."""

    def __init__(self) -> None:
        self.cases: List[Case] = []
        self.num_planned: Optional[int] = None
        # Since the last case; cmocka prints the reason of a skip before its case.
        self.comments: List[str] = []
        self.last_end_time = time.monotonic()  # of a case

    def parse_line(self, line: str) -> None:
        if plan := re.match(r"1\.\.(\d+)", line):
            self.num_planned = int(plan.group(1))
        elif result := TAP_RESULT.match(line):
            name = result.group(3)
            if skipped := TAP_SKIP.match(name):
                case = Case("skip", skipped.group(1), skipped.group(2))
                if not case.name:  # cmocka: "ok 1 # SKIP name"
                    case.name = case.reason
                    case.reason = (self.comments or ["no reason given"])[-1].replace(
                        "skipped: ", "", 1
                    )
                case.reason = case.reason or "no reason given"
            else:
                case = Case("FAIL" if result.group(1) else "ok", name)
            now = time.monotonic()
            case.seconds, self.last_end_time = now - self.last_end_time, now
            self.cases.append(case)
            self.comments = []
        elif line.startswith("#"):
            comment = line[1:].strip()
            self.comments.append(comment)
            if self.cases:
                self.cases[-1].comments.append(comment)

    def finish(self, status: int, last_line: str) -> None:
        """Called when the command has ended, with its exit status and last line of output.

        Adds a failed case if the number of cases or the exit status contradicts the cases; without cases
        and with status 77, a skipped one.
        """
        has_failed_case = any(case.result == "FAIL" for case in self.cases)
        if status == 77 and not self.cases:
            self.cases.append(Case("skip", "all", last_line or "no reason given"))
        elif self.num_planned != len(self.cases):
            planned = "none" if self.num_planned is None else self.num_planned
            self.cases.append(Case("FAIL", f"{len(self.cases)} cases ran, {planned} were planned"))
        elif status != 0 and not has_failed_case:
            self.cases.append(Case("FAIL", f"exit status {status}, but no case failed"))


class TapPrinter(unittest.TestResult):
    """Prints TAP."""

    def report(self, test: Any, prefix: str = "", suffix: str = "", comments: str = "") -> None:
        name = test.id().split(".", 1)[-1]
        print(f"{prefix}ok {self.testsRun} - {name}{suffix}", flush=True)
        for line in comments.splitlines():
            print(f"# {line}", flush=True)

    def addSuccess(self, test: Any) -> None:
        self.report(test)

    def addError(self, test: Any, err: Any) -> None:
        self.report(test, "not ", comments=self._exc_info_to_string(err, test))  # type: ignore

    def addFailure(self, test: Any, err: Any) -> None:
        self.addError(test, err)

    def addSkip(self, test: Any, reason: str) -> None:
        self.report(test, suffix=f" # SKIP {reason}")


def run_unittest(file: str) -> NoReturn:
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    module = os.path.splitext(os.path.basename(file))[0]
    suite = unittest.defaultTestLoader.loadTestsFromName(module)
    print(f"1..{suite.countTestCases()}", flush=True)
    suite.run(TapPrinter())
    sys.exit(0)


def bats_cases(files: List[str]) -> List[str]:
    """Names of the cases of bats files, in order."""
    names = []
    for file in files:
        with open(file, encoding="utf-8") as text:
            names += re.findall(r"^@test ([\"'])(.+)\1 \{", text.read(), re.MULTILINE)
    return [name for _, name in names]


def bats_filter_options(test_name: str, files: List[str]) -> List[str]:
    """Options of bats for the cases that match TEST_FILTER; none: all of the test."""
    pattern = os.environ.get("TEST_FILTER")
    if not pattern or re.search(pattern, test_name):
        return []
    matching = [case for case in bats_cases(files) if re.search(pattern, f"{test_name}: {case}")]
    return ["--filter", "^(%s)$" % "|".join(map(re.escape, matching))] if matching else []


def console_path(test_name: str) -> str:
    return f"{BUILD}/logs/{test_name}.console"


def make_command(options: argparse.Namespace, temp_folder: str) -> List[str]:
    """The command of the test, with --lab in a guest. The guest's writes to temp_folder are kept."""
    arguments = options.argument
    if options.kind == "bats":
        files = [argument for argument in arguments if argument.endswith(".bats")]
        bats = "bats --formatter tap --print-output-on-failure".split()
        command = bats + bats_filter_options(options.name, files) + arguments
    elif options.kind == "unittest":
        command = [sys.executable, os.path.abspath(__file__), "--unittest", *arguments]
    else:
        command = arguments
    if options.elsewhere:
        os.chmod(temp_folder, 0o711)  # other users may search it, as they may /tmp
        command = [ELSEWHERE, f"{temp_folder}/another folder", *command]
    if options.lab is not None:
        lab_options = shlex.split(options.lab)
        if "--in" not in lab_options:
            lab_options = ["--in", os.environ.get("LAB", "uml")] + lab_options
        # Hosts that have a kernel each share the folder for temporary files.
        lab = ["scripts/softrdma", "run", *lab_options]
        lab += ["--write", temp_folder, "--write", f"{BUILD}/logs"]
        lab += ["--console", console_path(options.name)]
        command = lab + ["--", "env", f"TMPDIR={temp_folder}", *command]
    return list(command)


class TestProcesses:
    """The processes of the test, also daemons: those with the mark in their environment, and those of
    its session, which may have another environment."""

    def __init__(self) -> None:
        self.mark = f"COHERDMA_TEST={os.getpid()}.{time.time_ns()}"
        self.session = 0

    def pids(self) -> List[int]:
        pids = []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environ:
                    marked = self.mark.encode() in environ.read().split(b"\0")
                if marked or os.getsid(pid) == self.session:
                    pids.append(pid)
            except OSError:  # the process has ended, or belongs to another user
                pass
        return pids

    def format_table(self) -> str:
        """What ps says of them, for a test that hangs."""
        pid_list = ",".join(map(str, self.pids()))
        if not pid_list:
            return ""
        ps = ["ps", "-ww", "-o", "pid,etime,wchan:20,args", "-p", pid_list]
        return subprocess.run(ps, stdout=subprocess.PIPE, text=True, check=False).stdout

    def kill(self) -> None:
        """SIGTERM first; those that are alive three seconds later get SIGKILL."""
        for signum in (signal.SIGTERM, signal.SIGKILL):
            sent = False
            for _ in range(30):
                pids = self.pids()
                if not pids:
                    return
                if not sent:
                    for pid in pids:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signum)
                    sent = True
                time.sleep(0.1)


def finish(options: argparse.Namespace, cases: List[Case], log: str) -> NoReturn:
    """Write NAME.results, print the cases, and exit with the test's status."""
    with open(f"{BUILD}/logs/{options.name}.results", "w", encoding="utf-8") as file:
        for case in cases:
            if not options.setup or case.result != "ok":
                reason = case.reason
                if case.result == "FAIL" and not reason and case.comments:
                    reason = case.comments[0][:160]
                fields = [case.result, case.name, reason, f"{case.seconds:.1f}"]
                file.write("\t".join(re.sub(r"\s+", " ", field) for field in fields) + "\n")
    results = ("ok", "FAIL", "skip")
    count = {result: sum(case.result == result for case in cases) for result in results}
    failed = [case for case in cases if case.result == "FAIL"]
    for case in cases:
        if case.result == "skip" or not failed:
            print(case.summary())
    for case in failed:
        print(case.summary())
        for comment in case.comments[-MAX_OUTPUT_LINES:]:
            print(f"         {comment[:160]}")
    if failed:
        filter_text = options.name + (f": {failed[0].name}" if options.kind == "bats" else "")
        if os.path.exists(console_path(options.name)):
            with open(console_path(options.name), encoding="utf-8", errors="replace") as console:
                print("  the guest's kernel printed:")
                print(
                    "".join(f"         {line}" for line in console.readlines()[-MAX_OUTPUT_LINES:]),
                    end="",
                )
            print(f"  console: {console_path(options.name)}")
        again_filter = f"^{re.escape(filter_text)}$".replace("\\ ", " ")
        print(f"  log:   {log}\n  again: scripts/test -k {shlex.quote(again_filter)}")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{count['ok']} passed, {count['FAIL']} failed, {count['skip']} skipped; "
        f"{usage.ru_utime + usage.ru_stime:.1f} s of processor time"
    )
    sys.exit(1 if failed else 77 if count["ok"] == 0 else 0)


def main() -> None:
    if sys.argv[1:2] == ["--unittest"]:
        run_unittest(sys.argv[2])
    parser = argparse.ArgumentParser(description="Runs one CTest test and shows its cases.")
    parser.add_argument("--timeout", type=float, required=True, metavar="SECONDS")
    parser.add_argument(
        "--setup", action="store_true", help="a fixture of other tests: not counted"
    )
    parser.add_argument(
        "--elsewhere", action="store_true", help="run as another user may; see tests/elsewhere"
    )
    parser.add_argument(
        "--lab", metavar="OPTIONS", help="run in a guest, with these options of softrdma run"
    )
    parser.add_argument("name")
    parser.add_argument("kind", choices=["cmocka", "bats", "unittest", "tap", "command"])
    parser.add_argument("argument", nargs=argparse.REMAINDER)
    options = parser.parse_args()

    os.makedirs(f"{BUILD}/logs", exist_ok=True)
    log = f"{BUILD}/logs/{options.name}.log"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(console_path(options.name))
    tap, processes = TapParser(), TestProcesses()
    name, value = processes.mark.split("=")
    environment = {**os.environ, name: value, "CMOCKA_MESSAGE_OUTPUT": "TAP"}
    temp_folder = tempfile.mkdtemp(prefix="test-")
    kill_reasons: List[str] = []
    lines: List[str] = []

    def kill_test(signum: int = 0, _frame: Any = None) -> None:
        kill_reasons.append(
            "interrupted" if signum else f"still running after {options.timeout:.0f} s"
        )
        lines.extend(["== processes at that time:\n", processes.format_table()])
        processes.kill()

    def kill_daemons(command: "subprocess.Popen[str]") -> None:
        # A daemon may keep the pipe open after the command has ended.
        command.wait()
        time.sleep(0.2)
        processes.kill()

    with open(log, "w", encoding="utf-8", errors="replace") as file:
        child = subprocess.Popen(
            make_command(options, temp_folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        processes.session = child.pid
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, kill_test)
        timer = threading.Timer(options.timeout, kill_test)
        timer.start()
        threading.Thread(target=kill_daemons, args=(child,), daemon=True).start()
        assert child.stdout
        last_line = ""
        for line in child.stdout:
            file.write(line)
            file.flush()
            last_line = line.strip() or last_line
            lines.append(line)
            if options.kind != "command":
                tap.parse_line(line.rstrip("\n"))
        status = child.wait()
        timer.cancel()
        processes.kill()
        file.writelines(lines[-2:] if kill_reasons else [])
    shutil.rmtree(temp_folder, ignore_errors=True)

    if options.kind == "command":
        result = {0: "ok", 77: "skip"}.get(status, "FAIL")
        tap.cases = [Case(result, options.name, "" if status == 0 else last_line)]
        tap.cases[0].comments = [line.rstrip() for line in lines]
    else:
        tap.finish(status, last_line)
    if kill_reasons:
        tap.cases.append(Case("FAIL", kill_reasons[0]))
        tap.cases[-1].comments = lines[-1].splitlines()
    elif any(case.name.endswith("were planned") for case in tap.cases):
        tap.cases[-1].comments = [line.rstrip() for line in lines]
    elif any(case.name.endswith("but no case failed") for case in tap.cases):
        start = next((i for i, line in enumerate(lines) if REPORT_START.search(line)), len(lines))
        tap.cases[-1].comments = [line.rstrip() for line in lines[start:][:MAX_OUTPUT_LINES]]
    finish(options, tap.cases, log)


if __name__ == "__main__":
    main()

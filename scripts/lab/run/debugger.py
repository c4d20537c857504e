# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A process that waits for a debugger (run --gdb): it stops before the first instruction of its program."""

import contextlib
import ctypes
import os
import re
import signal
from typing import Optional

from ..core import progress
from ..core.errors import LabError, Unavailable

PTRACE_TRACEME, PTRACE_DETACH = 0, 17
ADDR_NO_RANDOMIZE = 0x0040000
PR_SET_PTRACER, PR_SET_PTRACER_ANY = 0x59616D61, ctypes.c_ulong(-1)
# What user mode handles itself: faults, timer, input, the end of processes, interrupts of other processors.
HANDLED_SIGNALS = "SIGSEGV SIGUSR1 SIGALRM SIGIO SIGCHLD SIGWINCH SIGCONT SIG34"
PTRACE_SCOPE_FILE = "/proc/sys/kernel/yama/ptrace_scope"
ADMIN_SCOPE = 2  # only processes with CAP_SYS_PTRACE may trace

ATTACH_SECONDS = 1.0  # more than gdb needs to attach to a stopped process

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def require_permission() -> None:
    """Raise if a child may not be traced: a run would wait for its stop without end."""
    child = os.fork()
    if child == 0:
        os._exit(int(_libc.ptrace(PTRACE_TRACEME, 0, None, None) != 0))
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise Unavailable(
            "--gdb: processes of this one may not be traced, as under strace or in a container that forbids ptrace; "
            "run it without strace, or outside of the container"
        )


def prepare_child() -> None:
    """For the child between fork and exec, before it is confined."""
    # Else the kernel executes itself again without it, and the debugger has to follow.
    _libc.personality(ctypes.c_ulong(ADDR_NO_RANDOMIZE))
    # Where Yama is enabled, only a parent could trace it. gdb of another terminal is not.
    _libc.prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)
    _libc.ptrace(PTRACE_TRACEME, 0, None, None)


class WaitingProcess:
    """A process that has executed its program, and waits for a debugger.

    It is stopped as by Ctrl-Z, and would be again when the debugger leaves it: check() ends that.
    """

    def __init__(self, pid: int):
        """For the parent of the child."""
        self.pid = pid
        self.traced_since: Optional[float] = None
        self.is_stopped = True
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            raise LabError("--gdb: the user-mode kernel ended before a debugger could stop it")
        if _libc.ptrace(PTRACE_DETACH, pid, None, ctypes.c_void_p(int(signal.SIGSTOP))) != 0:
            reason = os.strerror(ctypes.get_errno())
            raise LabError(f"--gdb: the user-mode kernel cannot be left to a debugger: {reason}")

    def check(self, now: float) -> None:
        """Called often, with the monotonic time."""
        if not self.is_stopped:
            return
        if self.traced_since is None:
            self.traced_since = now if self._is_traced() else None
        elif now - self.traced_since > ATTACH_SECONDS:
            self.is_stopped = False
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)

    def _is_traced(self) -> bool:
        try:
            with open(f"/proc/{self.pid}/status", encoding="ascii", errors="replace") as file:
                return not re.search(r"^TracerPid:\t0$", file.read(), re.MULTILINE)
        except OSError:  # it has ended
            return False


def print_instructions(pid: int, name: str) -> None:
    """Print what to type in another terminal. name: which guest it is."""
    prefix = "sudo " if _needs_root() else ""
    progress.instruct(
        f"the kernel of {name} waits for a debugger; type in another terminal, set breakpoints, and then: continue\n"
        f"{prefix}gdb -p {pid} -ex 'handle {HANDLED_SIGNALS} nostop noprint pass' "
        "-ex 'handle SIGSTOP nostop noprint nopass'"
    )


def _needs_root() -> bool:
    try:
        with open(PTRACE_SCOPE_FILE, encoding="ascii") as file:
            return int(file.read()) >= ADMIN_SCOPE and os.geteuid() != 0
    except (OSError, ValueError):
        return False

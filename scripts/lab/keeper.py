# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The process that cleans up, however softrdma ends.

softrdma is two processes. The front is the one the caller started; it only
waits, hands signals on and returns the status. The keeper, its child, does
the work. When the front dies, even from SIGKILL, the kernel sends the keeper
SIGTERM, so every end is the same end: an exception that unwinds the Undo
stacks. The keeper is also the subreaper of everything it starts: whatever is
still alive when the work is over is killed, daemons included.

Two rules keep this whole: an undo is put on the stack before the deed (and so
must bear that the deed never happened), and signals wait while undos run.
"""

import contextlib
import ctypes
import errno
import os
import shutil
import signal
import sys
import time
from typing import Any, Callable, Iterator, List, Optional

from . import say
from .errors import CannotHere, Interrupted, LabError

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# What the front sends for a Ctrl-C: on the terminal the command got it already.
TERMINAL_STOP = signal.SIGUSR1
SI_KERNEL = 0x80
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

_libc = ctypes.CDLL(None, use_errno=True)
_front = 0
_scratch = ""
_deferred = 0
_pending: Optional[int] = None
_unwinding = False
_listener: Optional[Callable[[int], None]] = None


def run(work: Callable[[], int], rescue: Callable[[], None]) -> int:
    """The status of work(), done in the keeper. rescue() is for the front,
    should the keeper itself be killed."""
    global _front, _scratch
    _front = os.getpid()
    _scratch = os.path.join(
        os.environ.get("TMPDIR") or "/tmp", f"softrdma.{_front}.{os.urandom(4).hex()}"
    )
    signal.pthread_sigmask(signal.SIG_BLOCK, {*STOPS, signal.SIGCHLD})
    sys.stdout.flush()
    keeper = os.fork()
    if keeper == 0:
        os._exit(_keep(work))
    with contextlib.suppress(OSError):
        os.setpgid(keeper, keeper)  # both sides set it, so neither has to wait
    status = _wait(keeper)
    if status is None:
        rescue()
        shutil.rmtree(_scratch, ignore_errors=True)
        say.error(
            "its working process was killed; nothing of it is left, but the work was not done"
        )
        return 1
    return status


def _wait(keeper: int) -> Optional[int]:
    while True:
        got = signal.sigwaitinfo({*STOPS, signal.SIGCHLD})
        if got.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(keeper, os.WNOHANG)
            if pid:
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
            continue
        typed = got.si_code == SI_KERNEL and got.si_signo in (signal.SIGINT, signal.SIGQUIT)
        with contextlib.suppress(ProcessLookupError):
            os.kill(keeper, TERMINAL_STOP if typed else got.si_signo)
            os.kill(keeper, signal.SIGCONT)  # should the terminal have stopped it


def _keep(work: Callable[[], int]) -> int:
    os.setpgid(0, 0)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    for signum in (*STOPS, TERMINAL_STOP):
        signal.signal(signum, _on_signal)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # we report progress from the background
    sys.unraisablehook = _unraisable
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    try:
        if os.getppid() != _front:
            raise Interrupted(signal.SIGTERM)
        return work()
    except LabError as problem:
        say.error(str(problem))
        return problem.status
    except Interrupted as stop:
        return stop.status
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
            return _fault()
        say.error(
            f"no room left on the disk{f' for {problem.filename}' if problem.filename else ''}"
        )
        return CannotHere.status
    except Exception:  # noqa: BLE001  (a fault of ours: show it, and still clean up)
        return _fault()
    finally:
        with deferred():
            end_children()
            with contextlib.suppress(OSError):
                sys.stdout.flush()


def _fault() -> int:
    import traceback

    traceback.print_exc()
    say.error("this is a fault of softrdma itself; please report the lines above")
    return 1


def _on_signal(signum: int, _frame: Any) -> None:
    global _pending, _unwinding
    orphaned = os.getppid() != _front
    if _listener and not orphaned:
        _listener(signum)
    elif _deferred or _unwinding:
        _pending = _pending or signum
    else:
        _unwinding = True
        raise Interrupted(signal.SIGINT if signum == TERMINAL_STOP else signum)


def _unraisable(swallowed: "sys.UnraisableHookArgs") -> None:
    """While an object is destroyed nothing can be raised, nor here: what stops the work comes again."""
    global _unwinding
    stop = swallowed.exc_value
    if not isinstance(stop, Interrupted):
        sys.__unraisablehook__(swallowed)
        return
    _unwinding, signum = False, stop.signum
    signal.signal(signal.SIGALRM, lambda *_: _on_signal(signum, None))
    signal.setitimer(signal.ITIMER_REAL, 0.01)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Signals wait until the block is over."""
    global _deferred, _pending, _unwinding
    _deferred += 1
    try:
        yield
    finally:
        _deferred -= 1
        if not _deferred and _pending and not _unwinding:
            signum, _pending, _unwinding = _pending, None, True
            raise Interrupted(signal.SIGINT if signum == TERMINAL_STOP else signum)


@contextlib.contextmanager
def listening(listener: Callable[[int], None]) -> Iterator[None]:
    """Signals go to listener() instead of ending the work; unless the front died."""
    global _listener
    _listener = listener
    try:
        yield
    finally:
        _listener = None


class Undo(contextlib.ExitStack):
    """What has to be undone when the block is left; no signal interrupts it."""

    def __exit__(self, *details: Any) -> Any:
        with deferred():
            return super().__exit__(*details)


def scratch(undo: Undo) -> str:
    """A folder of this run's own, gone with the undo."""
    undo.callback(shutil.rmtree, _scratch, ignore_errors=True)
    try:
        os.makedirs(_scratch, mode=0o700)
    except PermissionError as problem:
        raise CannotHere(
            f"cannot make {_scratch}: {problem.strerror}; set TMPDIR to a folder you can write"
        ) from problem
    return _scratch


def front_pid() -> int:
    """The process whose run this is: without a keeper (in a guest), our own."""
    return _front or os.getpid()


def die_with_parent() -> None:
    """For a child between fork and exec: it ends when the keeper is killed."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _children() -> List[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def end_children(limit: float = 10.0) -> None:
    """Kill all descendants: those of a killed child become our own."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.01)
    say.error(f"processes {_children()} do not end; the kernel holds them")

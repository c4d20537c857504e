# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Cleans up, however softrdma ends.

softrdma is two processes. The front process is the one that the user started;
it forwards signals and returns the exit status. Its child, the worker, does
the work. If the front process dies, even by SIGKILL, the kernel sends SIGTERM
to the worker, so that every end is an exception that unwinds the Undo stacks.
The worker is also the subreaper of its descendants, and kills those that are
alive when the work is done. If the worker is killed, its descendants become
those of the front process, a subreaper, too, which kills them and cleans up.

Two rules: an undo function is registered before the action, so it has to
accept that the action did not happen; and signals are deferred while undo
functions run.
"""

import contextlib
import ctypes
import errno
import os
import signal
import sys
import time
from typing import AbstractSet, Any, Callable, Iterator, List, Optional

from .. import LAB_DIR
from . import progress, trust
from .errors import OK, Interrupted, LabError, Unavailable

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# What the front process sends to the worker for a signal of the terminal (Ctrl-C): the terminal
# has sent it to the command as well.
TERMINAL_SIGNAL = signal.SIGUSR1
SI_KERNEL = 0x80
MEMORY_FILE_SYSTEM = "/dev/shm"
PACKAGE = __name__.partition(".")[0]
RUN_NAME = r"softrdma\.[0-9]+\.[0-9a-f]{16}"  # a regular expression for run_name()
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

_libc = ctypes.CDLL(None, use_errno=True)
_front_pid = 0
_run_name = _run_folder = _memory_folder = ""
_defer_depth = 0  # the number of entered defer_signals() blocks
_pending_signal: Optional[int] = None  # a signal that was deferred
_unwinding = False  # Interrupted was raised; no other one is
_signal_handler: Optional[Callable[[int], None]] = None  # of handle_signals()


def run(work: Callable[[], int], clean_up_after_worker: Callable[[], None]) -> int:
    """Do the work in the worker process. Returns its exit status.

    clean_up_after_worker: called by the front process if the worker is killed.
    """
    global _front_pid, _run_folder, _memory_folder
    _front_pid = os.getpid()
    _run_folder = os.path.abspath(os.path.join(os.environ.get("TMPDIR") or "/tmp", run_name()))
    _memory_folder = os.path.join(MEMORY_FILE_SYSTEM, run_name())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would not report the worker's end
    signal.pthread_sigmask(signal.SIG_BLOCK, {*STOP_SIGNALS, signal.SIGCHLD})
    # Those of a shell that started them and then executed softrdma.
    former_children = frozenset(_child_pids())
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    sys.stdout.flush()
    worker = os.fork()
    if worker == 0:
        os._exit(_run_worker(work))
    with contextlib.suppress(OSError):
        os.setpgid(worker, worker)  # the worker does so, too: neither has to wait for the other
    status = _wait_for_worker(worker)
    if status is None:
        kill_descendants(former_children)  # a device cannot be removed while a process uses it
        clean_up_after_worker()
        progress.error(
            "the worker process was killed; its devices and its files outside the cache are removed; "
            "the next build removes those in the cache"
        )
        return 1
    return status


def _wait_for_worker(worker: int) -> Optional[int]:
    """Forward signals. Returns the worker's exit status; None if it was killed."""
    while True:
        info = signal.sigwaitinfo({*STOP_SIGNALS, signal.SIGCHLD})
        if info.si_signo == signal.SIGCHLD:
            status = _reap_children(worker)
            if status is not None:
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
            continue
        from_terminal = info.si_code == SI_KERNEL and info.si_signo in (
            signal.SIGINT,
            signal.SIGQUIT,
        )
        with contextlib.suppress(ProcessLookupError):
            # The terminal has sent Ctrl-C to the command as well: TERMINAL_SIGNAL.
            os.kill(worker, TERMINAL_SIGNAL if from_terminal else info.si_signo)
            os.kill(worker, signal.SIGCONT)  # the terminal may have stopped it


def _reap_children(worker: int) -> Optional[int]:
    """Reap all children that have ended. Returns the wait status of the worker if it is one of them."""
    worker_status = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == worker:
                worker_status = status
    return worker_status


def _run_worker(work: Callable[[], int]) -> int:
    """Runs in the child process. Returns its exit status, also for an exception."""
    os.setpgid(0, 0)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    for signum in (*STOP_SIGNALS, TERMINAL_SIGNAL):
        signal.signal(signum, _on_signal)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # the worker writes to the terminal
    # Python runs handlers between two bytecodes. A signal that arrives after that check and before
    # a blocking system call is handled when the timer interrupts the call.
    signal.signal(signal.SIGALRM, _on_timer)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)
    sys.unraisablehook = _on_unraisable
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    status = LabError.status
    try:
        status = _do_work(work)
    finally:
        with defer_signals():
            kill_descendants()
            status = flush_output(status)
    return status


def _do_work(work: Callable[[], int]) -> int:
    """Returns the exit status, also for an exception."""
    try:
        if os.getppid() != _front_pid:  # it died before PR_SET_PDEATHSIG
            raise Interrupted(signal.SIGTERM)
        return work()
    except LabError as problem:
        progress.error(str(problem))
        return problem.status
    except Interrupted as stop:
        return stop.status
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    except ImportError as problem:
        is_own = str(problem.name).startswith(PACKAGE + ".")
        return _report_damage(str(problem)) if is_own else _report_bug()
    except OSError as problem:
        if str(problem.filename).startswith(LAB_DIR + os.sep):
            return _report_damage(f"{problem.filename}: {problem.strerror}")
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
            return _report_bug()
        path = f" for {problem.filename}" if problem.filename else ""
        progress.error(f"no space left on the disk{path}")
        return Unavailable.status
    except Exception:  # noqa: BLE001  (a bug: print it, and clean up)
        return _report_bug()


def flush_output(status: int) -> int:
    """Returns the exit status. A pipe whose reader has ended is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except OSError as problem:
        if status == OK:
            progress.error(f"cannot write to standard output: {problem.strerror}")
            return LabError.status
    return status


def _report_damage(reason: str) -> int:
    """Of softrdma's own files."""
    progress.error(f"this softrdma is damaged: {reason}; {trust.reinstall_remedy()}")
    return LabError.status


def _report_bug() -> int:
    import traceback

    progress.error("this is a bug of softrdma; please report:\n" + traceback.format_exc().rstrip())
    return 1


def _on_signal(signum: int, _frame: Any) -> None:
    """Call the handler if there is one; else raise Interrupted, or let defer_signals() raise it."""
    global _pending_signal, _unwinding
    front_died = os.getppid() != _front_pid
    if _signal_handler and not front_died:
        _signal_handler(signum)
    elif _defer_depth or _unwinding:
        _pending_signal = _pending_signal or signum
    else:
        _unwinding = True
        raise Interrupted(signal.SIGINT if signum == TERMINAL_SIGNAL else signum)


def _on_timer(_signum: int, _frame: Any) -> None:
    """Raise a signal that no defer_signals() block will raise; see _on_unraisable()."""
    global _pending_signal
    if _pending_signal and not _defer_depth and not _unwinding:
        signum, _pending_signal = _pending_signal, None
        _on_signal(signum, None)


def _on_unraisable(args: "sys.UnraisableHookArgs") -> None:
    """A destructor cannot raise Interrupted, nor can this function: let the timer raise it."""
    global _pending_signal, _unwinding
    exception = args.exc_value
    if not isinstance(exception, Interrupted):
        sys.__unraisablehook__(args)
        return
    _unwinding, _pending_signal = False, exception.signum
    signal.setitimer(signal.ITIMER_REAL, 0.01, 1)


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Stop signals that arrive in the block are raised at its end."""
    global _defer_depth, _pending_signal, _unwinding
    _defer_depth += 1
    try:
        yield
    finally:
        _defer_depth -= 1
        if not _defer_depth and _pending_signal and not _unwinding:
            signum, _pending_signal, _unwinding = _pending_signal, None, True
            raise Interrupted(signal.SIGINT if signum == TERMINAL_SIGNAL else signum)


@contextlib.contextmanager
def handle_signals(handler: Callable[[int], None]) -> Iterator[None]:
    """Stop signals call handler() in the block, unless the front process died."""
    global _signal_handler
    _signal_handler = handler
    try:
        yield
    finally:
        _signal_handler = None


class Undo(contextlib.ExitStack):
    """Calls the registered undo functions when the block ends. Signals do not interrupt them."""

    def __exit__(self, *details: Any) -> Any:
        with defer_signals():
            return super().__exit__(*details)


def run_folder() -> str:
    """The path of the temporary folder of this run, also in the front process. Empty in a guest."""
    return _run_folder


def memory_folder() -> str:
    """The path of the temporary folder of this run whose files are in memory."""
    return _memory_folder


def run_name() -> str:
    """softrdma.PID.RANDOM: of this run alone, also where several PID namespaces share a folder."""
    global _run_name
    _run_name = _run_name or f"softrdma.{front_pid()}.{os.urandom(8).hex()}"
    return _run_name


def front_pid() -> int:
    """The PID of this run. A guest has no front process: the PID of the caller."""
    return _front_pid or os.getpid()


def die_with_parent() -> None:
    """For a child between fork and exec: the kernel kills it when its parent dies."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _child_pids() -> List[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def wait_for_child(child: int) -> None:
    """Wait until the child has ended; it is not reaped. Orphans that end earlier are reaped."""
    while True:
        info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        if info is None or info.si_pid == child:
            return
        os.waitpid(info.si_pid, 0)


def kill_descendants(spared: AbstractSet[int] = frozenset(), timeout_seconds: float = 10.0) -> None:
    """Kill all descendants, except the spared children and their descendants.

    The children of a killed child become children of this process.
    """
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        children = {*_child_pids()} - spared
        for pid in children:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            # All that have ended: one at a time would list thousands of children each time.
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        if spared and not children:
            return
        time.sleep(0.01)
    pids = sorted({*_child_pids()} - spared)
    progress.error(f"processes {pids} do not end after SIGKILL; see: ps -o pid,stat,wchan")

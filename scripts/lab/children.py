# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Other programs: run them, wait for them, and say what they said when they fail."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from typing import Callable, Dict, List, Optional

from . import keeper
from .errors import CannotHere, LabError

TAIL_LINES = 6
SYSTEM_PATH = ":/usr/sbin:/sbin:/usr/bin:/bin"  # users may lack the first two, a guest's start all


def _found(program: str) -> Optional[str]:
    return shutil.which(program, path=os.environ.get("PATH", "") + SYSTEM_PATH)


def need_all(programs: Dict[str, str], purpose: str) -> None:
    """Programs with the packages that have them: an error says how to get all that are not there."""
    absent = [each for each in programs if not _found(each)]
    if absent:
        are = "is" if len(absent) == 1 else "are"
        raise CannotHere(
            f"{purpose} needs {' and '.join(absent)}, which {are} not installed; "
            f"try: apt-get install {' '.join(programs[each] for each in absent)}"
        )


def need(program: str, package: str, purpose: str) -> str:
    """The path of a program, or an error that says how to get it."""
    need_all({program: package}, purpose)
    return _found(program) or program


def capture(
    argv: List[str],
    env: Optional[Dict[str, str]] = None,
    fails: Optional[str] = None,
    text: str = "",
) -> str:
    """What a short-lived program prints on stdout, given text on stdin."""
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, env=env)
    except OSError as problem:
        raise CannotHere(f"cannot run {argv[0]}: {problem.strerror}") from problem
    if done.returncode:
        raise LabError(
            f"{fails or ' '.join(argv[:3]) + ' failed'}: {tail(done.stderr or done.stdout)}"
        )
    return done.stdout


def work(
    argv: List[str],
    fails: str,
    tick: Optional[Callable[[int], None]] = None,
    error: type = LabError,
    show: bool = False,
    **popen: object,
) -> None:
    """Run a program that may take long; tick() hears meanwhile how many bytes it has printed.

    show: what it prints is for the caller's stderr, not kept for the error.
    """
    from tempfile import TemporaryFile  # not cheap, and a guest has no long work

    with TemporaryFile() as log:
        child = None
        try:
            with keeper.deferred():  # a child that nobody knew of would go on writing, too
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr if show else log,
                    stderr=sys.stderr if show else log,
                    preexec_fn=keeper.die_with_parent,
                    process_group=0,
                    **popen,  # type: ignore[call-overload]
                )
            while child.poll() is None:
                if tick:
                    tick(os.fstat(log.fileno()).st_size)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(0.05)
        except OSError as problem:
            if child:
                raise
            raise CannotHere(f"{fails}: cannot run {argv[0]}: {problem.strerror}") from problem
        finally:  # interrupted: it must not go on writing where we are about to clean up
            if child and child.returncode is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()

        if child.returncode and show:
            raise error(f"{fails}; what it said is above")
        if child.returncode:
            log.seek(0)
            raise error(f"{fails}: {tail(log.read().decode(errors='replace'))}")


def tail(text: str) -> str:
    """The last lines of what a program said, on one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-TAIL_LINES:]) or "it said nothing"

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Run other programs. An error has the last lines of their output."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from typing import Callable, Dict, List, Optional

from . import locks, progress, supervisor
from .errors import LabError, Unavailable

MAX_ERROR_LINES = 6
# Names that differ from those of Debian.
OTHER_PACKAGE_NAMES = {
    "dnf": {
        "iproute2": "iproute",
        "qemu-system-x86": "qemu-system-x86-core",
        "qemu-system-arm": "qemu-system-aarch64-core",
        "xz-utils": "xz",
    },
    "apk": {
        "iproute2": "iproute2 iproute2-rdma",
        "qemu-system-x86": "qemu-system-x86_64",
        "qemu-system-arm": "qemu-system-aarch64",
        "xz-utils": "xz",
    },
}
# A user's PATH may lack the first two, and process 1 of a guest has none.
SYSTEM_PATH = ":/usr/sbin:/sbin:/usr/bin:/bin"


def _find_program(program: str) -> Optional[str]:
    return shutil.which(program, path=os.environ.get("PATH", "") + SYSTEM_PATH)


def require_programs(packages: Dict[str, str], purpose: str) -> None:
    """packages: of each program, by Debian's names. The error names the packages of those that are missing."""
    missing = [program for program in packages if not _find_program(program)]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise Unavailable(
            f"{purpose} needs {' and '.join(missing)}, which {verb} not installed; "
            f"try: {_install_command([packages[program] for program in missing])}"
        )


def _install_command(packages: List[str]) -> str:
    """packages: names and options of apt-get."""
    words = [word for package in packages for word in package.split(" ")]
    manager = next((name for name in OTHER_PACKAGE_NAMES if _find_program(name)), None)
    if manager and not _find_program("apt-get"):
        names = OTHER_PACKAGE_NAMES[manager]
        words = [names.get(word, word) for word in words if not word.startswith("--")]
        action = "add" if manager == "apk" else "install"
        return f"{manager} {action} {' '.join(dict.fromkeys(words))}"
    return f"apt-get install {' '.join(dict.fromkeys(words))}"


def require_program(program: str, package: str, purpose: str) -> str:
    """The path of the program; an error with its package if it is missing."""
    require_programs({program: package}, purpose)
    return _find_program(program) or program


def capture_output(
    argv: List[str],
    env: Optional[Dict[str, str]] = None,
    error_text: Optional[str] = None,
    stdin_text: str = "",
) -> str:
    """The standard output of a program that ends soon."""
    try:
        result = subprocess.run(
            argv,
            input=stdin_text,
            capture_output=True,
            text=True,
            env=env,
            pass_fds=locks.held_fds(),
        )
    except OSError as problem:
        raise Unavailable(f"cannot run {argv[0]}: {problem.strerror}") from problem
    if result.returncode:
        raise LabError(
            f"{error_text or ' '.join(argv[:3]) + ' failed'}: "
            f"{last_lines(result.stderr or result.stdout)}"
        )
    return result.stdout


def run_long(
    argv: List[str],
    error_text: str,
    on_progress: Optional[Callable[[int], None]] = None,
    error_class: type = LabError,
    show_output: bool = False,
    cleanup_seconds: float = 0,
    **popen: object,
) -> None:
    """Run a program that may take long.

    on_progress: called repeatedly with the number of bytes that the program has printed.
    show_output: it prints to stderr; else the error has its last lines.
    cleanup_seconds: how long it can clean up after SIGTERM, before it is killed.
    """
    from tempfile import TemporaryFile  # slow to import, and not used in a guest

    with TemporaryFile() as log:
        child = None
        try:
            with supervisor.defer_signals():  # else a child could run on that `finally` does not kill
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr if show_output else log,
                    stderr=sys.stderr if show_output else log,
                    preexec_fn=_prepare_child,
                    pass_fds=locks.held_fds(),
                    **popen,  # type: ignore[call-overload]
                )
            while child.poll() is None:
                if on_progress:
                    on_progress(os.fstat(log.fileno()).st_size)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(0.05)
        except OSError as problem:
            if child:
                raise
            raise Unavailable(
                f"{error_text}: cannot run {argv[0]}: {problem.strerror}"
            ) from problem
        finally:  # after an interruption the child must not write to a folder that is being removed
            if child and child.returncode is None:
                if cleanup_seconds:
                    os.killpg(child.pid, signal.SIGTERM)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.wait(cleanup_seconds)
                with contextlib.suppress(ProcessLookupError):  # the group has ended
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()

        if child.returncode and show_output:
            raise error_class(f"{error_text}; see its output above")
        if child.returncode:
            log.seek(0)
            raise error_class(f"{error_text}: {last_lines(log.read().decode(errors='replace'))}")


def _prepare_child() -> None:
    """Called between fork and exec."""
    os.setpgid(0, 0)  # for killpg(), which also kills the programs that it starts
    supervisor.die_with_parent()


def last_lines(text: str) -> str:
    """The last lines of a program's output, joined to one, without control characters."""
    lines = [progress.escape(line.strip(), "\t") for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-MAX_ERROR_LINES:]) or "no output"

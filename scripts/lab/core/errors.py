# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The errors of softrdma. Their class decides the exit status.

An error is one line: what failed, on what, the reason, and what to type next.
"""

OK = 0


class LabError(Exception):
    """An operation failed."""

    status = 1


class UsageError(LabError):
    """Invalid arguments."""

    status = 2


class Unavailable(LabError):
    """This machine cannot do it: a privilege, driver, program, network or disk space is missing."""

    status = 77


class Interrupted(BaseException):
    """A signal ends the run. Not an Exception: only the supervisor catches it."""

    def __init__(self, signum: int):
        super().__init__(signum)
        self.signum = signum
        self.status = 128 + signum


def error_for_status(status: int, text: str) -> LabError:
    """The error of a guest, which reported its exit status."""
    for kind in (UsageError, Unavailable):
        if kind.status == status:
            return kind(text)
    return LabError(text)


def exec_status(problem: OSError) -> int:
    """The exit status of a command that cannot be executed, as in a shell."""
    return 127 if isinstance(problem, FileNotFoundError) else 126

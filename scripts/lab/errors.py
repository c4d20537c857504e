# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""How softrdma ends when something is wrong.

Every error is one line for a person: what failed, on what, why, and what to
type next. Its class decides the exit status.
"""

OK = 0


class LabError(Exception):
    """Something failed that should have worked."""

    status = 1


class Misuse(LabError):
    """The caller asked for what does not exist."""

    status = 2


class CannotHere(LabError):
    """This environment cannot do it; another one could."""

    status = 77


class Interrupted(BaseException):
    """A signal asked us to stop. Not an Exception: only the top catches it."""

    def __init__(self, signum: int):
        super().__init__(signum)
        self.signum = signum
        self.status = 128 + signum


def of_status(status: int, text: str) -> LabError:
    """The error that had this status, in a guest."""
    for kind in (Misuse, CannotHere):
        if kind.status == status:
            return kind(text)
    return LabError(text)

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The key that the hosts of `run --peer` share: made by `softrdma key`, a line of text."""

import contextlib
import os
import re
import secrets
import stat

from ..core import progress
from ..core.errors import LabError, UsageError

ENVIRONMENT_NAME = "SOFTRDMA_KEY"
PREFIX = "softrdma-key-1-"  # 1: the version of the format
KEY_BYTES = 32
MAX_FILE_BYTES = 4096
PATTERN = re.compile(f"{PREFIX}([0-9a-f]{{{2 * KEY_BYTES}}})")


def make_key_text() -> str:
    return PREFIX + secrets.token_hex(KEY_BYTES)


def parse_key(text: str, name: str) -> bytes:
    """name: the file or the variable that has the text. The error does not show the text."""
    match = PATTERN.fullmatch(text.strip())
    if not match:
        raise UsageError(f"{name}: this is no key; make one: softrdma key FILE")
    return bytes.fromhex(match[1])


def print_key() -> None:
    """Also a closed pipe is an error: the key is lost."""
    try:
        print(make_key_text(), flush=True)
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise LabError(f"key: cannot write to standard output: {problem.strerror}") from problem


def write_key_file(path: str) -> None:
    """Make a file that only the caller can read. An existing file stays."""
    shown = progress.escape(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        fd = os.open(path, flags, 0o600)
    except FileExistsError:
        raise LabError(
            f"key: {shown} exists, and a key is not overwritten; type another name, or first: rm {shown}"
        ) from None
    except OSError as problem:
        raise LabError(f"key: cannot make {shown}: {problem.strerror}") from problem
    try:
        with open(fd, "w", encoding="ascii") as file:
            os.fchmod(fd, 0o600)  # whatever the umask is
            file.write(make_key_text() + "\n")
    except BaseException as problem:
        with contextlib.suppress(OSError):
            os.unlink(path)
        if isinstance(problem, OSError):
            raise LabError(f"key: cannot write {shown}: {problem.strerror}") from problem
        raise


def read_key_file(path: str) -> bytes:
    """Raises UsageError if users other than the owner can read or write the file."""
    name = f"--key {progress.escape(path)}"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as problem:
        raise UsageError(
            f"{name}: cannot read it: {problem.strerror}; make a key: softrdma key FILE"
        ) from problem
    try:
        _check_key_file(os.fstat(fd), path, name)
        text = os.read(fd, MAX_FILE_BYTES + 1)
    except OSError as problem:
        raise UsageError(f"{name}: cannot read it: {problem.strerror}") from problem
    finally:
        os.close(fd)
    return parse_key("" if len(text) > MAX_FILE_BYTES else text.decode("ascii", "replace"), name)


def _check_key_file(status: os.stat_result, path: str, name: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(
            f"{name}: this is no file; make a key: softrdma key FILE, or put its text in {ENVIRONMENT_NAME}"
        )
    if status.st_uid not in (0, os.geteuid()):
        raise UsageError(
            f"{name}: the file belongs to user {status.st_uid}, neither to you nor to root; "
            "copy it, with: install -m 600"
        )
    if status.st_mode & 0o077:
        raise UsageError(
            f"{name}: other users can read or write the file; type: chmod 600 {progress.escape(path)}, "
            f"or put the key in {ENVIRONMENT_NAME}"
        )

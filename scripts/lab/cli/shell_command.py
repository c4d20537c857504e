# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma shell`, and the shell that it and `softrdma run` start."""

import argparse
import os

from ..core.errors import UsageError

# The caller's shell, if it is one and is there: the guest's programs may be others than this machine's.
START_SHELL = """for shell in "$SHELL" bash; do
    case $shell in */nologin | */false) continue ;; esac
    command -v "$shell" >/dev/null && exec "$shell"
done
exec sh"""
SHELL_ARGV = ["sh", "-c", START_SHELL]
EXAMPLE = "softrdma shell 2 -- rdma link"


def run(options: argparse.Namespace) -> int:
    """Returns the command's exit status."""
    from ..run import shell_client

    words, host = list(options.words), None
    if words and words[0] != "--":
        if not words[0].isdecimal():
            raise UsageError(
                f"shell: expected the number of a host, or -- before a command, not {words[0]}; try: {EXAMPLE}"
            )
        host = int(words.pop(0))
    if words and words.pop(0) != "--":
        raise UsageError(f"shell: put options first, and -- before the command; try: {EXAMPLE}")
    if not words and not os.isatty(0):
        raise UsageError(
            f"shell: a command is missing, and there is no terminal for a shell; try: {EXAMPLE}"
        )
    return shell_client.run(options.pid, host, words or SHELL_ARGV)

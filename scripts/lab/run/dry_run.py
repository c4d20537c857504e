# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What `softrdma run --dry-run` prints."""

import json
import shlex
from typing import List

from ..core.errors import OK
from ..core.run_request import RunRequest


def print_commands(place: str, commands: List[List[str]], request: RunRequest) -> int:
    """Print the command line of each process that would be started. place: here, uml or qemu.

    Returns the exit status.
    """
    if request.dry_run == "json":
        print(
            json.dumps(
                {"schema": 1, "in": place, "commands": commands, "command": request.argv}, indent=2
            )
        )
    else:
        for command in commands:
            print(" ".join(shlex.quote(word) for word in command))
    return OK

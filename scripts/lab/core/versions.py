# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The order of version numbers and device names."""

import re
from typing import List


def natural_key(text: str) -> List[object]:
    """A sort key by which 6.12 follows 6.1, and rxe10 follows rxe9."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", text)]

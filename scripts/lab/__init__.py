# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""softrdma; README.md describes its packages."""

import os

VERSION = "0.1.0"
COMMIT = "$Format:%H$"  # git archive replaces this by the commit: see .gitattributes
LAB_DIR = os.path.dirname(os.path.realpath(__file__))

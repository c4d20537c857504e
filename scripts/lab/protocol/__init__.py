# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What softrdma and the agents in its guests send to each other."""

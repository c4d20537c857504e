# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What runs in a guest: its process 1, its agent, and `on`."""

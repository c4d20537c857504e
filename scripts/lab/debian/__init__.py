# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Debian packages, unpacked and not installed."""

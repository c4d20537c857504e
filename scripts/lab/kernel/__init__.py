# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Kernels of guests: fetched or built, fixed, and cached."""

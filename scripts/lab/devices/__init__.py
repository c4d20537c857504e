# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Soft RDMA devices, and the hosts that have them, on the running kernel."""

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma run`: on the running kernel, in QEMU, or in user-mode kernels."""

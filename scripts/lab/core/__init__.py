# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What all packages use: errors, progress, processes, the cache, the request of `run`."""

# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The files of a release, a module for each kind. scripts/release makes them."""

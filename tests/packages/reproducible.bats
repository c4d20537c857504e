#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Compares the packages in $PACKAGES with those of a second build, without a compiler cache.

@test "a build by another user in another folder gives the same bytes" {
    scripts/package deb --suite bookworm --elsewhere --without check --out "$BATS_TEST_TMPDIR"
    diff <(grep '[.]deb$' "$PACKAGES/bookworm-amd64/SHA256SUMS") <(grep '[.]deb$' "$BATS_TEST_TMPDIR/bookworm-amd64/SHA256SUMS")
}

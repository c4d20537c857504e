#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The steps of .github/workflows/release.yml that are not `scripts/test suite:release`. GitHub itself is not tried:
# gh is a program that writes down its arguments.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    version=$(sed -n 's/^project(coherdma VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
    export LC_ALL=C GITHUB_REF_NAME=v$version GITHUB_REPOSITORY=owner/coherdma
}

# run_step NAME: as GitHub runs it.
run_step() {
    /usr/bin/python3 - "$1" >"$BATS_TEST_TMPDIR/step" <<'END'
import sys, yaml
with open(".github/workflows/release.yml", encoding="utf-8") as file:
    jobs = yaml.safe_load(file)["jobs"].values()
(step,) = (step for job in jobs for step in job["steps"] if step.get("name") == sys.argv[1])
print(step["run"], end="")
END
    (cd "${2:-.}" && bash -e "$BATS_TEST_TMPDIR/step")
}

@test "the tag of the version is accepted, another one is not" {
    run -0 run_step 'compare the tag with the version'
    GITHUB_REF_NAME=v9.9 run -1 run_step 'compare the tag with the version'
    [[ $output == "::error::the tag v9.9 is not v$version, "* ]]
}

@test "all files are published as a draft, if they are as SHA256SUMS says" {
    mkdir "$BATS_TEST_TMPDIR/bin" "$BATS_TEST_TMPDIR/dist"
    # shellcheck disable=SC2016 # $@ is for that program
    printf '#!/bin/sh\nprintf "%%s\\n" "$@"\n' >"$BATS_TEST_TMPDIR/bin/gh"
    chmod +x "$BATS_TEST_TMPDIR/bin/gh"
    for name in softrdma-0.1.0-x86_64.tar.xz 'a b.whl'; do echo data >"$BATS_TEST_TMPDIR/dist/$name"; done
    (cd "$BATS_TEST_TMPDIR/dist" && sha256sum -- * >SHA256SUMS)
    export PATH=$BATS_TEST_TMPDIR/bin:$PATH
    run -0 run_step 'publish a draft' "$BATS_TEST_TMPDIR"
    [[ $output == *$'OK\nrelease\ncreate\n'"v$version"$'\n--repo\nowner/coherdma\n--draft\n--verify-tag\n--title\n'"coherdma $version"* ]]
    [[ $output == *$'\n--\nSHA256SUMS\na b.whl\nsoftrdma-0.1.0-x86_64.tar.xz' ]]
    echo other >>"$BATS_TEST_TMPDIR/dist/a b.whl"
    run -1 run_step 'publish a draft' "$BATS_TEST_TMPDIR"
    [[ $output != *release* ]]
}

#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Format, common faults, spelling and license lines of all files: tracked ones, and untracked ones that are not
# ignored.

bats_require_minimum_version 1.5.0

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    git -c safe.directory='*' ls-files -co --exclude-standard | sort -u |
        while read -r file; do [[ ! -f $file ]] || printf '%s\n' "$file"; done >"$BATS_FILE_TMPDIR/all"
}

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    mapfile -t all <"$BATS_FILE_TMPDIR/all"
    mapfile -t cxx < <(with_name '\.([ch]|[ch]pp)$')
    mapfile -t shell < <({ with_name '\.(sh|bash|bats)$' && with_shebang '[/ ](ba)?sh( |$)' && sourced; } | sort -u)
    mapfile -t python < <({ with_name '\.py$' && with_shebang 'python'; } | sort -u)
    mapfile -t cmake < <(with_name '(^|/)CMakeLists\.txt$|\.cmake$')
    mapfile -t prose < <(with_name '\.(md|[1-8])$|(^|/)packages$')
    source=("${cxx[@]}" "${shell[@]}" "${python[@]}" "${cmake[@]}")
}

# A search without a result is no failure.
with_name() { printf '%s\n' "${all[@]}" | grep -E "$1" || true; }
# Files that shell scripts source, without an extension.
sourced() { awk '/^# shellcheck shell=/ { print FILENAME } FNR == 3 { nextfile }' "${all[@]}"; }
with_shebang() { awk -v shell="$1" '/^#!/ && $0 ~ shell { print FILENAME } { nextfile }' "${all[@]}"; }

# expect_none WHAT: of the offenses on standard input.
expect_none() {
    local offenses
    offenses=$(cat)
    [[ -z $offenses ]] || {
        printf '%s\n%s\n' "$offenses" "$(wc -l <<<"$offenses") $1"
        return 1
    }
}

@test "clang-format changes no C or C++ file" { clang-format --dry-run -Werror "${cxx[@]}"; }
@test "shellcheck finds no fault" {
    # One process for each processor: most of the time is spent on a few long files.
    printf '%s\0' "${shell[@]}" | xargs -0 -n 8 -P "$(nproc)" shellcheck --external-sources --format=gcc
}
@test "flake8 finds no fault" { flake8 "${python[@]}"; }
@test "black changes no Python file" { black --quiet --check --diff --line-length 100 "${python[@]}"; }
@test "mypy finds no type error" {
    mypy --strict --cache-dir "$BUILD/mypy" --ignore-missing-imports --scripts-are-modules "${python[@]}"
}
@test "softrdma uses nothing that Python 3.9 lacks" {
    mypy --strict --cache-dir "$BUILD/mypy" --ignore-missing-imports --python-version 3.9 scripts/softrdma scripts/lab
}
@test "no folder of udapl/dapl includes one above it" {
    tests/lint/layers.py udapl/dapl cm ep event memory ia core
}
@test "udapl/README.md has the table of states of a connection that the code has" { tests/lint/states.py; }
@test "names, comments, messages and documents have no word that words.txt replaces" {
    printf '%s\0' "${source[@]}" "${prose[@]}" | grep -zv '^tests/lint/words' | xargs -0 tests/lint/words.py
}
@test "each source file has its SPDX line" {
    awk 'FNR == 1 { files[FILENAME] }
        /^(\/\/|#|\/\*) SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only( \*\/)?$/ { delete files[FILENAME]; nextfile }
        FNR == 3 { nextfile }
        END { for (file in files) print file }' "${source[@]}" | expect_none 'without the SPDX line'
}
@test "no source file is longer than 800 lines" {
    wc -l "${source[@]}" | awk '$2 != "total" && $1 > 800' | expect_none 'above 800 lines'
}
@test "codespell finds no misspelling" {
    # buildd is Debian's word, iif is of nft, inout of DAT; .TE ends a table of a manual page.
    codespell --ignore-words-list buildd,crate,fpr,iif,inout,nd,te "${source[@]}" "${prose[@]}"
}
@test "each action of a workflow is named by a commit, with its version" {
    # A tag, unlike a commit, can later name other code. ./FOLDER is of the same checkout.
    with_name '\.(ya?ml|md)$' | tr '\n' '\0' |
        { xargs -0 grep -nHE '(^|[[:blank:]{,-])uses:[[:blank:]]+[^[:blank:]]' || true; } |
        { grep -vE 'uses: \./[a-z]+( #|$)|uses: (https://)?([[:alnum:]_.-]+/)+[[:alnum:]_.-]+@[0-9a-f]{40} # v[0-9]+(\.[0-9]+){2}$' || true; } |
        expect_none 'actions are not named as uses: OWNER/NAME@COMMIT # vN.N.N'
}
@test "no line ends in blanks" {
    # Context lines of a patch may.
    printf '%s\0' "${all[@]}" | grep -zvE '\.(patch|diff)$' |
        { xargs -0 grep -nIHE '[[:blank:]]+$' || true; } | expect_none 'lines end in blanks'
}

#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The ABI of libcoherdma's stable headers is that of tests/data/coherdma/abi.xml: functions with
# their parameters, structs and enumerators. After an addition, write the file again:
#
#     UPDATE=1 scripts/test -k '^unit\.coherdma\.abi$'

bats_require_minimum_version 1.5.0

setup() {
    recorded=tests/data/coherdma/abi.xml
    include=$PWD/ibverbs-glue/include
}

# The functions that headers declare.
functions() { # HEADER...
    sed -n 's/^[a-z].*\b\(coherdma[a-z0-9_]*\)(.*/\1/p' "$@" | sort
}

# Writes the ABI of the headers in FOLDER to FILE. abidw describes a library's variables with their
# types, so it gets one of the type of each function and enum. libcoherdma itself would not do: its
# debug information has internal types as well, and lacks enums that are passed as numbers.
dump() { # FOLDER FILE
    local headers=("$1"/coherdma/coherdma.h "$1"/coherdma/coherdmadv.h)
    {
        printf '#include <coherdma/%s>\n' "${headers[@]##*/}"
        functions "${headers[@]}" | sed 's/.*/__typeof__(\&&) function_&;/'
        sed -n 's/^enum \([a-z_]*\) {$/enum \1 enum_\1;/p' "${headers[@]}"
    } >"$BATS_TEST_TMPDIR/variables.c"
    # In its folder, so that the dump has no path of this machine.
    (cd "$BATS_TEST_TMPDIR" && cc -g -shared -fPIC "-I$1" variables.c -o variables.so)
    abidw --no-show-locs --no-corpus-path --no-comp-dir-path --out-file "$2" "$BATS_TEST_TMPDIR/variables.so"
}

skip_if_not_comparable() {
    [[ $(uname -m) == x86_64 ]] || skip 'the recorded ABI is that of x86-64'
    command -v abidiff >/dev/null || skip 'no abidiff'
}

@test "the ABI of the headers is the recorded one" {
    skip_if_not_comparable
    dump "$include" "$BATS_TEST_TMPDIR/now.xml"
    [[ $(grep -c "elf-symbol name='function_" "$BATS_TEST_TMPDIR/now.xml") -ge 20 ]]
    if [[ -n ${UPDATE-} ]]; then cp "$BATS_TEST_TMPDIR/now.xml" "$recorded"; fi
    abidiff --harmless "$recorded" "$BATS_TEST_TMPDIR/now.xml"
}

@test "another parameter, member or value of an enumerator is seen" {
    skip_if_not_comparable
    local change changed=$BATS_TEST_TMPDIR/include
    for change in 's/size_t count, uint32_t phase);/size_t count, uint64_t phase);/' \
        's/^    uint32_t buffer_alignment;/    uint64_t buffer_alignment;/' \
        's/COHERDMA_AFTER_WRITE = 1 << 2/COHERDMA_AFTER_WRITE = 1 << 3/' \
        's/^    COHERDMA_BEFORE_READ = .*/&\n    COHERDMA_NEW = 1 << 7,/' \
        's/\*sync_problem;/*problem_of_sync;/' \
        's/^    const char \*transport;/    char *transport;/' \
        's/uint32_t direction);/enum coherdma_direction direction);/'; do
        rm -rf "$changed"
        cp -r "$include" "$changed"
        sed -i "$change" "$changed/coherdma/coherdma.h"
        run -1 cmp -s "$include/coherdma/coherdma.h" "$changed/coherdma/coherdma.h"
        dump "$changed" "$BATS_TEST_TMPDIR/changed.xml"
        run abidiff --harmless "$recorded" "$BATS_TEST_TMPDIR/changed.xml"
        echo "$change: $output"
        ((status == 4 || status == 12)) # changed, and incompatibly
    done
}

# What abidw does not describe.
@test "memory that is only read can be constant, and a result that is ignored causes a warning" {
    printf '%s\n' '#include <coherdma/coherdma.h>' 'const char text[8];' \
        'int sync_text(const struct coherdma_device *device) {' \
        'struct coherdma_range range = {.addr = text, .length = sizeof text}; const void **addr = &range.addr;' \
        'return *addr != text || coherdma_sync_before_read(device, &range, 1); }' >"$BATS_TEST_TMPDIR/constant.c"
    cc -Wall -Werror -c "-I$include" "$BATS_TEST_TMPDIR/constant.c" -o "$BATS_TEST_TMPDIR/constant.o"
    printf '%s\n' '#include <coherdma/coherdma.h>' 'void ignore(const struct coherdma_device *device, struct coherdma_batch *batch) {' \
        'coherdma_sync_before_read(device, 0, 0); coherdma_sync_before_write(device, 0, 0); coherdma_sync_after_write(device, 0, 0);' \
        'coherdma_sync_for_device(device, 0, 0, 0); coherdma_sync_for_cpu(device, 0, 0, 0); coherdma_batch_end(batch); }' \
        >"$BATS_TEST_TMPDIR/ignored.c"
    run -0 cc -c "-I$include" "$BATS_TEST_TMPDIR/ignored.c" -o "$BATS_TEST_TMPDIR/ignored.o"
    [[ $(grep -c 'warning: ignoring return value' <<<"$output") == 6 ]]
}

@test "the library exports the functions of the headers, and no others" {
    diff -u --label headers <(functions "$include"/coherdma/*.h) \
        --label library <(sed -n 's/^        \([a-z][^ ]*\);/\1/p' ibverbs-glue/coherdma.map)
}

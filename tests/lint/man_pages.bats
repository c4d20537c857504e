#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Manual pages: whether they are well formed, refer to what there is, and say what the headers say.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return 1
    include=udapl/include
    headers=("$include"/dat2/*.h)
    old_headers=("$include"/dat/*.h) # of uDAPL 1.2
    pages=(man/*/*.[1-8])
    functions=(man/dat/dat*.3)
    rpma_include=rpma/include
    rpma_headers=("$rpma_include"/*.h)
    rpma_functions=(man/rpma/*.3)
}

in_order() { /usr/bin/python3 tests/lint/man_pages.py "$@"; }
say() { in_order "$@" | sort -u; }
# Nothing may come by standard input.
nothing() { ! grep .; }
# identifiers HEADER...: what they have.
identifiers() { cat "$@" | grep -o '\b[A-Za-z_][A-Za-z_0-9]*\b' | sort -u; }

@test "man pages format without a warning" {
    local page
    command -v groff >/dev/null || skip 'no groff here'
    # Each by itself: together they would share the pages of one document, whose ends are at random.
    for page in "${pages[@]}"; do groff -t -man -Tutf8 -ww -z "$page"; done 2>&1 | nothing
}
@test "sections of man pages are in one order" {
    say misplaced "${pages[@]}" | nothing
}
# NAME.SECTION, of all pages.
page_names() { in_order names "${pages[@]}" | cut -d ' ' -f 2; }
@test "each man page has the name of its file, and no two have the same name" {
    for page in "${pages[@]}"; do
        in_order names "$page" | grep -x "${page##*/} ${page##*/}" >/dev/null || echo "$page: its name is not in NAME"
    done | nothing
    page_names | sort | uniq -d | nothing
}
@test "man pages refer to existing pages" {
    # Those of the system, and of rdma-core.
    local others=' access(2) apt.conf(5) dlopen(3) dlsym(3) gdb(1) ping(8) printf(3) syslog(3) epoll(7) getrlimit(2) mmap(2) open(2) poll(2) select(2)'
    others+=' shmat(2) socket(2) ibv_devinfo(1) ibv_get_device_list(3) ibv_import_device(3) rdma(8) rping(1)'
    others+=' ibv_advise_mr(3) ibv_create_cq_ex(3) ibv_create_qp_ex(3) ibv_poll_cq(3) ibv_post_send(3)'
    others+=' ibv_query_device_ex(3) ibv_query_port(3) ibv_req_notify_cq(3) ibv_wr_start(3) '
    page_names >"$BATS_TEST_TMPDIR/names"
    say references "${pages[@]}" | while read -r page name section; do
        grep -qxF "$name.$section" "$BATS_TEST_TMPDIR/names" || [[ $others == *" $name($section) "* ]] ||
            echo "$page: $name($section)"
    done | nothing
}
@test "man pages of functions have lines of at most 80 columns, and no name is hyphenated" {
    command -v groff >/dev/null || skip 'no groff here'
    for page in "${functions[@]}" man/rpma/*.[37]; do
        # In characters, not in bytes: lines of tables are not ASCII.
        groff -t -man -rLL=80n -Tutf8 -P -cbou "$page" | LC_ALL=C.UTF-8 grep -E '.{81}|‐$' | sed "s,^,$page: ,"
    done | nothing
}
@test "each function of the headers has a man page with its prototype" {
    [[ -d $include ]]
    diff -u --label headers <(say prototypes "${headers[@]}") --label pages <(
        say prototypes "${functions[@]}" | grep -v '^dat_ib_\|^dat_coherdma_\|^dat_ia_open('
    )
    diff -u --label headers <(
        grep -ohE '^#define (dat_(ib|coherdma)_\w+|dat_ia_open)\(?' "${headers[@]}" |
            sed 's/.* //; s/($//' | sort
    ) --label pages <(say prototypes "${functions[@]}" | cut -d '(' -f 1 |
        grep '^dat_ib_\|^dat_coherdma_\|^dat_ia_open$')
}
@test "each function of librpma's headers has a man page with its prototype" {
    say prototypes "${rpma_headers[@]}" >"$BATS_TEST_TMPDIR/headers"
    [[ $(wc -l <"$BATS_TEST_TMPDIR/headers") -ge 84 ]]
    diff -u --label headers "$BATS_TEST_TMPDIR/headers" --label pages <(
        in_order prototypes "${rpma_functions[@]}" | sort
    )
    # With the type of the result, of which the lines above have nothing.
    in_order synopsis "${rpma_functions[@]}" >"$BATS_TEST_TMPDIR/synopses.c"
    for compiler in gcc clang; do
        "$compiler" -std=c11 -Wall -Wextra -Werror -I "$rpma_include" -I ibverbs-glue/include -fsyntax-only \
            "$BATS_TEST_TMPDIR/synopses.c"
    done
}
@test "each function is a name of the page that has its prototype" {
    for page in "${functions[@]}" "${rpma_functions[@]}"; do
        comm -23 <(say prototypes "$page" | cut -d '(' -f 1 | sed 's/$/.3/') \
            <(say names "$page" | cut -d ' ' -f 2) | sed "s,^,$page: not in NAME: ,"
    done | nothing
}
@test "each function of the uDAPL 1.2 headers has a prototype in a man page" {
    say prototypes "${old_headers[@]}" >"$BATS_TEST_TMPDIR/old"
    [[ $(wc -l <"$BATS_TEST_TMPDIR/old") -ge 75 ]]
    say old_prototypes "${functions[@]}" >"$BATS_TEST_TMPDIR/different"
    comm -13 "$BATS_TEST_TMPDIR/old" "$BATS_TEST_TMPDIR/different" | nothing
    # Those without one of their own.
    cut -d '(' -f 1 "$BATS_TEST_TMPDIR/different" | sed 's/.*/^&(/' >"$BATS_TEST_TMPDIR/names"
    comm -23 <(grep -v -f "$BATS_TEST_TMPDIR/names" "$BATS_TEST_TMPDIR/old") \
        <(say prototypes "${functions[@]}") | nothing
}
@test "pages of LMRs and syncs have the synopsis of uDAPL 1.2, and attributes" {
    local page
    for page in man/dat/dat_lmr_*.3; do
        sed -n '/^\.SH SYNOPSIS/,/^\.SH DESCRIPTION/p' "$page" >"$BATS_TEST_TMPDIR/synopsis"
        grep -qx '\.B #include <dat/udat\.h>' "$BATS_TEST_TMPDIR/synopsis" || echo "$page: no <dat/udat.h>"
        grep -qx '\.BI "cc " file.c " \\-ldat"' "$BATS_TEST_TMPDIR/synopsis" || echo "$page: no -ldat"
        in_order old_prototypes "$page" | grep -q "^${page:8:-2}(" || echo "$page: no prototype of 1.2"
        sed -n '/^\.SH ATTRIBUTES/,/^\.SH/p' "$page" | cut -f 1 >"$BATS_TEST_TMPDIR/attributes"
        grep -qx 'Interface stability' "$BATS_TEST_TMPDIR/attributes" || echo "$page: no stability"
        grep -qx 'MT-Level' "$BATS_TEST_TMPDIR/attributes" || echo "$page: no MT-Level"
    done | nothing
}
@test "each macro of the headers takes the arguments of its man page" {
    {
        printf '#include <dat2/%s>\n' udat.h dat_ib_extensions.h dat_coherdma_extensions.h
        in_order calls "${functions[@]}"
    } >"$BATS_TEST_TMPDIR/calls.c"
    for compiler in gcc clang; do
        "$compiler" -std=c11 -Wall -Wextra -Werror -I "$include" -fsyntax-only "$BATS_TEST_TMPDIR/calls.c"
    done
}
@test "man pages name existing constants, parameters and members" {
    # The registry's variables, a version node, and attributes that are strings.
    local others=' DAT_OVERRIDE DAT_DBG_TYPE DAT_DBG_DEST DAT_1'
    others+=' DAT_IB_TRANSPORT_MTU DAT_IB_PORT_STATUS DAT_IB_RDMA_READ '
    local about=("${functions[@]}" man/dat/udapl.7 man/dat/udapl12.7 "${rpma_functions[@]}" man/rpma/librpma.7
        man/coherdma/coherdma-librpma.7)
    identifiers "${headers[@]}" "${old_headers[@]}" "${rpma_headers[@]}" ibverbs-glue/include/coherdma/*.h \
        /usr/include/infiniband/verbs{,_api}.h >"$BATS_TEST_TMPDIR/known"
    # With a star: all that begin so.
    { say constants "${about[@]}" && say members "${about[@]}"; } |
        awk -v others="$others" 'FNR == NR { known[$1]; next }
            $2 in known || index(others, " " $2 " ") { next }
            sub(/\*$/, "", $2) { for (each in known) if (index(each, $2) == 1) next }
            { print $1 ": " $2 }' "$BATS_TEST_TMPDIR/known" - | nothing
}
@test "man pages describe return values and existing arguments" {
    say arguments "${functions[@]}" | awk '$3 > $2' | nothing
    grep -LE '^\.SH RETURN VALUE' "${functions[@]}" | nothing
    # The functions of a Provider's library have no result.
    grep -LE '^DAT_SUCCESS, or DAT_CLASS_ERROR with type and subtype:$' "${functions[@]}" |
        grep -vx man/dat/dat_provider_init.3 | nothing
}
@test "manual pages have the results that tests of the functions expect" {
    # In two steps: a pipe would hide that the program fails.
    /usr/bin/python3 tests/lint/returns.py >"$BATS_TEST_TMPDIR/missing"
    nothing <"$BATS_TEST_TMPDIR/missing"
}
@test "each function that libdat2 exports has a man page" {
    map=udapl/registry/dat2.map
    [[ -e $map ]] || skip 'libdat2 is not here yet'
    [[ $(grep -c '^ *dats\?_' "$map") -ge 74 ]]
    page_names >"$BATS_TEST_TMPDIR/names"
    grep -o 'dats\?_[a-z_]*' "$map" | sed 's/$/.3/' | grep -vxFf "$BATS_TEST_TMPDIR/names" | nothing
}
@test "each function of librpma 1.3 is in librpma's header" {
    grep '^rpma_' tests/data/librpma/functions.txt >"$BATS_TEST_TMPDIR/functions"
    [[ $(wc -l <"$BATS_TEST_TMPDIR/functions") -eq 84 ]]
    diff -u --label 'librpma 1.3' "$BATS_TEST_TMPDIR/functions" \
        --label header <(say prototypes "$rpma_include/librpma.h" | cut -d '(' -f 1)
}
@test "each function that librpma exports has a man page" {
    page_names >"$BATS_TEST_TMPDIR/names"
    grep -o '\brpma_[a-z_0-9]*' rpma/*.map | sed 's/$/.3/' >"$BATS_TEST_TMPDIR/exported"
    [[ $(wc -l <"$BATS_TEST_TMPDIR/exported") -ge 84 ]]
    grep -vxFf "$BATS_TEST_TMPDIR/names" "$BATS_TEST_TMPDIR/exported" | nothing
}
@test "the pages of librpma describe return values, errors and threads" {
    grep -L '^\.SH RETURN VALUE' "${rpma_functions[@]}" | nothing
    grep -LE '^Thread-safe' "${rpma_functions[@]}" man/rpma/librpma.7 | nothing
    local page with_result
    mapfile -t with_result < <(grep -lE '^\.BI? "int rpma_' "${rpma_functions[@]}")
    [[ ${#with_result[@]} -ge 20 ]]
    for page in "${with_result[@]}"; do
        sed -n '/^\.SH ERRORS/,/^\.SH ATTRIBUTES/p' "$page" | grep -qx '\.B RPMA_E_INVAL' ||
            echo "$page: no RPMA_E_INVAL in ERRORS"
        # Each error once for a function, or for all functions of the page.
        awk '/^\.SH ERRORS/ { inside = 1 } /^\.SH ATTRIBUTES/ { inside = 0 }
            inside && /^\.BR? rpma_.*\(\) ?:/ { delete seen }
            inside && /^\.B RPMA_E_/ && seen[$2]++ { print FILENAME ": " $2 " twice" }' "$page"
    done | nothing
}
# compiles PAGE [examples]: its last example, or all of them as one source file.
compiles() {
    local source="$BATS_TEST_TMPDIR/${1##*/}.c"
    in_order "${2:-example}" "$1" >"$source"
    local warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)
    for compiler in gcc clang g++ clang++; do
        language=(-std=gnu11)
        [[ $compiler != *++ ]] || language=(-x c++ -std=c++20)
        "$compiler" "${language[@]}" "${warnings[@]}" -I "$include" -I ibverbs-glue/include \
            -I "$rpma_include" -c -o /dev/null "$source"
    done
}
@test "coherdma(7) has the table of queues of libcoherdma" {
    local rows=$BATS_TEST_TMPDIR/rows
    sed -nE 's/^    \{"(\w+)", (\w+), "([^"]*)"(, \{.*\})?\},$/\1\t\2\t\3/p' ibverbs-glue/coherency/queues.cpp >"$rows"
    [[ $(wc -l <"$rows") -ge 18 ]]
    diff -u --label libcoherdma "$rows" \
        --label page <(sed -n '/^Driver\t/,/^\.TE/p' man/coherdma/coherdma.7 | sed '1d;$d')
}
@test "the pages of librpma and coherdma-librpma(7) name existing functions" {
    {
        say references "${pages[@]}" | cut -d ' ' -f 2
        identifiers "${rpma_headers[@]}" "${headers[@]}" ibverbs-glue/include/coherdma/*.h \
            /usr/include/infiniband/verbs.h /usr/include/rdma/rdma_cma.h
    } >"$BATS_TEST_TMPDIR/known"
    local page
    for page in man/rpma/* man/coherdma/coherdma-librpma.7; do
        grep -v '^\.TH' "$page" | grep -oE '\b(rpma|coherdma|dat|ibv|rdma)_[a-z_0-9]+' |
            grep -vxFf "$BATS_TEST_TMPDIR/known" | sort -u | sed "s,^,$page: ,"
    done | nothing
}
@test "the example of udapl(7) compiles and links" {
    in_order example man/dat/udapl.7 | grep dat_lmr_sync_rdma_write
    compiles man/dat/udapl.7
}
@test "the example of udapl12(7) compiles" {
    in_order example man/dat/udapl12.7 | grep RO_AWARE_
    compiles man/dat/udapl12.7
}
@test "the example of librpma(7) compiles" {
    in_order example man/rpma/librpma.7 | grep RPMA_CONN_ESTABLISHED
    compiles man/rpma/librpma.7
}
@test "the example of coherdmadv_query_device(3) compiles, and the page has the struct of the header" {
    in_order example man/coherdma/coherdmadv_query_device.3 | grep 'coherdmadv_query_device(context'
    compiles man/coherdma/coherdmadv_query_device.3
    local header=ibverbs-glue/include/coherdma/coherdmadv.h page=man/coherdma/coherdmadv_query_device.3
    diff -u <(sed -n '/^struct coherdmadv_device_attr {/,/^};/p' "$header" | sed 's, */\*.*,,') \
        <(sed -n '/^struct coherdmadv_device_attr {/,/^};/p' "$page")
    diff -u <(grep -o '^    COHERDMADV_[A-Z_]*' "$header" | tr -d ' ' | sort) \
        <(grep -v '^\.TH' "$page" | grep -o '\bCOHERDMADV_[A-Z][A-Z_]*' | sort -u)
}
@test "the examples of each page of section 3 compile" {
    local page with_examples
    mapfile -t with_examples < <(grep -l '^\.EX' man/*/*.3)
    [[ ${#with_examples[@]} -ge 32 ]]
    for page in "${with_examples[@]}"; do compiles "$page" examples; done
}
# structs FILE...: those of coherdma that headers or pages define, each on one line, without comments.
structs() {
    awk '/^struct coherdma_[a-z_]+ \{/ { line = ""; inside = 1 }
        inside { gsub(/[ \t]+/, " "); line = line $0 }
        /^\};/ && inside { gsub(/ ?\/\*[^*]*\*\//, "", line); print line; inside = 0 }' "$@" | sort
}
@test "the pages of libcoherdma have the structs of the headers, and describe return values and threads" {
    local pages=(man/coherdma/coherdma_*.3)
    structs ibverbs-glue/include/coherdma/{coherdma,experimental}.h >"$BATS_TEST_TMPDIR/header"
    [[ $(wc -l <"$BATS_TEST_TMPDIR/header") -ge 10 ]]
    diff -u "$BATS_TEST_TMPDIR/header" <(structs "${pages[@]}")
    grep -L '^\.SH RETURN VALUE' "${pages[@]}" man/coherdma/coherdmadv_query_device.3 | nothing
    grep -LE '^Thread-safe' "${pages[@]}" man/coherdma/coherdmadv_query_device.3 | nothing
}

#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What is installed: the files, their exported names, how programs are built with them, and hardening.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    stage=$BUILD/stage/usr
}

# The manual pages: a file for each name.
man_pages() {
    /usr/bin/python3 tests/lint/man_pages.py names man/*/*.[1-8] | sed 's,.* ,,; s,.*\.\(.\)$,share/man/man\1/&,'
}

# The files that the sources say are installed.
expected_files() {
    local file
    [[ ! -f scripts/softrdma ]] || echo bin/softrdma
    if [[ -d scripts/lab ]]; then
        find scripts/lab -name __pycache__ -prune -o -type f \
            \( -name '*.py' -o -name '*.config' -o -name pinned_kernel -o -name '*.patch' -o -path '*/guest/init' \) -printf 'share/softrdma/lab/%P\n'
    fi
    printf 'lib/systemd/%s\n' system/softrdma@.service system-generators/softrdma-generator
    man_pages
    printf '%s\n' bin/{coherdma,datinfo,datping} share/bash-completion/completions/{coherdma,datinfo,datping,softrdma} include/coherdma/{coherdma,coherdmadv,experimental}.h lib/libcoherdma.so{,.1,.1.0.0} \
        lib/pkgconfig/coherdma.pc lib/libibverbs/libcoherdma-{check,emulation,fault,interposer,interposer-audit,late,msan}.so \
        lib/libibverbs/libcoherdma-{,observers-}rdmav{34,57,59,64,65}.so share/coherdma/coherdma-observers.driver \
        lib/cmake/coherdma/coherdma{Config,ConfigVersion,Targets,Targets-relwithdebinfo}.cmake
    printf '%s\n' lib/libdaplcoherdma.so.2 lib/libdat2.so{,.2,.2.0.0} lib/libdat.so{,.1,.1.2.0} lib/pkgconfig/dat{,2}.pc
    printf '%s\n' include/librpma{,_coherdma}.h lib/librpma.so{,.0,.0.0.0} lib/pkgconfig/librpma.pc
    for file in docs/*.md; do printf 'share/doc/coherdma/%s\n' "${file##*/}"; done
    for file in udapl/include/dat{,2}/*.h; do printf 'include/%s\n' "${file#udapl/include/}"; done
    echo share/doc/coherdma/examples/Containerfile
    for file in LICENSE LICENSES/* examples/*.c; do printf 'share/doc/coherdma/%s\n' "$file"; done
}

@test "the files that the sources name are installed, and no others" {
    diff -u --label expected <(expected_files | sort) \
        --label installed <(cd "$stage" && find . ! -type d -printf '%P\n' | sort)
    [[ -x $stage/bin/softrdma ]]
}

@test "a program is built with the installed CMake package" {
    rm -rf "$BUILD/consumer"
    cmake -S tests/consumer -B "$BUILD/consumer" -G Ninja -Dcoherdma_DIR="$stage/lib/cmake/coherdma"
    cmake --build "$BUILD/consumer"
    "$BUILD/consumer/consumer"
}

# built OUTPUT LANGUAGE SOURCE FLAG...: without warnings, by the oldest standard that the headers support.
built() {
    local compiler=(gcc -std=c99)
    [[ $2 == c ]] || compiler=(g++ -x c++ -std=c++11)
    "${compiler[@]}" -Wall -Wextra -Wpedantic -Werror "tests/consumer/$3" "${@:4}" -o "$BATS_TEST_TMPDIR/$1"
}
# flags_of PACKAGE: what pkg-config says
flags_of() { PKG_CONFIG_PATH=$stage/lib/pkgconfig pkg-config --cflags --libs "$1" | xargs -n 1; }

@test "programs in C99 and C++11 are built with libcoherdma, by pkg-config" {
    local language
    mapfile -t flags < <(flags_of coherdma)
    for language in c c++; do
        built "in-$language" $language consumer.c "${flags[@]}"
        LD_LIBRARY_PATH=$stage/lib "$BATS_TEST_TMPDIR/in-$language"
    done
}
@test "programs in C99 and C++11 are built with libdat2, by pkg-config" {
    local language
    mapfile -t flags < <(flags_of dat2)
    echo 'lab u2.0 nonthreadsafe default lib.so l.1.0 "" ""' >"$BATS_TEST_TMPDIR/dat.conf"
    export DAT_OVERRIDE=$BATS_TEST_TMPDIR/dat.conf LD_LIBRARY_PATH=$stage/lib
    for language in c c++; do
        built "names-in-$language" $language names.c "${flags[@]}"
        "$BATS_TEST_TMPDIR/names-in-$language" | grep -x 'lab 2.0'
    done
}
@test "programs are built with libdat, by pkg-config in C99 and by -ldat in C++11" {
    mapfile -t flags < <(flags_of dat)
    built names-in-c c names.c -DNAMES_DAT1 "${flags[@]}"
    built names-in-c++ c++ names.c -DNAMES_DAT1 "-I$stage/include" "-L$stage/lib" -ldat
    printf '%s u%s nonthreadsafe default lib.so l.1.0 "" ""\n' lab 2.0 old 1.2 >"$BATS_TEST_TMPDIR/dat.conf"
    export DAT_OVERRIDE=$BATS_TEST_TMPDIR/dat.conf LD_LIBRARY_PATH=$stage/lib
    [[ $("$BATS_TEST_TMPDIR/names-in-c") == 'old 1.2' ]]
    [[ $("$BATS_TEST_TMPDIR/names-in-c++") == 'old 1.2' ]]
}

# map NODE SCRIPT: the names that a version script has in this node, as nm shows them.
map() {
    sed -n "/^$1 {/,/^}/s/^ *\\([a-z_0-9]*\\);/\\1@@$1/p" "$2" | sort
}
# What a library exports, by name and version.
exported() { nm -D --defined-only "$1" | awk '$2 == "T" { print $3 }' | sort; }
needed() { readelf -d "$1" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p'; }
soname() { readelf -d "$1" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p'; }

@test "libcoherdma exports the functions of its headers, each with a manual page" {
    local library=$stage/lib/libcoherdma.so.1 file
    diff -u --label map <(grep -o 'coherdma\(dv\)\?_[a-z_]*' ibverbs-glue/coherdma.map | sort) \
        --label headers <(grep -oh 'coherdma\(dv\)\?_[a-z_]*(' ibverbs-glue/include/coherdma/*.h |
            tr -d '(' | sort -u)
    diff -u --label map <(map COHERDMA_1.0 ibverbs-glue/coherdma.map) \
        --label library <(exported "$library")
    while read -r file; do
        [[ -f $stage/share/man/man3/$file.3 ]] || { echo "no man page: $file.3" && return 1; }
    done < <(grep -o 'coherdma\(dv\)\?_[a-z_]*' ibverbs-glue/coherdma.map)
    [[ $(soname "$library") == libcoherdma.so.1 ]]
}
# Programs built for OFED's libdat2 run with ours: it has the same names and versions, and its own
# additions have another version. tests/unit/registry/headers checks the types.
@test "libdat2 exports what OFED's exports, and ten functions more" {
    local library=$stage/lib/libdat2.so.2 map=udapl/registry/dat2.map stock
    stock=$(ldconfig -p | awk '$1 == "libdat2.so.2" && !seen++ { print $NF }') # to its end: it dies of a pipe
    [[ -e $stock ]]
    diff -u --label map <(sort <(map DAT_2.0 "$map") <(map COHERDMA_2.0 "$map")) \
        --label library <(exported "$library")
    diff -u --label stock <(exported "$stock") --label coherdma <(exported "$library" | grep '@@DAT_2\.0$')
    [[ $(exported "$stock" | wc -l) == 74 && $(map COHERDMA_2.0 "$map" | wc -l) == 10 ]]
    [[ $(soname "$library") == "$(soname "$stock")" ]]
    [[ $(needed "$library") == libc.so.6 ]]
}
@test "libdat exports the names of its version script" {
    local library=$stage/lib/libdat.so.1 map=udapl/registry/dat1.map
    diff -u --label map <(sort <(map DAT_1.2 "$map") <(map COHERDMA_1.0 "$map")) \
        --label library <(exported "$library" | grep '@@')
    [[ $(soname "$library") == libdat.so.1 && $(needed "$library") == libc.so.6 ]]
}
@test "librpma exports the functions of its headers, as the original does" {
    local library=$stage/lib/librpma.so.0 map=rpma/librpma.map
    diff -u --label map <(sort <(map LIBRPMA_1.0 "$map") <(map LIBRPMA_COHERDMA_0.1 "$map")) \
        --label library <(exported "$library")
    diff -u --label original <(grep -v '^#' tests/data/librpma/functions.txt) \
        --label library <(exported "$library" | sed -n 's/@@LIBRPMA_1\.0$//p')
    diff -u --label headers <(grep -ohE '\brpma_\w+\(' rpma/include/*.h | tr -d '(' | grep -vx rpma_log_function | sort -u) \
        --label library <(exported "$library" | sed 's/@@.*//')
    [[ $(soname "$library") == librpma.so.0 ]]
}
@test "programs in C99 and C++11 are built with librpma, by pkg-config" {
    local language
    mapfile -t flags < <(flags_of librpma)
    for language in c c++; do
        built "rpma-in-$language" $language rpma.c "${flags[@]}"
        [[ $(LD_LIBRARY_PATH=$stage/lib "$BATS_TEST_TMPDIR/rpma-in-$language") == 'Invalid argument' ]]
    done
}

elf_files() {
    find "$stage" -type f | while read -r file; do
        [[ $(head -c 4 "$file" | tail -c 3) != ELF ]] || printf '%s\n' "$file"
    done
}
@test "programs and libraries are hardened, and have no run path" {
    local file header dynamic segments symbols bad=0
    local -a files
    mapfile -t files < <(elf_files)
    ((${#files[@]})) || { echo 'nothing was installed' && return 1; }
    for file in "${files[@]}"; do
        header=$(readelf -hW "$file")
        dynamic=$(readelf -dW "$file")
        segments=$(readelf -lW "$file")
        symbols=$(readelf -W --dyn-syms "$file")
        wrong() { echo "${file##*/}: $1" && bad=1; }
        grep -q 'Type: *DYN' <<<"$header" || wrong 'not position independent'
        grep -q 'BIND_NOW\|FLAGS_1.*NOW' <<<"$dynamic" || wrong 'binds lazily'
        grep -q GNU_RELRO <<<"$segments" || wrong 'no RELRO'
        grep -q 'GNU_STACK.* RW  ' <<<"$segments" || wrong 'executable stack'
        ! grep -q 'RPATH\|RUNPATH' <<<"$dynamic" || wrong 'has a run path'
        # It has no array.
        [[ $file == */libcoherdma-interposer-audit.so ]] ||
            grep -q __stack_chk_fail <<<"$symbols" || wrong 'no stack protector'
    done
    ((bad == 0))
}
# In exit() a program's other threads go on, the one of the uDAPL library too: they may still use
# what a library has.
@test "no library has an object that is destroyed at exit" {
    local folder objects
    for folder in ibverbs-glue provider udapl; do
        mapfile -t objects < <(find "$BUILD/$folder" -name '*.o')
        ((${#objects[@]})) || { echo "no object files in $BUILD/$folder" && return 1; }
        if nm -A "${objects[@]}" | grep -w __cxa_atexit; then
            echo "error: an object that is destroyed at exit"
            return 1
        fi
    done
}

#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Compares the packages in $PACKAGES: of two releases, and debs with rpms.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return
}

# compare_abi SUITE: with Debian 12's. A program that was built on one release runs after an upgrade to another: types
# and functions are the same with each release's compiler and headers. Types of rdma-core are left out.
compare_abi() {
    local suite package library folder=$BATS_TEST_TMPDIR
    for suite in bookworm "$1"; do
        mkdir -p "$folder/$suite"
        for package in libcoherdma1 libdapl-coherdma libdat1 libdat2-2 librpma0-coherdma; do
            dpkg-deb -x "$PACKAGES/$suite-amd64/$package"_*.deb "$folder/$suite"
            dpkg-deb -x "$PACKAGES/$suite-amd64/$package-dbgsym"_*.deb "$folder/$suite"
        done
    done
    printf '[suppress_type]\nname_regexp = ^ibv_\n' >"$folder/suppressed"
    for library in lib{coherdma.so.1,daplcoherdma.so.2,dat.so.1,dat2.so.2,rpma.so.0}; do
        library=usr/lib/x86_64-linux-gnu/$library
        abidiff --suppressions "$folder/suppressed" --d1 "$folder/bookworm/usr/lib/debug" --d2 "$folder/$1/usr/lib/debug" \
            "$folder/bookworm/$library" "$folder/$1/$library"
    done
}
@test "libraries of Debian 13 have the ABI of Debian 12" { compare_abi trixie; }
@test "libraries of sid have the ABI of Debian 12" { compare_abi sid; }

@test "rpmlint finds no error" { rpmlint -c rpm/rpmlint.toml "$PACKAGES/rpm"; }

rpm_of() { find "$PACKAGES/rpm" -name "$1-[0-9]*.$(uname -m).rpm"; }

# No package depends on the plugins. They require public symbol versions of libibverbs only: one file serves all
# its releases.
@test "plugins provide no library, and require no private version of libibverbs" {
    rpm -qp --provides "$(rpm_of coherdma-provider)" >"$BATS_TEST_TMPDIR/provides"
    grep '^coherdma-provider' "$BATS_TEST_TMPDIR/provides"
    run -1 grep -F '.so' "$BATS_TEST_TMPDIR/provides"
    rpm -qp --requires "$(rpm_of coherdma-provider)" >"$BATS_TEST_TMPDIR/requires"
    grep 'libibverbs.so.1(IBVERBS_1' "$BATS_TEST_TMPDIR/requires"
    run -1 grep IBVERBS_PRIVATE "$BATS_TEST_TMPDIR/requires"
    rpm -qp --provides "$(rpm_of libdapl-coherdma)" >"$BATS_TEST_TMPDIR/provides"
    run -1 grep -F '.so' "$BATS_TEST_TMPDIR/provides"
}

# Each file that is no folder, with its mode, link target and package, by Debian's names; and the file of the
# provider that its postinst copies to /etc, which is one of the rpm. What each format adds is left out: licenses,
# changelogs, lintian's overrides, compiled Python, links for debuggers; and the user-mode kernel, which is in no
# rpm. A manual page that includes another by .so is a link in Debian, and libraries may be executable in rpms.
files_of_debs() {
    local deb
    for deb in "$PACKAGES"/bookworm-amd64/*.deb; do
        [[ $deb == *-dbgsym_* ]] || dpkg-deb -c "$deb" | sed -n "/^d/!s|^\([^ ]*\) .* [0-9:]* \./|${deb##*/} \1 /|p"
    done | sed 's/_[^ ]*//; /^softrdma-uml /d; \#/usr/share/\(doc\|lintian\|python3\)/#d
        s/ lrwxrwxrwx \(.*\/man3\/.*\) -> .*/ -rw-r--r-- \1/'
    dpkg-deb -I "$PACKAGES"/bookworm-amd64/coherdma-provider_*.deb postinst |
        sed -n 's|^ *cp .*\(/.*\) \(/etc/.*\)|coherdma-provider -rw-r--r-- \2\1|p'
}
files_of_rpms() {
    local names='s/^libcoherdma /libcoherdma1 /; s/^\(libcoherdma\|libdat\|librpma-coherdma\)-devel /\1-dev /; s/^librpma-coherdma /librpma0-coherdma /; s/^libdat2 /libdat2-2 /'
    find "$PACKAGES/rpm" -name '*.rpm' ! -name '*.src.rpm' -print0 |
        xargs -0 rpm -qp --qf '[%{=NAME} %{FILEMODES:perms} %{FILENAMES} -> %{FILELINKTOS}\n]' |
        sed "$names; s/ -> \$//; s|$(rpm --eval %_libdir)/|/usr/lib/$(gcc -print-multiarch)/|"'
            /^[^ ]* d/d; \#/usr/share/\(doc\|licenses\)/\|/[.]build-id/#d; s/ -rwxr-xr-x \(.*[.]so\)/ -rw-r--r-- \1/'
}
@test "rpms have the files of the debs, each in one package" {
    files_of_rpms | sort >"$BATS_TEST_TMPDIR/rpms"
    [[ -s $BATS_TEST_TMPDIR/rpms ]]
    files_of_debs | sort | diff - "$BATS_TEST_TMPDIR/rpms"
    cut -d ' ' -f 3 "$BATS_TEST_TMPDIR/rpms" | sort | uniq -d | diff /dev/null -
}

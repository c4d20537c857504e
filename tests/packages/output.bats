#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The output folder of scripts/package, by a rpmbuild that makes a small file: what it replaces, and what it does not;
# and the source packages, by a mmdebstrap that copies them.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir bin home
    cat >bin/rpmbuild <<'END_OF_PROGRAM'
#!/bin/sh
topdir=$(echo "$*" | sed 's/.*_topdir \([^ ]*\) .*/\1/')
mkdir -p "$topdir/RPMS" "$topdir/SRPMS"
date +%N >"$topdir/RPMS/coherdma.rpm"
[ ! -e "$HOME/fail" ]
END_OF_PROGRAM
    chmod +x bin/rpmbuild
    export PATH=$PWD/bin:$PATH HOME=$PWD/home
    package=$BATS_TEST_DIRNAME/../../scripts/package
    git -c safe.directory='*' -C "$BATS_TEST_DIRNAME" rev-parse -q --verify HEAD || skip 'this is not a git checkout'
}
snapshot() { find home -type f -print0 | sort -z | xargs -0 sha256sum && find home -printf '%p %y\n' | sort; }
# expect_refused: scripts/package changes nothing, and says which folder.
expect_refused() {
    local before
    before=$(snapshot)
    run -2 "$package" rpm --out "$PWD/home"
    [[ $output == *"$PWD/home/rpm has files that scripts/package did not make"*--out* ]]
    [[ $(snapshot) == "$before" ]]
}

@test "a folder that scripts/package has made is replaced" {
    run -0 "$package" rpm --out "$PWD/home"
    first=$(<home/rpm/coherdma.rpm)
    run -0 "$package" rpm --out "$PWD/home"
    [[ $(<home/rpm/coherdma.rpm) != "$first" ]]
    (cd home/rpm && sha256sum -c SHA256SUMS)
    [[ $(cd home && find . | LC_ALL=C sort | xargs) == '. ./rpm ./rpm/SHA256SUMS ./rpm/coherdma.rpm ./rpm/log' ]]
    rm home/rpm/*
    run -0 "$package" rpm --out "$PWD/home" # an empty folder
}

@test "a folder with other files stays as it is" {
    mkdir -p home/rpm/thesis
    echo text >home/rpm/thesis/chapter
    expect_refused
    rm -r home/rpm
    "$package" rpm --out "$PWD/home"
    echo text >home/rpm/notes
    expect_refused
    rm home/rpm/notes
    mkdir home/rpm/.hidden
    expect_refused
    rmdir home/rpm/.hidden
    echo text >$'home/rpm/thesis\ncoherdma.rpm'
    expect_refused
    rm home/rpm/thesis*
    echo text >>home/rpm/coherdma.rpm
    expect_refused
    mv home/rpm home/elsewhere
    ln -s elsewhere home/rpm
    expect_refused
    rm home/rpm
    echo text >home/rpm
    expect_refused
}

@test "a file in place of the output folder stays as it is" {
    rmdir home
    echo text >home
    run -2 "$package" rpm --out "$PWD/home"
    [[ $output == *"--out $PWD/home: cannot make this folder"* && $(<home) == text ]]
}

@test "a build that fails keeps the folder of the one before, and files named as its log" {
    "$package" rpm --out "$PWD/home"
    touch home/fail
    echo thesis >home/failed.log
    before=$(snapshot)
    run -1 "$package" rpm --out "$PWD/home"
    log=$(sed -n 's/.* failed; log: //p' <<<"$output")
    [[ $log == "$PWD"/home/failed.*.log && $(head -c 3 "$log") == '== ' ]]
    rm "$log"
    [[ $(snapshot) == "$before" ]]
    rm home/failed.log
    for _ in 1 2; do
        run -1 "$package" rpm --out "$PWD/home"
        [[ $output == *"log: $PWD/home/failed.log" ]]
    done
}

@test "an upgrade of Debian upgrades the packages: each release has a version of its own" {
    cat >bin/mmdebstrap <<'END_OF_PROGRAM'
#!/bin/sh
for argument; do
    case $argument in
    "--customize-hook=copy-in "*) eval "set -- ${argument#*=copy-in }" ;;
    "--customize-hook=sync-out /build "*) eval "out=${argument##* }" ;;
    esac
done
for file; do case $file in *.dsc | *.tar.*) cp "$file" "$out" ;; esac; done
END_OF_PROGRAM
    chmod +x bin/mmdebstrap
    run -0 "$package" deb --suite sid --suite bookworm --suite trixie --without uml --out "$PWD/home"
    versions=()
    for suite in bookworm trixie sid; do
        dsc=$(echo home/"$suite"-*/*.dsc)
        dpkg-source --no-check -x "$dsc" "$suite"
        version=$(dpkg-parsechangelog --file "$suite/debian/changelog" --show-field Version)
        [[ $dsc == */coherdma_"$version".dsc ]]
        versions+=("$version")
    done
    dpkg --compare-versions "${versions[0]}" lt "${versions[1]}"
    dpkg --compare-versions "${versions[1]}" lt "${versions[2]}"
    sha256sum home/*/*.orig.tar.gz | cut -d ' ' -f 1 | uniq | wc -l | grep -x 1
}

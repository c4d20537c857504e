#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma enable, disable and status, on a system in a folder: without RDMA and without root.

bats_require_minimum_version 1.5.0
tool=$BUILD/release/tools/coherdma

setup() {
    library=$(ldconfig -p | sed -n 's/.*libibverbs.so.1 .*=> //p' | head -n 1)
    [[ $library ]] || skip 'no libibverbs in the usual place'
    root=$BATS_TEST_TMPDIR/system
    plugins=${library%/*}/libibverbs
    drivers=$root/etc/libibverbs.d
    mkdir -p "$root$plugins" "$drivers"
    cp -L "$library" "$root$library"
    private=$(grep -oam 1 'IBVERBS_PRIVATE_[0-9]*' "$library" | head -n 1)
    export COHERDMA_PROVIDER=$plugins/libcoherdma-rdmav${private##*_}.so
    touch "$root$COHERDMA_PROVIDER"
    for name in rxe siw mlx5; do echo "driver $name" >"$drivers/$name.driver"; done
    unset RDMAV_DRIVERS IBV_DRIVERS
}

# A command on that system, with its options.
of_root() { "$tool" "$1" --root "$root" "${@:2}"; }
sums() { (cd "$drivers" && stat -c '%n %a %u %g' -- * && sha256sum -- *); }
state() { of_root status --json | jq -r .system.state; }

@test "enable and disable: what changes is said, and nothing else does" {
    printf 'driver siw' >"$drivers/siw.driver"
    before=$(sums)
    run -0 --separate-stderr of_root enable --dry-run
    [[ -z $stderr && ${#lines[@]} == 3 && ${lines[2]} == 'Nothing was changed.' ]]
    [[ ${lines[0]} == '+ /etc/libibverbs.d/rxe.driver:2: driver coherdma' ]]
    [[ $(sums) == "$before" && $(state) == off ]]
    run -0 --separate-stderr of_root enable
    [[ ${#lines[@]} == 3 && ${lines[1]} == '+ /etc/libibverbs.d/siw.driver:2: driver coherdma' ]]
    [[ $(state) == on && $(cat "$drivers/rxe.driver") == $'driver rxe\ndriver coherdma' ]]
    run -0 of_root enable
    [[ $output == 'On already'* ]]
    run -0 of_root disable --dry-run
    [[ $(state) == on ]]
    run -0 --separate-stderr of_root disable
    [[ ${lines[0]} == '- /etc/libibverbs.d/rxe.driver:2: driver coherdma' ]]
    [[ $(sums) == "$before" && $(ls -A "$root/etc") == libibverbs.d ]]
    run -0 of_root disable
    [[ $output == 'Off already.' ]]
}

@test "the files of this machine come back as they were" {
    [[ -e /etc/libibverbs.d/rxe.driver ]] || skip "no drivers of rdma-core here"
    cp -p /etc/libibverbs.d/* "$drivers"
    before=$(sums)
    run -0 of_root enable
    [[ $(state) == on ]]
    [[ $(diff <(echo "$before") <(sums) | grep -c '^>') == 2 ]]
    run -0 of_root disable
    [[ $(sums) == "$before" ]]
}

@test "status: off is 0; by half and stale are 1, and what it says to type mends it" {
    run -0 of_root status
    [[ $output == 'System setting: off: '* ]]
    of_root enable
    run -0 of_root status
    [[ $output == 'System setting: on: by line 2 of /etc/libibverbs.d/rxe.driver'* ]]
    echo 'driver siw' >"$drivers/siw.driver"
    run -1 of_root status
    [[ $output == 'System setting: half: '*'siw.driver'* && ${lines[-1]} == 'To mend it: coherdma enable' ]]
    of_root enable
    rm "$root$COHERDMA_PROVIDER"
    run -1 of_root status
    [[ $output == 'System setting: stale: '*"$COHERDMA_PROVIDER"* && ${lines[-1]} == 'To mend it: coherdma disable' ]]
    of_root disable
    run -0 of_root status
}

@test "enable: without the plugin, without a soft driver, it says what to install" {
    rm "$root$COHERDMA_PROVIDER"
    run -1 --separate-stderr of_root enable
    [[ -z $output && $stderr == *"there is no $root"*"/libcoherdma-rdmav"*"; install coherdma"* ]]
    rm "$drivers"/{rxe,siw}.driver
    printf 'ID=debian\n' >"$root/etc/os-release"
    run -1 --separate-stderr of_root enable
    [[ -z $output && $stderr == *'apt install ibverbs-providers' ]]
    rm -r "$drivers"
    run -1 --separate-stderr of_root enable
    [[ $stderr == *'apt install ibverbs-providers' ]]
    run -0 of_root disable
}

@test "enable and disable: whoever may not is told, and nothing changes" {
    as=()
    if ((EUID == 0)); then
        as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
        chmod 0755 "$root" && chmod a+x "$BATS_RUN_TMPDIR" "$BATS_TEST_TMPDIR" "${BATS_TEST_TMPDIR%/*}"
        "${as[@]}" test -x "$root" -a -x "$tool" || skip 'others cannot enter the build folder'
    fi
    chmod a-w "$root/etc" "$drivers"
    before=$(sums)
    run -1 --separate-stderr "${as[@]}" "$tool" enable --root "$root"
    [[ -z $output && $stderr == *'Permission denied; as root: sudo coherdma enable' ]]
    run -0 "${as[@]}" "$tool" enable --root "$root" --dry-run
    chmod u+w "$root/etc" "$drivers"
    [[ $(sums) == "$before" ]]
}

# packed VERSION TEXT: a package whose conffile is rxe.driver with that text.
packed() {
    local package=$BATS_TEST_TMPDIR/providers-$1
    mkdir -p "$package/DEBIAN" "$package/etc/libibverbs.d"
    printf 'Package: providers\nVersion: %s\nArchitecture: all\nMaintainer: nobody <n@example.org>\nDescription: %s\n' \
        "$1" drivers >"$package/DEBIAN/control"
    echo /etc/libibverbs.d/rxe.driver >"$package/DEBIAN/conffiles"
    printf '%s' "$2" >"$package/etc/libibverbs.d/rxe.driver"
    chmod -R u=rwX,go=rX "$package"
    dpkg-deb --root-owner-group -b "$package" >/dev/null
}
# installed VERSION [OPTION...]: by dpkg, which asks nothing.
installed() {
    local version=$1
    shift
    dpkg --root="$root" --force-not-root --force-script-chrootless --log=/dev/null "$@" \
        -i "$BATS_TEST_TMPDIR/providers-$version.deb" </dev/null
}

@test "dpkg: upgrades of rdma-core keep our line, or status says that it is gone" {
    command -v dpkg-deb >/dev/null || skip 'no dpkg'
    rm "$drivers"/{rxe,siw}.driver
    mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers}
    touch "$root"/var/lib/dpkg/{status,available}
    packed 1 $'driver rxe\n'
    packed 2 $'driver rxe\n'
    packed 3 $'# new\ndriver rxe\n'
    packed 4 $'# newer\ndriver rxe'
    installed 1
    of_root enable
    [[ $(dpkg --root="$root" --verify providers) == *' c /etc/libibverbs.d/rxe.driver' ]]

    installed 2 # the same conffile: kept without a question
    [[ $(state) == on ]]

    installed 3 --force-confold # a changed one, and the administrator keeps his
    run -1 of_root status
    [[ $output == *'half: '*'rxe.driver.dpkg-dist'* ]] # libibverbs reads that one, too
    of_root enable
    [[ $(state) == on ]]
    of_root disable
    rm "$drivers/rxe.driver.dpkg-dist"
    of_root enable

    installed 4 --force-confnew # or takes the new one
    [[ $(state) == half && -e $drivers/rxe.driver.dpkg-old ]]
    rm "$drivers/rxe.driver.dpkg-old"
    [[ $(state) == off ]]

    of_root enable
    [[ $(state) == on && $(dpkg --root="$root" --verify providers) ]]
    of_root disable
    [[ -z $(dpkg --root="$root" --verify providers) ]] # as the package has it, to the byte
}

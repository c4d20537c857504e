#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# coherdma enable, disable and status on a system in a folder, without RDMA and root.

bats_require_minimum_version 1.5.0
tool=$BUILD/tools/coherdma

setup() {
    library=$(ldconfig -p | sed -n 's/.*libibverbs.so.1 .*=> //p' | head -n 1)
    [[ $library ]] || skip 'no libibverbs'
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

# with_root COMMAND [OPTION...]: on the system in the folder.
with_root() { "$tool" "$1" --root "$root" "${@:2}"; }
checksums() { (cd "$drivers" && stat -c '%n %a %u %g' -- * && sha256sum -- *); }
state() { with_root status --json | jq -r .system.state; }

@test "enable, disable: print and make the same changes, disable restores" {
    printf 'driver siw' >"$drivers/siw.driver"
    before=$(checksums)
    run -0 --separate-stderr with_root enable --dry-run
    [[ -z $stderr && ${#lines[@]} == 3 && ${lines[2]} == 'Nothing was changed.' ]]
    [[ ${lines[0]} == '+ /etc/libibverbs.d/rxe.driver:2: driver coherdma' ]]
    [[ $(checksums) == "$before" && $(state) == off ]]
    run -0 --separate-stderr with_root enable
    [[ ${#lines[@]} == 3 && ${lines[1]} == '+ /etc/libibverbs.d/siw.driver:2: driver coherdma' ]]
    [[ $(state) == on && $(cat "$drivers/rxe.driver") == $'driver rxe\ndriver coherdma' ]]
    run -0 with_root enable
    [[ $output == 'Already enabled'* ]]
    run -0 with_root disable --dry-run
    [[ $(state) == on ]]
    run -0 --separate-stderr with_root disable
    [[ ${lines[0]} == '- /etc/libibverbs.d/rxe.driver:2: driver coherdma' ]]
    [[ $(checksums) == "$before" && $(ls -A "$root/etc") == libibverbs.d ]]
    run -0 with_root disable
    [[ $output == 'Already disabled.' ]]
}

@test "disable: restores the driver files of this machine" {
    [[ -e /etc/libibverbs.d/rxe.driver ]] || skip "no drivers of rdma-core here"
    cp -p /etc/libibverbs.d/* "$drivers"
    before=$(checksums)
    run -0 with_root enable
    [[ $(state) == on ]]
    [[ $(diff <(echo "$before") <(checksums) | grep -c '^>') == 2 ]]
    run -0 with_root disable
    [[ $(checksums) == "$before" ]]
}

@test "status: off and on are 0, partial and stale are 1 with a fix" {
    run -0 with_root status
    [[ $output == 'System setting: off: '* ]]
    with_root enable
    run -0 with_root status
    [[ $output == 'System setting: on: by line 2 of /etc/libibverbs.d/rxe.driver'* ]]
    echo 'driver siw' >"$drivers/siw.driver"
    run -1 with_root status
    [[ $output == 'System setting: partial: '*'siw.driver'* && ${lines[-1]} == 'fix: coherdma enable' ]]
    with_root enable
    rm "$root$COHERDMA_PROVIDER"
    run -1 with_root status
    [[ $output == 'System setting: stale: '*"$COHERDMA_PROVIDER"* && ${lines[-1]} == 'fix: coherdma disable' ]]
    with_root disable
    run -0 with_root status
}

@test "enable: names the missing plugin or package" {
    rm "$root$COHERDMA_PROVIDER"
    run -1 --separate-stderr with_root enable
    [[ -z $output && $stderr == *"there is no $root"*"/libcoherdma-rdmav"*"; install coherdma"* ]]
    rm "$drivers"/{rxe,siw}.driver
    printf 'ID=debian\n' >"$root/etc/os-release"
    run -1 --separate-stderr with_root enable
    [[ -z $output && $stderr == *'apt install ibverbs-providers' ]]
    rm -r "$drivers"
    run -1 --separate-stderr with_root enable
    [[ $stderr == *'apt install ibverbs-providers' ]]
    run -0 with_root disable
}

@test "enable, disable, status: an empty, relative or missing root is misuse, and nothing changes" {
    before=$(sha256sum /etc/libibverbs.d/* 2>&1 || true)
    cd "$root"
    for command in enable disable status; do
        for folder in '' . etc/.. "$root/missing" "$root$library"; do
            run -2 --separate-stderr "$tool" "$command" --root "$folder"
            [[ -z $output && $stderr == 'coherdma: --root: '*'; see: coherdma --help' ]]
        done
    done
    [[ $(sha256sum /etc/libibverbs.d/* 2>&1 || true) == "$before" && $(state) == off ]]
}

@test "enable: without permission fails, changes nothing" {
    as=()
    if ((EUID == 0)); then
        as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
        chmod 0755 "$root" && chmod a+x "$BATS_RUN_TMPDIR" "$BATS_TEST_TMPDIR" "${BATS_TEST_TMPDIR%/*}"
        "${as[@]}" test -x "$root" -a -x "$tool" || skip 'others cannot enter the build folder'
    fi
    chmod a-w "$root/etc" "$drivers"
    before=$(checksums)
    run -1 --separate-stderr "${as[@]}" "$tool" enable --root "$root"
    [[ -z $output && $stderr == *'Permission denied; as root: sudo coherdma enable' ]]
    run -0 "${as[@]}" "$tool" enable --root "$root" --dry-run
    chmod u+w "$root/etc" "$drivers"
    [[ $(checksums) == "$before" ]]
}

# expect_refused PROBLEM: enable as root, of $root$COHERDMA_PROVIDER, and changes nothing.
expect_refused() {
    local option
    before=$(checksums)
    for option in '' --dry-run; do
        # shellcheck disable=SC2086 # no option is no word
        run -1 --separate-stderr with_root enable $option
        echo "$stderr"
        [[ -z $output && $stderr == "coherdma: all programs would load $root$COHERDMA_PROVIDER, which users other than root can change: $1" ]]
    done
    [[ $(checksums) == "$before" ]]
}

@test "enable: refuses as root a plugin that other users can change, and says by which path" {
    ((EUID == 0)) || skip 'needs root'
    chmod -R go-w "$root"
    chown 54321 "$root$COHERDMA_PROVIDER"
    expect_refused "$root$COHERDMA_PROVIDER belongs to user 54321; install coherdma's package, or type: chown -h root $root$COHERDMA_PROVIDER"
    chown root "$root$COHERDMA_PROVIDER"
    chmod g+w "$root$COHERDMA_PROVIDER"
    expect_refused "$root$COHERDMA_PROVIDER is writable by its group (mode 0664); install coherdma's package, or type: chmod go-w $root$COHERDMA_PROVIDER"
    chmod g-w "$root$COHERDMA_PROVIDER"
    chmod a+w "$root$plugins"
    expect_refused "$root$plugins is writable by all users (mode 0777); install coherdma's package, or type: chmod go-w $root$plugins"
    chmod +t "$root$plugins" # as /tmp: others cannot replace a file of root
    with_root enable
    with_root disable
    chmod 755 "$root$plugins"
    touch "$root$plugins/libcoherdma-rdmav0.so"
    chmod 666 "$root$plugins/libcoherdma-rdmav0.so"
    expect_refused "$root$plugins/libcoherdma-rdmav0.so is writable by all users (mode 0666); install coherdma's package, or type: chmod go-w $root$plugins/libcoherdma-rdmav0.so"
    rm "$root$plugins/libcoherdma-rdmav0.so"
    with_root enable
}

@test "enable: a command that it names makes it succeed" {
    ((EUID == 0)) || skip 'needs root'
    chmod -R go-w "$root"
    mkdir "$root/opt" "$root/opt/it's"
    mv "$root$COHERDMA_PROVIDER" "$root/opt/it's"
    ln -rs "$root/opt/it's/${COHERDMA_PROVIDER##*/}" "$root$COHERDMA_PROVIDER"
    chown -h 54321 "$root$COHERDMA_PROVIDER" "$root/opt/it's"
    chmod 777 "$root/opt"
    local num_fixed=0
    until with_root enable 2>"$BATS_TEST_TMPDIR/error"; do
        cat "$BATS_TEST_TMPDIR/error"
        bash -ec "$(sed 's/.* or type: //' "$BATS_TEST_TMPDIR/error")"
        num_fixed=$((num_fixed + 1))
        ((num_fixed <= 3))
    done
    ((num_fixed == 3))
    [[ $(state) == on ]]
}

@test "status: reports an enabled plugin that other users can change" {
    ((EUID == 0)) || skip 'needs root'
    chmod -R go-w "$root"
    with_root enable
    [[ $(with_root status --json | jq -c '.system.lines | map(.exposed)') == '[null,null]' ]]
    chown 54321 "$root$plugins"
    run -1 with_root status
    [[ ${lines[0]} == 'System setting: on: '* ]]
    [[ $(tr -d '\n ' <<<"$output") == *"Usersotherthanrootcanchangetheplugin:$root${plugins}belongstouser54321"* ]]
    [[ ${lines[-1]} == "fix: chown -h root $root$plugins" ]]
    run -1 with_root status --json
    [[ $(jq -r '.system.state, .system.lines[0].exposed' <<<"$output") == "on"$'\n'"$root$plugins belongs to user 54321" ]]
    bash -c "$(with_root status | sed -n 's/^fix: //p')"
    run -0 with_root status
}

@test "enable, status: an ordinary user may name any plugin in a folder of theirs" {
    as=()
    if ((EUID == 0)); then
        as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
        chown -R 65534:65534 "$root"
        chmod a+x "$BATS_RUN_TMPDIR" "$BATS_TEST_TMPDIR" "${BATS_TEST_TMPDIR%/*}"
        "${as[@]}" test -x "$root" -a -x "$tool" || skip 'others cannot enter the build folder'
    fi
    chmod 777 "$root$COHERDMA_PROVIDER"
    run -0 --separate-stderr "${as[@]}" "$tool" enable --root "$root"
    run -0 "${as[@]}" "$tool" status --root "$root"
    [[ $output == 'System setting: on: '* ]]
}

# build_package VERSION TEXT: a package with the conffile rxe.driver of this text.
build_package() {
    local package=$BATS_TEST_TMPDIR/providers-$1
    mkdir -p "$package/DEBIAN" "$package/etc/libibverbs.d"
    printf 'Package: providers\nVersion: %s\nArchitecture: all\nMaintainer: test <test@example.org>\nDescription: %s\n' \
        "$1" drivers >"$package/DEBIAN/control"
    echo /etc/libibverbs.d/rxe.driver >"$package/DEBIAN/conffiles"
    printf '%s' "$2" >"$package/etc/libibverbs.d/rxe.driver"
    chmod -R u=rwX,go=rX "$package"
    dpkg-deb --root-owner-group -b "$package" >/dev/null
}
# install_package VERSION [OPTION...]: with dpkg, without questions.
install_package() {
    local version=$1
    shift
    dpkg --root="$root" --force-not-root --force-script-chrootless --log=/dev/null "$@" \
        -i "$BATS_TEST_TMPDIR/providers-$version.deb" </dev/null
}

@test "dpkg upgrade: keeps the driver line or status reports it" {
    command -v dpkg-deb >/dev/null || skip 'no dpkg'
    rm "$drivers"/{rxe,siw}.driver
    mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers}
    touch "$root"/var/lib/dpkg/{status,available}
    build_package 1 $'driver rxe\n'
    build_package 2 $'driver rxe\n'
    build_package 3 $'# new\ndriver rxe\n'
    build_package 4 $'# newer\ndriver rxe'
    install_package 1
    with_root enable
    [[ $(dpkg --root="$root" --verify providers) == *' c /etc/libibverbs.d/rxe.driver' ]]

    install_package 2 # the same conffile is kept
    [[ $(state) == on ]]

    install_package 3 --force-confold # a changed conffile, the old one is kept
    run -1 with_root status
    [[ $output == *'partial: '*'rxe.driver.dpkg-dist'* ]] # libibverbs reads this file too
    with_root enable
    [[ $(state) == on ]]
    with_root disable
    rm "$drivers/rxe.driver.dpkg-dist"
    with_root enable

    install_package 4 --force-confnew # the new conffile is taken
    [[ $(state) == partial && -e $drivers/rxe.driver.dpkg-old ]]
    rm "$drivers/rxe.driver.dpkg-old"
    [[ $(state) == off ]]

    with_root enable
    [[ $(state) == on && $(dpkg --root="$root" --verify providers) ]]
    with_root disable
    [[ -z $(dpkg --root="$root" --verify providers) ]] # equal to the package's
}

#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The repository of scripts/release, signed by a key that is made here, and served to apt in a minimal Debian 12.
# $PACKAGES is the folder of coherdma's packages.

bats_require_minimum_version 1.5.0

repository=$BATS_TEST_DIRNAME/../..
page=$repository/docs/packages.md
USER_ID=1234

setup_file() {
    [[ $(id -u) == 0 ]] || skip 'only root enters a root of Debian here'
    umask 022
    folder=$(mktemp -d /tmp/release_repository.XXXXXX) # which the user of apt can enter
    chmod 755 "$folder"
    export folder GNUPGHOME=$folder/gnupg
    mkdir -m 700 "$GNUPGHOME"
    for name in releaser stranger; do
        gpg --batch --quiet --passphrase '' --quick-gen-key "$name <$name@test.invalid>" ed25519 sign 0
    done
    make_repository "$folder/web"
    mmdebstrap --quiet --variant=minbase --skip=cleanup/apt/lists --include=ca-certificates,curl --aptopt='Acquire::Check-Valid-Until "false"' \
        bookworm "$folder/root.tar"
    python3 -m http.server --directory "$folder/web" --bind 127.0.0.1 0 >"$folder/server" 2>&1 3>&- &
    echo $! >"$folder/server.pid"
    until address=$(grep -o 'http://[0-9.:]*' "$folder/server"); do sleep 0.1; done
    export address
}
teardown_file() {
    [[ ! -e ${folder:-}/server.pid ]] || kill "$(<"$folder/server.pid")"
    [[ ! ${folder:-} ]] || { gpgconf --kill all && rm -rf "$folder"; }
}

# make_repository FOLDER [OPTION...]
make_repository() {
    "$repository/scripts/release" repository --suite bookworm --packages "$PACKAGES" --key releaser --out "$1" "${@:2}" 3>&-
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir root
    tar -xf "$folder/root.tar" -C root --exclude='./dev/*'
    cp -r "$folder/web/apt" "$folder/apt.right"
}
teardown() {
    rm -rf "$folder/web/apt" root
    mv "$folder/apt.right" "$folder/web/apt"
}

# in_root COMMAND...: as root, in the root of this test.
in_root() {
    # shellcheck disable=SC2016 # $@ is for the inner shell
    unshare --mount --propagation private --pid --fork --kill-child --mount-proc sh -eu -c '
        mount --bind root /mnt
        cd /mnt
        mount -t tmpfs -o mode=755 none dev
        for node in null zero full random urandom; do touch "dev/$node" && mount --bind "/dev/$node" "dev/$node"; done
        mkdir dev/shm
        mount -t tmpfs -o mode=1777 none dev/shm
        mount --bind /proc proc
        exec chroot /mnt env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"' - "$@" 3>&-
}
# run_page NUMBER: runs a block of the page's section, with the address of the server.
run_page() {
    awk -v number="$1" '
        /^## / { in_section = $0 == "## From the repository" }
        in_block && $0 == "```" { exit }
        in_block
        in_section && $0 == "```sh" { in_block = ++count == number }' "$page" | sed "s,https://packages.example,$address,; s,\bsudo ,," >block
    [[ -s block ]]
    run in_root sh -eux -c "$(<block)"
    echo "$output"
}

@test "docs/packages.md: apt verifies the repository, and installs softrdma, which runs" {
    run_page 1
    [[ $status == 0 && $output != *W:* ]]
    run -0 in_root apt-cache policy softrdma
    [[ $output == *"$address/apt bookworm/main amd64 Packages"* ]]
    run_page 2
    [[ $status == 0 ]]
    run -0 in_root setpriv --reuid $USER_ID --regid $USER_ID --clear-groups env HOME=/nonexistent softrdma run -- ibv_devinfo
    echo "$output"
    [[ $output == *rxe0*PORT_ACTIVE* ]]
}

@test "apt gets the source package" {
    run_page 1
    in_root sed -i 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/coherdma.sources
    in_root apt-get update
    run -0 in_root sh -c 'cd /root && apt-get source --download-only --quiet coherdma && ls'
    [[ $output == *coherdma_*.dsc* ]]
}

# change_byte FILE: in its middle.
change_byte() {
    local offset=$(($(stat -c %s "$1") / 2))
    # Not by a variable, which would lose the byte if it becomes 0 or a newline.
    dd if="$1" bs=1 skip=$offset count=1 status=none of=byte
    tr '\000-\377' '\001-\377\000' <byte | dd of="$1" bs=1 seek=$offset conv=notrunc status=none
}
# expect_refusal TEXT: of apt-get update.
expect_refusal() {
    run_page 1
    [[ $status != 0 && $output == *"$1"* ]]
}

@test "a changed list of packages is refused" {
    for file in "$folder"/web/apt/dists/bookworm/main/binary-amd64/{Packages,by-hash/SHA256/*}*; do
        [[ -d $file ]] || change_byte "$file"
    done
    expect_refusal 'Hash Sum mismatch'
}

@test "apt gets the lists that it knows from a Release file that was replaced since" {
    release=$folder/web/apt/dists/bookworm/InRelease
    cp "$release" old
    mkdir packages
    cp -r "$PACKAGES/bookworm-amd64" packages
    rm packages/*/libdat1_*
    sed -i '/ libdat1_/d' packages/*/SHA256SUMS
    make_repository "$folder/web" --packages packages
    run ! cmp -s old "$release"
    cp old "$release"
    run_page 1
    [[ $status == 0 && $output != *W:* ]]
}

@test "a changed package is refused" {
    run_page 1
    change_byte "$(echo "$folder"/web/apt/pool/bookworm/softrdma_*.deb)"
    run_page 2
    [[ $status != 0 && $output == *'Hash Sum mismatch'* ]]
    run ! in_root dpkg -s softrdma
}

@test "a changed Release file is refused" {
    sed -i 's/^Origin: .*/Origin: another/' "$folder/web/apt/dists/bookworm/InRelease"
    expect_refusal 'is not signed'
}

@test "a signature of another key is refused" {
    make_repository "$folder/stranger" --key stranger
    rm -r "$folder/web/apt"
    mv "$folder/stranger/apt" "$folder/web/apt"
    cp "$folder/apt.right/coherdma-archive-keyring.asc" "$folder/web/apt"
    expect_refusal 'is not signed'
}

@test "a repository without signature is refused" {
    "$repository/scripts/release" repository --suite bookworm --packages "$PACKAGES" --unsigned --out "$folder/unsigned" 3>&-
    rm "$folder"/web/apt/dists/bookworm/{InRelease,Release,Release.gpg}
    cp "$folder/unsigned/apt/dists/bookworm/Release" "$folder/web/apt/dists/bookworm"
    expect_refusal 'is not signed'
    # It is the same but for the signature.
    diff -r --exclude=InRelease --exclude=Release.gpg --exclude=coherdma-archive-keyring.asc "$folder/unsigned/apt" "$folder/apt.right"
}

@test "without a key, or with one that gpg does not have, nothing is made" {
    run -2 "$repository/scripts/release" repository --out out
    [[ $output == *'give --key ID, or --unsigned'* ]]
    run -2 make_repository out --unsigned
    [[ $output == *'only one is possible'* ]]
    run -1 make_repository out --key missing
    [[ $output == *'gpg has no secret key missing'* && ! -e out ]]
    mkdir -p out/apt
    echo mine >out/apt/thesis
    run -2 make_repository out
    [[ $output == *'apt is there and is not a repository'* && $(<out/apt/thesis) == mine ]]
}

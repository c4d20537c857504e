#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The images of scripts/release, loaded and run by podman as a user without root. $PACKAGES is the folder of coherdma's
# packages. If the test is root's, the user has a home, a name and user IDs for containers only here.

bats_require_minimum_version 1.5.0

repository=$BATS_TEST_DIRNAME/../..
USER_ID=4321
FIRST_SUBORDINATE=1000000 NUM_SUBORDINATES=65536

setup_file() {
    local program
    for program in podman runc newuidmap mmdebstrap; do
        type $program >/dev/null || skip "$program is not installed; see ci/packages"
    done
    folder=$(mktemp -d /tmp/release_image.XXXXXX) # which the user can enter
    chmod 755 "$folder"
    export folder
    mkdir -m 700 "$folder"/{home,run}
    cp /etc/{passwd,group} "$folder"
    echo "tester:x:$USER_ID:$USER_ID::$folder/home:/bin/sh" >>"$folder/passwd"
    echo "tester:x:$USER_ID:" >>"$folder/group"
    echo "tester:$FIRST_SUBORDINATE:$NUM_SUBORDINATES" | tee "$folder/subgid" >"$folder/subuid"
    # runc supports cgroups v1. The limits: on some machines they cannot be raised.
    cat >"$folder/containers.conf" <<'CONFIGURATION'
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
CONFIGURATION
    (($(id -u))) || chown $USER_ID:$USER_ID "$folder"/{home,run}
    "$repository/scripts/release" image runtime --out "$folder/dist" --packages "$PACKAGES" 3>&-
}
teardown_file() {
    [[ ! ${folder:-} ]] || {
        as_user podman unshare rm -rf "$folder/home/.local"
        rm -rf "$folder"
    }
}

setup() { cd "$BATS_TEST_TMPDIR" || return; }

# as_user COMMAND...: runs it as the user, in a mount namespace with the user's name.
as_user() {
    local environment=(env -i "HOME=$folder/home" "XDG_RUNTIME_DIR=$folder/run" "CONTAINERS_CONF=$folder/containers.conf"
        PATH=/usr/bin:/bin:/usr/sbin:/sbin)
    if (($(id -u))); then
        "${environment[@]}" "$@" 3>&-
        return
    fi
    # shellcheck disable=SC2016 # $1 and $@ are for the inner shell
    unshare --mount --propagation private sh -eu -c '
        for name in passwd group subuid subgid; do
            [ -e "/etc/$name" ] || : >"/etc/$name"
            mount --bind "$1/$name" "/etc/$name"
        done
        mount --make-rshared /
        cd "$1/home"
        user=$2
        shift 2
        exec setpriv --reuid "$user" --regid "$user" --clear-groups "$@"' - "$folder" $USER_ID "${environment[@]}" "$@" 3>&-
}
# in_image NAME COMMAND...: in a container without network, capabilities and files to write but /tmp.
in_image() {
    as_user podman run --rm --network none --read-only --cap-drop all --security-opt no-new-privileges \
        "localhost/$1" "${@:2}"
}
image_file() { echo "$folder/dist/$1"-*-image.oci.tar; }
# shellcheck disable=SC2016 # $HOST2 is for the guest's shell
RPING='on 2 rping -s -a $HOST2 -C 3 & sleep 1
    rping -c -a $HOST2 -C 3 -vV; wait'

@test "a user without root loads the image of softrdma, and runs programs with devices" {
    version=$("$repository/scripts/softrdma" --version | grep -o '[0-9.]*$')
    run -0 as_user podman load --input "$(image_file softrdma)"
    [[ $output == *"localhost/softrdma:$version"* ]]
    run -0 in_image "softrdma:$version" sh -c 'id; softrdma run -- ibv_devinfo'
    echo "$output"
    [[ ${lines[0]} == 'uid=1000(rdma) '* && $output == *rxe0*PORT_ACTIVE* ]]
    run in_image "softrdma:$version" softrdma run --hosts 2 -- sh -c "$RPING"
    echo "$output"
    [[ $output == *'ping data: rdma-ping-2: CDEFGHIJ'* ]]
}

@test "docs/packages.md: the commands for the image" {
    awk '/^## / { in_section = $0 == "## From an image" }
        in_block && $0 == "```" { exit }
        in_block
        in_section && $0 == "```sh" { in_block = 1 }' "$repository/docs/packages.md" >block
    [[ -s block ]]
    run -0 as_user sh -euxc "cd '$folder/dist'; $(<block)"
    [[ $output == *PORT_ACTIVE* ]]
}

@test "a user without root loads the image with coherdma's packages, and runs its programs" {
    as_user podman load --input "$(image_file coherdma)"
    # shellcheck disable=SC2016 # $HOST1 is for the guest's shell
    run -0 in_image coherdma:0.1.0 softrdma run --driver both -- sh -c 'datping -s -I rxe0 --once &
        sleep 1; datping $HOST1 -I rxe0 --mode all --count 10'
    echo "$output"
    [[ $output == *'all data right'* ]]
}

@test "the images' labels name the commit; no file of the machine is in them" {
    commit=$(git -c safe.directory='*' -C "$repository" rev-parse HEAD)
    for name in softrdma coherdma; do
        run -0 as_user podman image inspect --format '{{index .Labels "org.opencontainers.image.revision"}} {{.User}}' "localhost/$name:0.1.0"
        [[ $output == "$commit rdma" ]]
        run -0 in_image $name:0.1.0 sh -c 'ls /var/lib/apt/lists /var/cache/apt/archives /packages /etc/apt/apt.conf.d/99mmdebstrap 2>/dev/null | grep [.]; ls /dev/mem; true'
        [[ $output == "ls: cannot access '/dev/mem'"* ]]
    done
}

@test "the bill of an image has the packages that are in it" {
    for name in softrdma coherdma; do
        # shellcheck disable=SC2016 # for dpkg-query
        run -0 in_image $name:0.1.0 dpkg-query -W -f '${Package} ${Version} ${source:Package}\n'
        diff <(sort <<<"$output") <(jq -r '.packages[] | select(.SPDXID | startswith("SPDXRef-deb-"))
            | "\(.name) \(.versionInfo) \(.sourceInfo | split(" ")[3])"' "$folder/dist/$name"-*-image.spdx.json | sort)
    done
}

@test "the image is what docker before version 25 reads, too" {
    as_user podman image rm --all --force
    as_user podman pull --quiet "docker-archive:$(image_file softrdma)"
    run -0 in_image softrdma:0.1.0 softrdma run --driver siw -- ibv_devinfo
    [[ $output == *siw0*PORT_ACTIVE* ]]
}

@test "the image has the same bytes when made again, with another umask, language and time zone" {
    (umask 077 && LC_ALL=C TZ=ELSEWHERE-14 "$repository/scripts/release" image --out "$folder/again" 3>&-)
    cmp "$(image_file softrdma)" "$folder"/again/softrdma-*-image.oci.tar
    cmp "$folder"/dist/softrdma-*-image.spdx.json "$folder"/again/softrdma-*-image.spdx.json
}

@test "a damaged image is refused" {
    cp "$(image_file softrdma)" "$folder/damaged.tar"
    offset=$(($(stat -c %s "$folder/damaged.tar") / 2))
    printf 'x' | dd of="$folder/damaged.tar" bs=1 seek=$offset conv=notrunc status=none
    as_user podman image rm --all --force # podman does not read a layer that it has
    run ! as_user podman load --input "$folder/damaged.tar"
}

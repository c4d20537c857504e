#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The commands of docs/rdma-in-ci.md, unchanged, by podman on this machine. $PACKAGES is a folder of coherdma's
# packages for Debian 12, with the user-mode kernel.

bats_require_minimum_version 1.5.0
page=$BATS_TEST_DIRNAME/../../../docs/rdma-in-ci.md

setup_file() {
    [[ $(id -u) == 0 ]] || skip 'only root can make the Debian 12 of the containers'
    folder=$(mktemp -d "${TMPDIR:-/tmp}/docs_examples.XXXXXX")
    mkdir "$folder/networks"
    # The limits: on some machines root cannot raise them.
    cat >"$folder/containers.conf" <<END
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_config_dir = "$folder/networks"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
END
    cat >"$folder/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$folder/images"
runroot = "$folder/run"
END
    export folder CONTAINERS_CONF=$folder/containers.conf CONTAINERS_STORAGE_CONF=$folder/storage.conf
    # The same packages as in the image that Debian publishes.
    mmdebstrap --quiet --variant=minbase bookworm - | podman import --quiet - docker.io/library/debian:12
    # A source tree with packages in the folder that the page names.
    mkdir -p "$folder/source/build/packages"
    cp -r "$BATS_TEST_DIRNAME/../../../containers" "$folder/source"
    cp -r "$PACKAGES" "$folder/source/build/packages/bookworm-amd64"
}
teardown_file() {
    podman rm --all --force --time 0 >"$BATS_FILE_TMPDIR/rm" 2>&1 || cat "$BATS_FILE_TMPDIR/rm"
    umount "$folder/images/overlay" 2>/dev/null || true # podman may have unmounted it
    rm -rf "$folder"
}

# block HEADING LANGUAGE [N]: prints the N-th code block below the heading.
block() {
    awk -v heading="## $1" -v fence="\`\`\`$2" -v number="${3:-1}" '
        /^## / { in_section = $0 == heading }
        in_block && $0 == "```" { exit }
        in_block
        in_section && $0 == fence { in_block = ++count == number }' "$page" | grep .
}
# run_block HEADING [N]: runs a block of sh; the first command that fails ends it.
run_block() {
    cd "$folder/source" || return
    block "$1" sh "${2:-1}" >"$BATS_TEST_TMPDIR/block"
    run bash -eo pipefail "$BATS_TEST_TMPDIR/block" 3>&-
    tail -n 30 <<<"$output"
    [[ $status == 0 ]]
}

@test "One line in a job: each step succeeds in a bare Debian 12" {
    local job=$folder/job step old_lists=()
    mkdir -p "$job/home"
    chown 1001 "$job/home" # as on GitHub: HOME is the runner's, and the container's user is root
    git clone -q "$BATS_TEST_DIRNAME/../../.." "$job/coherdma"
    block 'One line in a job' yaml >"$job/job.yml"
    # Lists of packages may be as old as this machine's apt permits.
    [[ $(apt-config dump --format '%v' Acquire::Check-Valid-Until Acquire::Check-Date) != *false* ]] || old_lists=(--env SOFTRDMA_OLD_LISTS=yes)
    podman run --detach --name job --volume "$job:/job" --workdir /job --env HOME=/job/home "${old_lists[@]}" docker.io/library/debian:12 sleep infinity 3>&-
    /usr/bin/python3 - "$job/job.yml" "$job" <<'END'
import sys, yaml
with open(sys.argv[1]) as file:
    job = yaml.safe_load(file)["jobs"]["test"]
assert job["container"] == "debian:12"
with open(f"{sys.argv[2]}/env", "w") as file:
    file.writelines(f"{name}={value}\n" for name, value in job["env"].items())
for number, step in enumerate(s for s in job["steps"] if "run" in s):
    with open(f"{sys.argv[2]}/step{number}", "w") as file:
        file.write(step["run"])
END
    for step in "$job"/step?; do
        run podman exec --env-file "$job/env" job bash -e "/job/${step##*/}" 3>&-
        printf '%s\n' "$output"
        if [[ $status == 77 && $output == *'softrdma kernel build --newest' ]]; then
            echo '# the pinned kernel is not available; the newest one is used' >&3
            run podman exec --env-file "$job/env" job /job/coherdma/scripts/softrdma kernel build --newest 3>&-
            printf '%s\n' "$output"
        fi
        [[ $status == 0 ]]
    done
    [[ $step == */step3 && $(grep -c '^ping data' <<<"$output") == 10 ]]
}

@test "An image: the images are built" {
    run_block 'An image'
    podman images --format '# {{.Repository}} {{.Size}}' >&3
}

@test "An image: programs run in the image for running" {
    run_block 'An image' 2
    [[ $output == *'hca_id:'*rxe0*PORT_ACTIVE* && $output == *'all data right'* ]]
    # The doctor fails in a container without a device.
    run -0 podman run --rm coherdma sh -c 'id; coherdma doctor || true'
    [[ ${lines[0]} == 'uid=1000(rdma) '*'(rdma)'* && $output == *'This is a container'*softrdma* ]]
}

@test "An image: a program builds in the image for development" {
    run_block 'An image' 3
    [[ $output == *'all letters have arrived'* ]]
}

@test "Two containers: rping verifies 5 rounds between them" {
    run_block 'Two containers, RDMA between them'
    [[ $(grep -c '^ping data' <<<"$output") == 5 ]]
}

@test "Kubernetes: the pod runs to its end" {
    block Kubernetes yaml >"$BATS_TEST_TMPDIR/pod.yaml"
    run podman play kube "$BATS_TEST_TMPDIR/pod.yaml" 3>&-
    printf '%s\n' "$output"
    [[ $status == 0 ]]
    [[ $(podman wait rdma-test-test) == 0 ]]
    run -0 podman logs rdma-test-test
    [[ $(grep -c PORT_ACTIVE <<<"$output") == 2 ]]
    podman play kube --down "$BATS_TEST_TMPDIR/pod.yaml"
}

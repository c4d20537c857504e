#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What docs/rdma-in-ci.md tells people to type, as it stands there, by podman on this machine. $PACKAGES
# is a folder of our packages for Debian 12, the user-mode kernel's among them.

bats_require_minimum_version 1.5.0
page=$BATS_TEST_DIRNAME/../../docs/rdma-in-ci.md

setup_file() {
    [[ $(id -u) == 0 ]] || skip 'only root makes a Debian 12 here, for the containers'
    place=$(mktemp -d "${TMPDIR:-/tmp}/recipes.XXXXXX")
    mkdir "$place/networks"
    # The limits, since root may not raise them everywhere.
    cat >"$place/containers.conf" <<END
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_config_dir = "$place/networks"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
END
    cat >"$place/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$place/images"
runroot = "$place/run"
END
    export place CONTAINERS_CONF=$place/containers.conf CONTAINERS_STORAGE_CONF=$place/storage.conf
    # Nothing but what every Debian has, as in the image that Debian itself publishes.
    mmdebstrap --quiet --variant=minbase bookworm - | podman import --quiet - docker.io/library/debian:12
    # A source with packages, where the page has them.
    mkdir -p "$place/source/build/packages"
    cp -r "$BATS_TEST_DIRNAME/../../containers" "$place/source"
    cp -r "$PACKAGES" "$place/source/build/packages/bookworm-amd64"
}
teardown_file() {
    podman rm --all --force --time 0 >"$BATS_FILE_TMPDIR/rm" 2>&1 || cat "$BATS_FILE_TMPDIR/rm"
    umount "$place/images/overlay" 2>/dev/null || true
    rm -rf "$place"
}

# block HEADING LANGUAGE [N]: the page's N-th one below it.
block() {
    awk -v heading="## $1" -v fence="\`\`\`$2" -v wanted="${3:-1}" '
        /^## / { here = $0 == heading }
        inside && $0 == "```" { inside = 0; exit }
        inside
        here && $0 == fence { inside = ++seen == wanted }' "$page" | grep .
}
# typed HEADING [N]: in a shell that stops at the first failure; what was said is in $output.
typed() {
    cd "$place/source" || return
    block "$1" sh "${2:-1}" >"$BATS_TEST_TMPDIR/typed"
    run bash -eo pipefail "$BATS_TEST_TMPDIR/typed" 3>&-
    tail -n 30 <<<"$output"
    [[ $status == 0 ]]
}

@test "the job: each step, in a Debian 12 without anything else" {
    local job=$place/job step
    mkdir -p "$job"
    git clone -q "$BATS_TEST_DIRNAME/../.." "$job/coherdma"
    block 'One line in a job' yaml >"$job/job.yml"
    podman run --detach --name job --volume "$job:/job" --workdir /job --env HOME=/job/home docker.io/library/debian:12 sleep infinity 3>&-
    /usr/bin/python3 - "$job/job.yml" "$job" <<'END'
import sys, yaml
with open(sys.argv[1]) as file:
    job = yaml.safe_load(file)["jobs"]["test"]
assert job["container"] == "debian:12"
for number, step in enumerate(s for s in job["steps"] if "run" in s):
    with open(f"{sys.argv[2]}/step{number}", "w") as file:
        file.write(step["run"])
END
    for step in "$job"/step?; do
        run podman exec job bash -e "/job/${step##*/}" 3>&-
        printf '%s\n' "$output"
        [[ $status == 0 ]]
    done
    [[ $step == */step3 && $(grep -c '^ping data' <<<"$output") == 10 ]]
}

@test "the images" {
    typed 'An image'
    podman images --format '# {{.Repository}} {{.Size}}' >&3
}

@test "the image for running" {
    typed 'An image' 2
    [[ $output == *'hca_id:'*rxe0*PORT_ACTIVE* && $output == *'all data right'* ]]
    run -0 podman run --rm coherdma sh -c 'id; coherdma doctor || true'
    [[ ${lines[0]} == 'uid=1000(rdma) '*'(rdma)'* && $output == *'This is a container'*softrdma* ]]
}

@test "the image for development" {
    typed 'An image' 3
    [[ $output == *'all letters have arrived'* ]]
}

@test "two containers" {
    typed 'Two containers, RDMA between them'
    [[ $(grep -c '^ping data' <<<"$output") == 5 ]]
}

@test "the pod" {
    block Kubernetes yaml >"$BATS_TEST_TMPDIR/pod.yaml"
    run podman play kube "$BATS_TEST_TMPDIR/pod.yaml" 3>&-
    printf '%s\n' "$output"
    [[ $status == 0 ]]
    [[ $(timeout 120 podman wait rdma-test-test) == 0 ]]
    run -0 podman logs rdma-test-test
    [[ $(grep -c PORT_ACTIVE <<<"$output") == 2 ]]
    podman play kube --down "$BATS_TEST_TMPDIR/pod.yaml"
}

#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# verify.c, which checks every byte that arrives, with Debian's Open MPI and MPICH, a rank on each host of the run. With
# WITH=coherdma, coherdma's plugin serves the devices. WHOLE=1 runs it 20 times in each case, and with long messages.

bats_require_minimum_version 1.5.0
source "$BATS_TEST_DIRNAME/../lib/lib.bash"

setup_file() {
    local program
    for program in mpicc.openmpi mpirun.openmpi mpicc.mpich mpiexec.mpich; do
        command -v "$program" >/dev/null || skip "$program is not installed; try: ci/setup packages-mpi"
    done
    mpicc.openmpi -O2 "$BATS_TEST_DIRNAME/verify.c" -o "$BATS_FILE_TMPDIR/verify"
    mpicc.mpich -O2 "$BATS_TEST_DIRNAME/verify.c" -o "$BATS_FILE_TMPDIR/verify.mpich"
}

setup() {
    num_hosts=$(grep -c ' softrdma-' /etc/hosts)
    hosts=$(seq -s , -f softrdma-%g "$num_hosts")
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC=on
    export UCX_UD_VERBS_ETH_DGID_CHECK=n # KNOWN_FAULTS.md, U1
    [[ ${WITH:-} == coherdma ]] || return 0
    export RDMAV_DRIVERS=$BUILD/provider/libcoherdma
    export VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/tmp/verbs.$BATS_TEST_NUMBER # each host has its own
}

require_ucx() { [[ $SOFTRDMA_DEVICE == rxe* ]] || skip 'UCX does not support siw'; }

# sent_by_device: the packets of rxe on host 1; siw does not count.
sent_by_device() { cat "/sys/class/infiniband/$SOFTRDMA_DEVICE/ports/1/hw_counters/sent_pkts"; }

# expect_right COMMAND...: each run ends and finds no wrong byte, and the devices of all hosts were used.
expect_right() {
    local rounds=2 max_bytes=4097 round host before=0
    [[ -z ${WHOLE:-} ]] || rounds=20
    [[ $SOFTRDMA_DEVICE != rxe* ]] || before=$(sent_by_device)
    for ((round = 1; round <= rounds; round++)); do
        ((round > 1)) || [[ -z ${WHOLE:-} ]] || max_bytes=4194304
        run -0 timeout 900 "$@" $max_bytes
        [[ $output =~ verified\ [1-9][0-9]*\ bytes\ on\ $num_hosts\ ranks ]]
        max_bytes=4097
    done
    [[ $SOFTRDMA_DEVICE != rxe* ]] || (($(sent_by_device) - before > 100 * rounds))
    [[ ${WITH:-} == coherdma ]] || return 0
    for ((host = 1; host <= num_hosts; host++)); do on $host grep -q 'is served by coherdma' "$VERBS_LOG_FILE"; done
}

# expect_right_with_open_mpi OSC OPTION...: on all hosts, with this component for one-sided operations. Debian turns off
# pt2pt, by messages.
expect_right_with_open_mpi() {
    expect_right mpirun.openmpi -mca plm_rsh_agent on -H "$hosts" -mca osc "$@" "$BATS_FILE_TMPDIR/verify"
}

@test "Open MPI over libfabric" {
    [[ $SOFTRDMA_DEVICE == rxe* ]] || skip 'on siw a rank waits in MPI_Ssend without end: docs/cluster.md'
    expect_right_with_open_mpi pt2pt -mca pml cm -mca mtl ofi -mca mtl_ofi_provider_include verbs
}

@test "Open MPI over UCX" {
    require_ucx
    expect_right_with_open_mpi pt2pt -mca pml ucx -x UCX_UD_VERBS_ETH_DGID_CHECK
}

@test "Open MPI over UCX, with one-sided operations by UCX" {
    require_ucx
    # A rank flushes to peers that have gone: KNOWN_FAULTS.md, U3. By default it repeats that without end.
    expect_right_with_open_mpi ucx -mca pml ucx -x UCX_UD_VERBS_ETH_DGID_CHECK -x UCX_RC_RETRY_COUNT=6
}

@test "MPICH over UCX" {
    require_ucx
    expect_right mpiexec.mpich -hosts "$hosts" -n "$num_hosts" "$BATS_FILE_TMPDIR/verify.mpich"
}

@test "a rank that receives a wrong byte ends the job with status 1" {
    run -1 mpirun.openmpi -mca plm_rsh_agent on -H "$hosts" -mca osc pt2pt -mca btl self,tcp -x VERIFY_FAULT=1 "$BATS_FILE_TMPDIR/verify" 64
    [[ $output == *'MPI_Sendrecv of 64 bytes: byte 63 is wrong'* ]]
}

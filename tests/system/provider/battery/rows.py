# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The programs of the battery: their commands, and what shows that they worked.

In a command, {device}, {gid} (its index), {address}, {address6} and {netdev} are the device's.
"""

from typing import Dict, Iterator, List, Mapping, NamedTuple, Tuple


class Row(NamedTuple):
    """Without a server, the client is the only program."""

    package: str
    name: str  # the program and the options that matter, in the table
    client: str
    client_prints: str
    server: str = ""
    server_prints: str = ""
    ready: str = ""  # when the client may start; see run_pair.is_ready
    never_prints: str = ""
    exit_race: str = ""  # a side that has printed that may end with any status
    daemon: bool = False  # the server does not end by itself
    opens: int = 2  # how often the programs open the device
    fault: str = ""  # a failure with this output is one of tests/system/KNOWN_FAULTS.md
    preload: str = ""  # a library of the build
    left_out: Mapping[str, str] = {}  # by driver, why it does not run there
    causes: Mapping[
        str, Tuple[str, str]
    ] = {}  # by driver, a pattern of a reason, and what causes it

    def fill_in(self, facts: Dict[str, str]) -> "Row":
        """The row with the device's facts in place of {device} etc."""

        def fill(text: str) -> str:
            for name, fact in facts.items():
                text = text.replace(f"{{{name}}}", fact)
            return text

        return self._replace(
            client=fill(self.client),
            client_prints=fill(self.client_prints),
            server=fill(self.server),
            server_prints=fill(self.server_prints),
        )


def ibverbs_utils() -> Iterator[Row]:
    package = "ibverbs-utils"
    yield Row(package, "ibv_devices", "ibv_devices", r"^ +{device}\s", opens=0)
    for options in ("", "-v", "-l"):
        name = f"ibv_devinfo {options}".strip()
        if options == "-l":
            yield Row(package, name, "ibv_devinfo -l", r"^\s+{device}$", opens=0)
        else:
            yield Row(package, name, f"{name} -d {{device}}", r"state:\s+PORT_ACTIVE", opens=1)
    for program, variants in {
        "ibv_rc_pingpong": ["-c", "-c -e", "-c -N", "-c -N -e", "-c -t", "-c -o", "-c -O", "-c -j"],
        "ibv_uc_pingpong": ["-c", "-c -e"],
        "ibv_ud_pingpong": ["-c", "-c -e"],
        "ibv_srq_pingpong": ["-c", "-c -e", "-c -q 1"],
        "ibv_xsrq_pingpong": ["", "-e"],
    }.items():
        for options in variants:
            name = f"{program} {options}".strip()
            server = f"{name} -d {{device}} -g {{gid}}"
            prints = "iters in"
            if program != "ibv_xsrq_pingpong":
                server += " -n 500"
            yield Row(
                package,
                name,
                f"{server} {{address}}",
                prints,
                server=server,
                server_prints=prints,
                ready="tcp 18515",
                never_prints="invalid data",
            )


# Both sides of rping, after all pings: tests/system/KNOWN_FAULTS.md.
RPING_RACE = "rdma_get_cm_event: Bad file descriptor"
# siw takes data that follow the MPA reply for a part of it.
SIW_EARLY_DATA = "CONNECT_ERROR, error: -22$|failure connecting: Cannot allocate memory$"


def rdmacm_utils() -> Iterator[Row]:
    package = "rdmacm-utils"

    def rping(options: str, address: str = "{address}", server_options: str = "") -> Row:
        return Row(
            package,
            " ".join(["rping", *(["-a IPv6"] if address == "{address6}" else []), options]).strip(),
            f"rping -c -a {address} -v -V -C 100 {options}",
            r"^ping data: rdma-ping-99: ",
            server=f"rping -s -a {address} -V {server_options or '-C 100 ' + options}",
            ready="cm 7174",
            never_prints="(?i)mismatch|invalid|rping (client|server) failed",
            exit_race=RPING_RACE,
            daemon="-P" in server_options,
        )

    yield rping("")
    yield rping("-S 8192")
    yield rping("-S 8192", "{address6}")
    yield rping("-q")
    yield rping("", server_options="-P")._replace(name="rping, server -P")

    def messages(program: str, port: int, options: str, fault: str = "") -> Row:
        return Row(
            package,
            f"{program} {options}".strip(),
            f"{program} -s {{address}} {options}",
            "^data transfers complete",
            server=f"{program} -b {{address}} {options}",
            server_prints="^data transfers complete",
            ready=f"cm {port}",
            fault=fault,
        )

    yield messages("ucmatose", 7471, "", SIW_EARLY_DATA)
    yield messages("ucmatose", 7471, "-c 3 -C 20 -S 4096", SIW_EARLY_DATA)
    yield messages("ucmatose", 7471, "-c 50 -C 1", SIW_EARLY_DATA)
    yield messages("ucmatose", 7471, "-m", SIW_EARLY_DATA)
    yield messages("udaddy", 7174, "")
    yield messages("udaddy", 7174, "-c 3 -C 20 -S 512")
    for options in ("", "-o"):
        command = "mckey -m 239.1.2.3 -b {address} -C 2 -S 256"
        yield Row(
            package,
            f"mckey {options}".strip(),
            # Its sender may end before its sends have: tests/system/KNOWN_FAULTS.md.
            f"until {command} -s {options} || exit; grep -q '^data transfers complete' server.out; do :; done",
            "^data transfers complete",
            server=f"stdbuf -oL {command}",
            server_prints="^data transfers complete",
            ready="prints joined",
        )
    for options in ("-c 1", "-c 50"):
        yield Row(
            package,
            f"cmtime {options}",
            f"cmtime -s {{address}} {options}",
            r"^disconnect *: +[0-9.]+ ",
            server=f"cmtime -b {{address}} {options}",
            ready="cm 7471",
            daemon=True,
        )
    for prefix, options in (("rdma_", ""), ("rdma_x", ""), ("rdma_x", "-c x")):
        yield Row(
            package,
            f"{prefix}server, {prefix}client {options}".strip(),
            f"{prefix}client -s {{address}} {options}",
            "end 0$",
            server=f"{prefix}server {options}",
            server_prints="end 0$",
            ready="cm 7471",
        )

    def stream(program: str, options: str) -> Row:
        return Row(
            package,
            f"{program} {options}",
            f"{program} -s {{address}} {options}",
            "^custom +64k +20 ",
            server=f"{program} -b {{address}} {options}",
            server_prints="^custom +64k +20 ",
            ready="rsocket 7471",
        )

    sizes = "-S 65536 -C 20"
    yield stream("rstream", f"-T v -I 3 {sizes}")
    yield stream("rstream", f"-T b -T v -I 3 {sizes}")
    yield stream("rstream", f"-T n -T v -I 3 {sizes}")
    # Not -T a, which takes a disconnect that comes with the last data for a failure (KNOWN_FAULTS.md).
    yield stream("rstream", f"-T r -I 3 {sizes}")
    yield stream("rstream", f"-i 0 -T v -I 3 {sizes}")
    yield stream("riostream", f"-T v -I 3 {sizes}")
    yield stream("riostream", f"-T b -T v -I 3 {sizes}")
    yield stream("riostream", f"-T n -T v -I 3 {sizes}")
    yield stream("riostream", f"-T a -T v -I 3 {sizes}")
    for options in ("", "-T b", "-T n", "-T a", "-T e"):
        custom = f"-S 512 -C 50 {options}".strip()
        yield Row(
            package,
            f"udpong {custom}",
            f"udpong -s {{address}} {custom}",
            "^ *512 ",
            server=f"udpong -b {{address}} {custom}",
            ready="udp 7174",
            daemon=True,
        )
    yield Row(
        package,
        "rcopy",
        "rcopy /bin/bash {address}:copy && cmp /bin/bash copy && echo copied",
        "^copied$",
        server="rcopy",
        ready="rsocket 7427",
        daemon=True,
    )


# perftest compares the cycle counter with the clock, and connects before its peer listens.
PERFTEST_FAULTS = (
    "Correlation coefficient|Failed to connect RDMA CM events|ERRNO: Operation not supported"
)
# By program: each line is a row, with -R and without it.
PERFTEST = {
    "ib_send_bw": """
        -s 4096
        -s 4096 -e
        -s 4096 -b
        -s 4096 -q 8
        -s 64 -I 64
        -s 4096 -l 8
        -s 4096 --use-srq
        -s 4096 --use_old_post_send
        -a
        -c UC -s 4096
        -c UD -s 1024
        -c UD -s 1024 -e
        -c XRC -s 4096
    """,
    "ib_send_lat": """
        -s 64
        -s 64 -e
        -s 64 -I 64
        -s 64 --use-srq
        -s 64 --use_old_post_send
        -a
        -c UC -s 64
        -c UD -s 64
        -c UD -s 64 -e
        -c XRC -s 64
    """,
    "ib_write_bw": """
        -s 4096
        -s 4096 -e
        -s 4096 -b
        -s 4096 -q 8
        -s 64 -I 64
        -s 4096 -l 8
        -s 4096 --use_old_post_send
        -a
        -c UC -s 4096
    """,
    "ib_write_lat": """
        -s 64
        -s 64 -I 64
        -s 64 --use_old_post_send
        -a
        -c UC -s 64
    """,
    "ib_read_bw": """
        -s 4096
        -s 4096 -e
        -s 4096 -b
        -s 4096 -q 8
        -s 4096 --use_old_post_send
        -a
    """,
    "ib_read_lat": """
        -s 64
        -s 64 -e
        -s 64 --use_old_post_send
        -a
    """,
    "ib_atomic_bw": """
        -A FETCH_AND_ADD
        -A CMP_AND_SWAP
        -A FETCH_AND_ADD -e
        -A FETCH_AND_ADD -b
        -A FETCH_AND_ADD -q 4
        -A FETCH_AND_ADD --use_old_post_send
    """,
    "ib_atomic_lat": """
        -A FETCH_AND_ADD
        -A CMP_AND_SWAP
        -A FETCH_AND_ADD -e
        -A FETCH_AND_ADD --use_old_post_send
    """,
}


def perftest() -> Iterator[Row]:
    package = "perftest"
    for program, lines in PERFTEST.items():
        for options in lines.strip().splitlines():
            options = options.strip()
            iterations, size = (5, "8388608") if options == "-a" else (96, "[0-9]+")
            for connection, ready in (("-R", "cm 18515"), ("-x {gid}", "tcp 18515")):
                fault, left_out = PERFTEST_FAULTS, {}
                if options.endswith("-e") and program == "ib_send_bw":
                    fault += "|no end within"  # on siw it waits for an event that its credits do not make
                if options.endswith("64 -e") and program == "ib_send_lat" and "UD" not in options:
                    left_out = {"rxe": "hangs at random with both: tests/system/KNOWN_FAULTS.md"}
                server = f"{program} -d {{device}} {connection} -n {iterations} {options}"
                yield Row(
                    package,
                    f"{program} {'-R ' if connection == '-R' else ''}{options}",
                    f"{server} {{address}}",
                    f"^ *{size} +[0-9]+ +[0-9.]+ .*[1-9]",
                    server=server,
                    ready=ready,
                    fault=fault,
                    left_out=left_out,
                    preload="tests/system/lib/libperftest_clock.so",
                )
    server = "ib_write_bw -d {device} -z -n 100 -s 4096"
    yield Row(
        package,
        "ib_write_bw -z -s 4096",
        f"{server} {{address}}",
        "^ *4096 +[0-9]+ +[0-9.]+ .*[1-9]",
        server=server,
        ready="cm 18515",
        fault=PERFTEST_FAULTS,
        preload="tests/system/lib/libperftest_clock.so",
    )
    mac = "$(cat /sys/class/net/{netdev}/address)"
    ethernet = f"-d {{device}} -n 100 -s 64 -B {mac} -E {mac}"
    for program in ("raw_ethernet_bw", "raw_ethernet_lat"):
        yield Row(
            package,
            program,
            f"{program} --client {ethernet}",
            "^ *64 +[0-9]+ +[0-9.]+ .*[1-9]",
            server=f"{program} --server {ethernet}",
            ready="prints waiting",
        )


QPERF_TESTS = """
    rc_bw rc_bi_bw rc_lat uc_bw uc_bi_bw uc_lat ud_bw ud_bi_bw ud_lat
    rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat rc_rdma_write_poll_lat
    uc_rdma_write_bw uc_rdma_write_lat uc_rdma_write_poll_lat
    rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add
"""


def qperf() -> Iterator[Row]:
    for name in QPERF_TESTS.split():
        for option in ("-cm1 ", "-i {device}:1 "):
            if option == "-cm1 " and not name.startswith("rc_"):
                continue  # the program's -cm is for RC
            yield Row(
                "qperf",
                f"qperf {'-cm1 ' if option == '-cm1 ' else ''}{name}",
                f"qperf -t 1 {option}{{address}} {name}",
                r"^ +(bw|latency|msg_rate|send_bw) += +[0-9.]+",
                server="qperf",
                ready="tcp 19765",
                daemon=True,
            )


# Without this setting UCX drops the UD packets of an IPv4 GID on rxe: KNOWN_FAULTS.md. All its
# transports connect by UD, except rc_verbs in the tests with -x.
UCX_UD_SETTING = "UCX_UD_VERBS_ETH_DGID_CHECK=n"
UCX_WITHOUT_SETTING = (
    "no end within",
    f"UCX drops UD packets of an IPv4 GID without {UCX_UD_SETTING}",
)
UCX_ON_SIW = (
    "Cannot use|no usable transports|no active messages|does not print",
    "UCX does not support iWARP",
)


def ucx() -> Iterator[Row]:
    package = "ucx-utils"
    yield Row(
        package,
        "ucx_info -d",
        "ucx_info -d",
        "Transport: (rc|ud)_verbs$",
        opens=1,
        causes={"siw": UCX_ON_SIW},
    )

    def perftest_row(options: str, environment: str = "") -> Row:
        causes = {"siw": UCX_ON_SIW}
        if UCX_UD_SETTING not in environment and "-x rc" not in options:
            causes["rxe"] = UCX_WITHOUT_SETTING
        words = environment.split()
        if "-x " in options:
            words += ["ucx_perftest -d {device}:1"]
        else:
            words += ["UCX_NET_DEVICES={device}:1 ucx_perftest"]
        server = " ".join([*words, "-n 100 -w 10", options])
        return Row(
            package,
            ", ".join([f"ucx_perftest {options}", *environment.split()]),
            f"{server} {{address}}",
            "^Final: +100 ",
            server=server,
            ready="tcp 13337",
            causes=causes,
        )

    for test in ("am_lat", "am_bw", "put_lat", "put_bw", "get", "fadd", "cswap"):
        yield perftest_row(f"-x rc_verbs -t {test}{' -D zcopy -s 4096' if test == 'get' else ''}")
    yield perftest_row("-x ud_verbs -t am_lat")
    for test in ("am_lat", "am_bw -D bcopy -s 1024", "am_bw -D zcopy -s 2048"):
        yield perftest_row(f"-x ud_verbs -t {test}", UCX_UD_SETTING)
    for transport in ("rc", "ud"):
        variable = f"UCX_TLS={transport}"
        yield perftest_row("-t tag_lat -s 1024", variable)
        for test in (
            "tag_lat -s 1024",
            "tag_bw -s 65536",
            "stream_bw -s 65536",
            "ucp_get -s 65536",
        ):
            yield perftest_row(f"-t {test}", f"{variable} {UCX_UD_SETTING}")
    for test in ("ucp_am_bw -s 65536", "ucp_put_bw -s 65536", "ucp_fadd", "ucp_cswap"):
        yield perftest_row(f"-t {test}", f"UCX_TLS=rc {UCX_UD_SETTING}")


def libfabric() -> Iterator[Row]:
    package = "libfabric-bin"
    yield Row(package, "fi_info", "fi_info -p verbs -d {device}", "^ +domain: {device}$", opens=1)
    # Its prov/verbs/src/verbs_info.c: VERBS_MSG_CAPS, and vrb_alloc_info().
    no_tags = "no MSG endpoint of verbs has tags, on any device; those of verbs;ofi_rxm have"
    no_datagrams = "iWARP has no datagrams"
    endpoints: List[Tuple[str, str, Dict[str, str]]] = [
        ("verbs", "-e msg", {}),
        ("verbs", "-e msg -m tagged", {"rxe": no_tags, "siw": no_tags}),
        ("verbs", "-e dgram", {"siw": no_datagrams}),
        ("verbs;ofi_rxm", "-e rdm", {}),
        ("verbs;ofi_rxm", "-e rdm -m tagged", {}),
        ("verbs;ofi_rxd", "-e rdm", {"siw": no_datagrams}),
        ("verbs;ofi_rxd", "-e rdm -m tagged", {"siw": no_datagrams}),
    ]
    for provider, options, left_out in endpoints:
        suffix = "-dgram" if options == "-e dgram" or "rxd" in provider else ""
        server = f"fi_pingpong -p '{provider}' {options} -d {{device}}{suffix} -c -I 20"
        prints = "^(1k|1m) +20 +=20 "
        yield Row(
            package,
            f"fi_pingpong -p {provider} {options}",
            f"{server} {{address}}",
            prints,
            server=server,
            server_prints=prints,
            ready="tcp 47592",
            left_out=left_out,
        )


def fio() -> Iterator[Row]:
    # Not --verb=send, which hangs at random with both providers (KNOWN_FAULTS.md).
    for verb in ("write", "read"):
        for depth in (1, 8):
            # A job in a process of its own would leave the process group.
            common = f"--thread --ioengine=rdma --port=7471 --bs=64k --size=1m --iodepth={depth}"
            yield Row(
                "fio",
                f"fio --ioengine=rdma --verb={verb} --iodepth={depth}",
                f"fio --name=client {common} --hostname={{address}} --verb={verb}"
                # fio takes the side with --rw=write for the client, whatever the verb is.
                " --rw=write --iodepth_batch_complete=1",
                "^ +WRITE: bw=.* io=1024KiB",
                server=f"fio --name=server {common} --rw=read",
                server_prints="err= 0",
                ready="cm 7471",
            )


def asyncwatch() -> Iterator[Row]:
    """Takes the interface down and up, so it is the last."""
    yield Row(
        "ibverbs-utils",
        "ibv_asyncwatch",
        "ip link set {netdev} down && ip link set {netdev} up && echo is up",
        "^is up$",
        server="stdbuf -oL ibv_asyncwatch -d {device}",
        server_prints="IBV_EVENT_PORT_ERR(.|\\n)*IBV_EVENT_PORT_ACTIVE",
        ready="prints async event FD",
        daemon=True,
        opens=1,
    )


def all_rows() -> List[Row]:
    rows: List[Row] = []
    for group in (ibverbs_utils, rdmacm_utils, perftest, qperf, ucx, libfabric, fio, asyncwatch):
        rows += group()
    return rows

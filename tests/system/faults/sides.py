# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The programs whose calls fail: the command lines of both sides.

In a command, {device}, {gid} (its index) and {address} are the device's.
"""

from typing import Dict, NamedTuple, Tuple


class Sides(NamedTuple):
    """The commands of a program and its peer."""

    package: str
    side: str  # server or client, the one that has the faults
    ready: str  # when the client may start; see with_peer
    server: str
    client: str
    left_out: Tuple[str, ...] = ()  # drivers on which the program does not run

    def fill_in(self, facts: Dict[str, str]) -> "Sides":
        """The sides with the device's facts in place of {device} etc."""
        server, client = self.server, self.client
        for name, fact in facts.items():
            server = server.replace(f"{{{name}}}", fact)
            client = client.replace(f"{{{name}}}", fact)
        return self._replace(server=server, client=client)


# iWARP connects by rdma_cm only.
WITHOUT_CM = ("siw",)

RPING = ("cm 7174", "rping -s -a {address} -C 3", "rping -c -a {address} -C 3")
UCMATOSE = ("cm 7471", "ucmatose -b {address} -C 3", "ucmatose -s {address} -C 3")
RSTREAM = "-T v -I 3 -S 4096 -C 3"
WRITE_BW = "ib_write_bw -F -R -d {device} -n 20 -s 4096"
READ_LAT = "ib_read_lat -F -x {gid} -d {device} -n 20 -s 64"
RC_PINGPONG = "ibv_rc_pingpong -d {device} -g {gid} -n 20 -e"
FI_PINGPONG = "fi_pingpong -p verbs -e msg -d {device} -c -I 20 -S 64"
# A job in a process of its own would leave the process group.
FIO = "--thread --ioengine=rdma --port=7471 --bs=64k --size=256k --iodepth=2"


def rstream(options: str) -> Sides:
    return Sides(
        "rdmacm-utils",
        "client",
        "rsocket 7471",
        f"rstream -b {{address}} {options}",
        f"rstream -s {{address}} {options}",
    )


all_sides: Dict[str, Sides] = {
    "rping client": Sides("rdmacm-utils", "client", *RPING),
    "rping server": Sides("rdmacm-utils", "server", *RPING),
    "ucmatose client": Sides("rdmacm-utils", "client", *UCMATOSE),
    "ucmatose server": Sides("rdmacm-utils", "server", *UCMATOSE),
    "rstream client": rstream(RSTREAM),
    "rstream -T b client": rstream(f"-T b {RSTREAM}"),
    "ibv_rc_pingpong client": Sides(
        "ibverbs-utils",
        "client",
        "tcp 18515",
        RC_PINGPONG,
        f"{RC_PINGPONG} {{address}}",
        WITHOUT_CM,
    ),
    "ib_write_bw -R client": Sides(
        "perftest", "client", "cm 18515", WRITE_BW, f"{WRITE_BW} {{address}}"
    ),
    "ib_read_lat client": Sides(
        "perftest", "client", "tcp 18515", READ_LAT, f"{READ_LAT} {{address}}", WITHOUT_CM
    ),
    "qperf client": Sides(
        "qperf", "client", "tcp 19765", "qperf", "qperf -t 1 -cm1 {address} rc_lat"
    ),
    "fi_pingpong client": Sides(
        "libfabric-bin", "client", "tcp 47592", FI_PINGPONG, f"{FI_PINGPONG} {{address}}"
    ),
    "fio client": Sides(
        "fio",
        "client",
        "cm 7471",
        f"fio --name=server {FIO} --rw=read",
        # fio takes the side with --rw=write for the client.
        f"fio --name=client {FIO} --hostname={{address}} --verb=write --rw=write"
        " --iodepth_batch_complete=1",
    ),
}

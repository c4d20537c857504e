# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The rooms of softrdma: one file for one thing.

cli       the table of subcommands, what a user may type
errors    the ways to end, and their exit statuses
say       what people see while they wait
keeper    the process that cleans up, however softrdma ends
children  other programs: run them, wait for them, never lose them

devices   soft devices on the running kernel: modules, links, GIDs
handles   `up`, `down`, `list`: devices that stay until taken down
persistent  those of /etc/softrdma.d, which come again at each boot
cdi       what a container needs for each RDMA device, as its runtime reads it
hosts     hosts and their devices: on this kernel, or the one that it is
here      `run` on the running kernel

cache     the cache folder: whole entries or none
packages  Debian packages without installing them
kernels   a distribution kernel, ready to boot
siw       the module that those kernels lack
mends     what is mended in kernels and drivers that are built here
builders  compilers of another Debian release, to build it with
roots     a root file system for another architecture or release
initramfs what the guest boots from
jobs      what `run` was asked for, and what a guest is told of it
guest     `run` in a QEMU guest
uml       `run` in user mode: the kernel as a process, or one for each host
switch    joins the interfaces of such hosts, and those of peers by UDP
relay     between guests and the caller: streams, signals, status
lines     a running guest, and our end of its line
frames    what passes between relay and agent
pid1      a guest's process 1: makes its root a running system
agent     the other side of relay, in the guest
commands  a command that it runs
caller    the caller's streams, for a command that runs elsewhere
on        `on HOST COMMAND` between hosts that have a kernel each
umlkernel that kernel, built once
qemu      the emulator's command line and accelerator

kernelcommand  `kernel`: list, build, fetch, path, remove
"""

VERSION = "0.1.0"

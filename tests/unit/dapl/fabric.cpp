// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fabric.hpp"

#include "operations.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace played {

namespace {

thread_local int depth = 0;

void limit(ibv_device_attr &of) {
    of.max_mr_size = std::uint64_t{1} << 40;
    of.max_qp = 1000;
    of.max_qp_wr = 4096;
    of.device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_MGT_EXTENSIONS;
    of.max_sge = 8;
    of.max_sge_rd = 8;
    of.max_cq = 2000;
    of.max_cqe = 100000;
    of.max_mr = 200000;
    of.max_pd = 300;
    of.max_qp_rd_atom = 16;
    of.max_qp_init_rd_atom = 8;
    of.max_mw = 500;
    of.max_srq = 60;
    of.max_srq_wr = 1000;
    of.max_srq_sge = 6;
    of.vendor_id = 0x15b3;
    of.hw_ver = 7;
    std::strcpy(of.fw_ver, "2.41.7000");
}

void describe(hardware &one, const char *name, bool iwarp) {
    one = {};
    std::strcpy(one.handle.name, name);
    one.handle.node_type = iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
    one.handle.transport_type = iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    limit(one.limits);
    one.limits.atomic_cap = iwarp ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
    one.port.state = IBV_PORT_ACTIVE;
    one.port.max_mtu = one.port.active_mtu = IBV_MTU_1024;
    one.port.gid_tbl_len = 2;
    one.port.max_msg_sz = 1 << 20;
    one.port.link_layer = IBV_LINK_LAYER_ETHERNET;
    one.open.device = &one.handle;
    one.open.of = &one;
    one.open.num_comp_vectors = 1;
    one.open.async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
}

// The child has no thread that could give the lock back, and nothing of what its parent has.
void in_child() {
    new (&net().guard) std::mutex;
    depth = 0;
}

} // namespace

fabric::fabric() {
    pthread_atfork(nullptr, nullptr, in_child);
    devices[0].open.async_fd = devices[1].open.async_fd = -1;
    reset();
}

fabric::~fabric() {
    for (hardware &each : devices)
        close(each.open.async_fd);
}

fabric &net() {
    static fabric one;
    return one;
}

void fabric::reset() {
    wrong.stop();
    heard.clear();
    syncs.clear();
    addresses.clear();
    routes.clear();
    connects.clear();
    silent = purges = reuses_keys = vague = keeps_last = paused = false;
    late = 0;
    coherency = 0;
    held_kinds.clear();
    for (hardware &each : devices)
        if (each.open.async_fd >= 0)
            close(each.open.async_fd);
    describe(devices[0], "played0", false);
    describe(devices[1], "played1", true);
    operate(devices[0].open.ops);
    operate(devices[1].open.ops);
    for (std::size_t at = 0; at != devices.size(); ++at) {
        // As the addresses say: 192.0.2.1 and 192.0.2.2
        auto &first = devices[at].gids[0].raw, &second = devices[at].gids[1].raw;
        first[10] = first[11] = 0xff;
        first[12] = 192;
        first[14] = 2;
        first[15] = static_cast<std::uint8_t>(at + 1);
        std::memcpy(second, "\x20\x01\x0d\xb8", 4);
        second[15] = static_cast<std::uint8_t>(at + 1);
    }
}

std::map<std::string, int> fabric::living() {
    const entered call;
    auto copy = lives_;
    std::erase_if(copy, [](const auto &each) { return each.second == 0; });
    return copy;
}

int fabric::all_living() {
    int all = 0;
    for (const auto &[kind, count] : living()) {
        std::fprintf(stderr, "%d of %s are left\n", count, kind.c_str());
        all += count;
    }
    return all;
}

void fabric::pause() {
    const entered call;
    paused = true;
}

void fabric::deliver() {
    const entered call;
    paused = false;
    work();
}

ibv_qp *fabric::pair(std::uint32_t number) {
    const entered call;
    const auto found = by_number.find(number);
    return found != by_number.end() ? found->second : nullptr;
}

void fabric::fail(ibv_qp *pair) {
    const entered call;
    to_error(*static_cast<qp *>(pair));
}

void die(const char *what, ...) {
    va_list more;
    va_start(more, what);
    std::fputs("played: ", stderr);
    std::vfprintf(stderr, what, more);
    std::fputc('\n', stderr);
    va_end(more);
    std::abort();
}

bool inside() {
    return depth != 0;
}

entered::entered()
    : held(net().guard) {
    ++depth;
}
entered::~entered() {
    --depth;
}

void tick(int fd) {
    const std::uint64_t one = 1;
    if (write(fd, &one, sizeof one) != sizeof one)
        die("a descriptor cannot be written: %s", std::strerror(errno));
}

void untick(int fd) {
    std::uint64_t one;
    if (read(fd, &one, sizeof one) != sizeof one)
        die("a descriptor cannot be read: %s", std::strerror(errno));
}

} // namespace played

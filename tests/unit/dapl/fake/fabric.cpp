// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fabric.hpp"

#include "operations.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

namespace fake {

namespace {

thread_local int depth = 0;

void set_limits(ibv_device_attr &attr) {
    attr.max_mr_size = std::uint64_t{1} << 40;
    attr.max_qp = 1000;
    attr.max_qp_wr = 4096;
    attr.device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_MGT_EXTENSIONS;
    attr.max_sge = 8;
    attr.max_sge_rd = 8;
    attr.max_cq = 2000;
    attr.max_cqe = 100000;
    attr.max_mr = 200000;
    attr.max_pd = 300;
    attr.max_qp_rd_atom = 16;
    attr.max_qp_init_rd_atom = 8;
    attr.max_mw = 500;
    attr.max_srq = 60;
    attr.max_srq_wr = 1000;
    attr.max_srq_sge = 6;
    attr.vendor_id = 0x15b3;
    attr.hw_ver = 7;
    std::strcpy(attr.fw_ver, "2.41.7000");
}

/// What stays as it is: a thread may read it while a test begins.
void init_device(fake_device &dev, const char *name, bool iwarp) {
    std::strcpy(dev.ibdev.name, name);
    dev.ibdev.node_type = iwarp ? IBV_NODE_RNIC : IBV_NODE_CA;
    dev.ibdev.transport_type = iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
    dev.ctx.device = &dev.ibdev;
    dev.ctx.dev = &dev;
}

void reset_attributes(fake_device &dev) {
    dev.attr = {};
    set_limits(dev.attr);
    dev.attr.atomic_cap = dev.is_iwarp() ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
    dev.max_inline = fake_device{}.max_inline;
    dev.port_attr = {};
    dev.port_attr.state = IBV_PORT_ACTIVE;
    dev.port_attr.max_mtu = dev.port_attr.active_mtu = IBV_MTU_1024;
    dev.port_attr.gid_tbl_len = 2;
    dev.port_attr.max_msg_sz = 1 << 20;
    dev.port_attr.link_layer = IBV_LINK_LAYER_ETHERNET;
}

// In the child no thread exists that would unlock it. Events of the parent's contexts would be
// signaled to the parent, whose descriptors they are.
void reset_in_child() {
    new (&get_fabric().lock) std::mutex;
    get_fabric().contexts.clear();
    depth = 0;
}

} // namespace

fabric::fabric() {
    pthread_atfork(nullptr, nullptr, reset_in_child);
    init_device(devices[0], "fake0", false);
    init_device(devices[1], "fake1", true);
    reset();
}

fabric &get_fabric() {
    static fabric instance;
    return instance;
}

void fabric::reset() {
    injected.fail_none();
    posts.clear();
    syncs.clear();
    resolve_addr_results.clear();
    resolve_route_results.clear();
    connect_results.clear();
    drop_connects = destroy_qp_cleans_cq = allow_unmapped_memory = reuse_keys = fail_query_srq =
        suppress_last_wqe = paused = unanswered_block = connects_block = false;
    polls_before_flush = disconnect_delay_ms = bind_delay_ms = 0;
    ack_timeout = 14;
    during_dereg_mr = nullptr;
    sync_required = 0;
    addresses = initial_addresses();
    held_types.clear();
    for (std::size_t i = 0; i != devices.size(); ++i) {
        reset_attributes(devices[i]);
        devices[i].gids = {};
        // The GIDs of 192.0.2.1 and 192.0.2.2, 2001:db8::1 and ::2.
        auto &gid_v4 = devices[i].gids[0].raw, &gid_v6 = devices[i].gids[1].raw;
        gid_v4[10] = gid_v4[11] = 0xff;
        gid_v4[12] = 192;
        gid_v4[14] = 2;
        gid_v4[15] = static_cast<std::uint8_t>(i + 1);
        std::memcpy(gid_v6, "\x20\x01\x0d\xb8", 4);
        gid_v6[15] = static_cast<std::uint8_t>(i + 1);
    }
}

std::map<std::string, int> fabric::count_objects() {
    const library_call_guard call;
    auto copy = object_counts_;
    std::erase_if(copy, [](const auto &count) { return count.second == 0; });
    return copy;
}

int fabric::num_all_objects() {
    int sum = 0;
    for (const auto &[kind, count] : count_objects()) {
        std::fprintf(stderr, "%d %s leaked\n", count, kind.c_str());
        sum += count;
    }
    return sum;
}

void fabric::hold_work_requests() {
    const library_call_guard call;
    paused = true;
}

void fabric::release_work_requests() {
    const library_call_guard call;
    paused = false;
    run_work_requests();
}

ibv_qp *fabric::find_qp(std::uint32_t number) {
    const library_call_guard call;
    const auto it = qp_by_num.find(number);
    return it != qp_by_num.end() ? it->second : nullptr;
}

void fabric::fail_qp(ibv_qp *ibqp) {
    const library_call_guard call;
    qp_to_err(*static_cast<fake_qp *>(ibqp));
}

void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    std::fputs("fake fabric: ", stderr);
    std::vfprintf(stderr, format, args);
    std::fputc('\n', stderr);
    va_end(args);
    std::abort();
}

bool in_library_call() {
    return depth != 0;
}

library_call_guard::library_call_guard()
    : lock(get_fabric().lock) {
    ++depth;
}
library_call_guard::~library_call_guard() {
    --depth;
}

void increment_eventfd(int fd) {
    const std::uint64_t value = 1;
    if (write(fd, &value, sizeof value) != sizeof value)
        die("cannot write an eventfd: %s", std::strerror(errno));
}

void decrement_eventfd(int fd) {
    std::uint64_t value;
    if (read(fd, &value, sizeof value) != sizeof value)
        die("cannot read an eventfd: %s", std::strerror(errno));
}

} // namespace fake

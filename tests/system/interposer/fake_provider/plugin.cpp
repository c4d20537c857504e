// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registers the provider, and opens its contexts.

#include "objects.hpp"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <rdma/ib_user_ioctl_verbs.h>

namespace fake {
namespace {

constexpr abi::verbs_match_ent match_table[] = {abi::match_driver_id(RDMA_DRIVER_RXE),
                                                abi::match_table_end};

int query_device_ex(ibv_context *, const ibv_query_device_ex_input *, ibv_device_attr_ex *attr,
                    std::size_t) noexcept {
    ibv_device_attr &device = attr->orig_attr;
    std::snprintf(device.fw_ver, sizeof device.fw_ver, "fake");
    device.max_qp = device.max_cq = device.max_mr = device.max_pd = device.max_mw = device.max_ah =
        device.max_srq = 1 << 16;
    device.max_qp_wr = device.max_cqe = device.max_srq_wr = 1 << 15;
    device.max_sge = device.max_srq_sge = device.max_sge_rd = MAX_SGE;
    device.max_mr_size = ~std::uint64_t{0};
    device.device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    device.atomic_cap = IBV_ATOMIC_HCA;
    device.phys_port_cnt = 1;
    return 0;
}

int query_port(ibv_context *, std::uint8_t, ibv_port_attr *attr) noexcept {
    attr->state = IBV_PORT_ACTIVE;
    attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
    attr->gid_tbl_len = 1;
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    return 0;
}

void free_context(ibv_context *context) noexcept {
    abi::uninit_and_free_context(context);
}

abi::verbs_context_ops make_context_ops() {
    abi::verbs_context_ops ops = {};
    ops.query_device_ex = query_device_ex;
    ops.query_port = query_port;
    ops.free_context = free_context;
    set_memory_ops(ops);
    set_cq_ops(ops);
    set_qp_ops(ops);
    set_srq_ops(ops);
    set_post_ops(ops);
    return ops;
}

verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *) noexcept {
    auto *const context =
        abi::init_and_alloc_context<fake_context>(device, cmd_fd, RDMA_DRIVER_RXE);
    if (context == nullptr)
        return nullptr;
    abi::message<abi::command::get_context> command = {};
    abi::message<abi::response::get_context> response = {};
    const int error = abi::libibverbs().ibv_cmd_get_context(
        abi::to_verbs_context(&context->verbs), &command, command.size, &response, response.size);
    if (error != 0) {
        abi::uninit_and_free_context(&context->verbs);
        return fail_with(error);
    }
    context->has_no_bad_wr = std::getenv("FAKE_NO_BAD_WR") != nullptr;
    context->binds_internally = std::getenv("FAKE_INTERNAL_BIND") != nullptr;
    abi::set_ops(&context->verbs, make_context_ops());
    return abi::to_verbs_context(&context->verbs);
}

bool match_device(abi::verbs_sysfs_dev *) noexcept {
    return abi::is_supported();
}
abi::verbs_device *alloc_device(abi::verbs_sysfs_dev *) noexcept {
    return static_cast<abi::verbs_device *>(std::calloc(1, sizeof(abi::verbs_device)));
}
void uninit_device(abi::verbs_device *device) noexcept {
    std::free(device);
}

} // namespace

void report_event(const char *event) {
    if (auto *const function =
            reinterpret_cast<event_function *>(dlsym(RTLD_DEFAULT, EVENT_FUNCTION_NAME)))
        function(event);
}

namespace {

constexpr abi::verbs_device_ops device_ops = [] {
    abi::verbs_device_ops ops = {};
    ops.name = "fake";
    ops.match_min_abi_version = 1;
    ops.match_max_abi_version = 2;
    ops.match_table = match_table;
    ops.match_device = match_device;
    ops.alloc_context = alloc_context;
    ops.alloc_device = alloc_device;
    ops.uninit_device = uninit_device;
    return ops;
}();

[[gnu::constructor]] void register_driver() {
    abi::register_driver(device_ops);
}

} // namespace
} // namespace fake

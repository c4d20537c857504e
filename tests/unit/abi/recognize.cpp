// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Prints the detected libibverbs release and tests the detected layout: registers a driver, opens a
// context of a device that does not exist, sets each operation to a distinct value, and compares
// the public members. Exit code 3: unknown release.
//
// Linked like a plugin: without the C++ library, with public symbols of libibverbs only.

#include "abi/abi.hpp"

#include <cstdio>
#include <cstring>

using namespace coherdma::abi;

namespace {

constexpr verbs_match_ent match_table[] = {match_table_end};

constexpr verbs_device_ops driver_ops = [] {
    verbs_device_ops ops = {};
    ops.name = "recognize";
    ops.match_table = match_table;
    ops.match_device = [](verbs_sysfs_dev *) {
        return false;
    };
    return ops;
}();

struct test_context {
    ibv_context verbs;
    std::uint64_t driver_data;
};

int failed = 0;

void check(const char *name, const void *member, std::size_t offset) {
    std::uintptr_t number;
    std::memcpy(&number, member, sizeof(number));
    if (number == offset / sizeof(void *) + 1)
        return;
    std::printf("%s: wrong offset\n", name);
    failed = 1;
}

// The address of a public member of verbs_context; libibverbs adds new members before them.
const void *public_member(const ibv_context *context, std::size_t offset) {
    return reinterpret_cast<const unsigned char *>(context) - offsetof(verbs_context, context) +
           offset;
}

// Sets each operation to a number and checks that libibverbs has put it where programs call it.
void check_operations(ibv_context *context) {
    std::uintptr_t numbers[num_context_ops];
    for (std::size_t i = 0; i < num_context_ops; ++i)
        numbers[i] = i + 1;
    verbs_context_ops ops;
    static_assert(sizeof(ops) == sizeof(numbers));
    std::memcpy(static_cast<void *>(&ops), numbers, sizeof(numbers));
    set_ops(context, ops);
#define PLAIN(name) check(#name, &context->ops.name, offsetof(verbs_context_ops, name))
#define EXTENDED(name)                                                                             \
    check(#name, public_member(context, offsetof(verbs_context, name)),                            \
          offsetof(verbs_context_ops, name))
    PLAIN(alloc_mw), PLAIN(bind_mw), PLAIN(dealloc_mw), PLAIN(poll_cq), PLAIN(post_recv);
    PLAIN(post_send), PLAIN(post_srq_recv), PLAIN(req_notify_cq);
    EXTENDED(advise_mr), EXTENDED(alloc_dm), EXTENDED(alloc_null_mr), EXTENDED(alloc_td);
    EXTENDED(alloc_parent_domain), EXTENDED(attach_counters_point_flow), EXTENDED(close_xrcd);
    EXTENDED(create_counters), EXTENDED(create_qp_ex), EXTENDED(create_rwq_ind_table);
    EXTENDED(create_srq_ex), EXTENDED(create_wq), EXTENDED(dealloc_td), EXTENDED(destroy_counters);
    EXTENDED(destroy_flow_action), EXTENDED(destroy_wq), EXTENDED(free_dm), EXTENDED(get_srq_num);
    EXTENDED(modify_cq), EXTENDED(modify_flow_action_esp), EXTENDED(modify_qp_rate_limit);
    EXTENDED(modify_wq), EXTENDED(open_qp), EXTENDED(open_xrcd), EXTENDED(post_srq_ops);
    EXTENDED(query_device_ex), EXTENDED(query_rt_values), EXTENDED(read_counters);
    EXTENDED(reg_dm_mr);
}

} // namespace

int main() {
    if (!register_driver(driver_ops) || !is_supported())
        return 3;
    std::printf("rdma-core %s: a context of %u bytes, %zu operations, comp_mask at %u\n",
                current_layout().releases, current_layout().context_size,
                current_layout().ops_size / sizeof(void *), current_layout().comp_mask_offset);
    verbs_device device = {};
    device.refcount = 1;
    auto *const context = init_and_alloc_context<test_context>(&device.device, -1, 0);
    if (context == nullptr)
        return 1;
    check_operations(&context->verbs);
    uninit_and_free_context(&context->verbs);
    verbs_qp qp = {};
    set_qp_ex_ops(qp, {});
    if (device.refcount != 1 || ibv_qp_to_qp_ex(&qp.qp) != &qp.qp_ex)
        failed = 1;
    return failed;
}

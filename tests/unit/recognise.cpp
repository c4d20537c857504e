// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Says which libibverbs it runs with, and tries what the abi room then believes: a driver is
// registered, a context made for a device that is not, and every operation of that context given a
// function of its own, of which programs must then find the right ones. Status 3: it is not known.
//
// It stands for a plugin: there is no C++ library in it, and no symbol of libibverbs but public
// ones.

#include "abi/abi.hpp"

#include <cstdio>
#include <cstring>

using namespace coherdma::abi;

namespace {

constexpr verbs_match_ent none[] = {match_end};

constexpr verbs_device_ops driver = [] {
    verbs_device_ops is = {};
    is.name = "recognise";
    is.match_table = none;
    is.match_device = [](verbs_sysfs_dev *) {
        return false;
    };
    return is;
}();

struct own_context {
    ibv_context verbs;
    std::uint64_t own;
};

int failed = 0;

void check(const char *name, const void *found, std::size_t offset) {
    std::uintptr_t number;
    std::memcpy(&number, found, sizeof(number));
    if (number == offset / sizeof(void *) + 1)
        return;
    std::printf("%s is not where it should be\n", name);
    failed = 1;
}

// What programs see has never changed, and grows at the front.
const void *seen(const ibv_context *context, std::size_t offset) {
    return reinterpret_cast<const unsigned char *>(context) - offsetof(verbs_context, context) +
           offset;
}

void operations_of(ibv_context *context) {
    std::uintptr_t numbers[operations_count];
    for (std::size_t place = 0; place < operations_count; ++place)
        numbers[place] = place + 1;
    operations all;
    static_assert(sizeof(all) == sizeof(numbers));
    std::memcpy(static_cast<void *>(&all), numbers, sizeof(numbers));
    set_operations(context, all);
#define PLAIN(name) check(#name, &context->ops.name, offsetof(operations, name))
#define EXTENDED(name)                                                                             \
    check(#name, seen(context, offsetof(verbs_context, name)), offsetof(operations, name))
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
    if (!enlist(driver) || !ready())
        return 3;
    std::printf("rdma-core %s: a context of %u bytes, %zu operations, comp_mask at %u\n",
                here().releases, here().context, here().operations / sizeof(void *),
                here().comp_mask);
    verbs_device device = {};
    device.refcount = 1;
    auto *const own = open_context<own_context>(&device.device, -1, 0);
    if (own == nullptr)
        return 1;
    operations_of(&own->verbs);
    close_context(&own->verbs);
    verbs_qp qp = {};
    extend(qp, {});
    if (device.refcount != 1 || ibv_qp_to_qp_ex(&qp.qp) != &qp.qp_ex)
        failed = 1;
    return failed;
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The tables of the abi room against the layouts that a compiler saw, every entry, for both
// machines.

#include "abi/abi.hpp"
#include "abi_data.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

extern "C" {
#include <cmocka.h>
}

using namespace coherdma::abi;

namespace {

constexpr std::array machines{machine::x86_64, machine::aarch64};
using offsets = std::vector<std::pair<std::string, std::size_t>>;

void same(const std::string &name, std::size_t ours, std::optional<std::size_t> theirs) {
    if (!theirs || *theirs != ours)
        fail_msg("%s: %zu here, %zd there", name.c_str(), ours,
                 theirs ? static_cast<ssize_t>(*theirs) : -1);
}

// In every epoch.
void always(const std::map<std::string, of_epochs> &data, const offsets &list) {
    for (const auto &[name, offset] : list) {
        for (const auto &theirs : data.at(name))
            same(name, offset, theirs);
    }
}

void what_differs(void **) {
    for (const machine of : machines) {
        const auto data = layout_data(of);
        const auto ours = layouts_of(of);
        for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
            const layout &is = ours[epoch];
            assert_int_equal(static_cast<std::size_t>(is.which), epoch);
            same("context", is.context, data.at("verbs_context.sizeof")[epoch]);
            same("operations", is.operations, data.at("verbs_context_ops.sizeof")[epoch]);
            same("comp_mask", is.comp_mask, data.at("verbs_qp.comp_mask")[epoch]);
            same("comp_mask behind", is.comp_mask, data.at("ibv_qp_ex.sizeof")[epoch]);
            same("port", is.port, data.at("ibv_port_attr.sizeof")[epoch]);
            same("atomic write", is.atomic_write,
                 data.at("ibv_qp_ex.wr_atomic_write")[epoch].value_or(0));
            same("flush", is.flush, data.at("ibv_qp_ex.wr_flush")[epoch].value_or(0));
            assert_true(*data.at("verbs_qp.sizeof")[epoch] <= sizeof(verbs_qp));
        }
    }
}

void around_a_context(void **) {
    for (const machine of : machines) {
        const auto data = layout_data(of);
        for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
            const std::size_t context = *data.at("verbs_context.context")[epoch];
            same("last", *data.at("verbs_context.sizeof")[epoch] - context,
                 data.at("ibv_context.sizeof")[epoch]);
            same("size", context - size_before, data.at("verbs_context.sz")[epoch]);
            same("private", context - private_before, data.at("verbs_context.priv")[epoch]);
            same("table", operations_in_private, data.at("verbs_ex_private.ops")[epoch]);
            if (of == this_machine)
                same("front", front(layouts[epoch]), context);
        }
    }
}

#define OPERATION(name)                                                                            \
    { #name, offsetof(operations, name) }
const offsets operation_list{
    OPERATION(advise_mr),
    OPERATION(alloc_buf),
    OPERATION(alloc_dm),
    OPERATION(alloc_dmah),
    OPERATION(alloc_mw),
    OPERATION(alloc_null_mr),
    OPERATION(alloc_parent_domain),
    OPERATION(alloc_pd),
    OPERATION(alloc_td),
    OPERATION(async_event),
    OPERATION(attach_counters_point_flow),
    OPERATION(attach_mcast),
    OPERATION(bind_mw),
    OPERATION(close_xrcd),
    OPERATION(cq_event),
    OPERATION(create_ah),
    OPERATION(create_comp_cntr),
    OPERATION(create_counters),
    OPERATION(create_cq),
    OPERATION(create_cq_ex),
    OPERATION(create_flow),
    OPERATION(create_flow_action_esp),
    OPERATION(create_qp),
    OPERATION(create_qp_ex),
    OPERATION(create_rwq_ind_table),
    OPERATION(create_srq),
    OPERATION(create_srq_ex),
    OPERATION(create_wq),
    OPERATION(dealloc_dmah),
    OPERATION(dealloc_mw),
    OPERATION(dealloc_pd),
    OPERATION(dealloc_td),
    OPERATION(dereg_mr),
    OPERATION(destroy_ah),
    OPERATION(destroy_comp_cntr),
    OPERATION(destroy_counters),
    OPERATION(destroy_cq),
    OPERATION(destroy_flow),
    OPERATION(destroy_flow_action),
    OPERATION(destroy_qp),
    OPERATION(destroy_rwq_ind_table),
    OPERATION(destroy_srq),
    OPERATION(destroy_wq),
    OPERATION(detach_mcast),
    OPERATION(dm_export_dmabuf_fd),
    OPERATION(free_buf),
    OPERATION(free_context),
    OPERATION(free_dm),
    OPERATION(get_srq_num),
    OPERATION(import_dm),
    OPERATION(import_mr),
    OPERATION(import_pd),
    OPERATION(inc_comp_cntr),
    OPERATION(inc_err_comp_cntr),
    OPERATION(modify_cq),
    OPERATION(modify_flow_action_esp),
    OPERATION(modify_qp),
    OPERATION(modify_qp_rate_limit),
    OPERATION(modify_srq),
    OPERATION(modify_wq),
    OPERATION(open_qp),
    OPERATION(open_xrcd),
    OPERATION(poll_cq),
    OPERATION(post_recv),
    OPERATION(post_send),
    OPERATION(post_srq_ops),
    OPERATION(post_srq_recv),
    OPERATION(qp_attach_comp_cntr),
    OPERATION(query_comp_cntr_caps),
    OPERATION(query_device_ex),
    OPERATION(query_ece),
    OPERATION(query_port),
    OPERATION(query_port_speed),
    OPERATION(query_qp),
    OPERATION(query_qp_data_in_order),
    OPERATION(query_rt_values),
    OPERATION(query_srq),
    OPERATION(read_comp_cntr),
    OPERATION(read_counters),
    OPERATION(read_err_comp_cntr),
    OPERATION(reg_dm_mr),
    OPERATION(reg_dmabuf_mr),
    OPERATION(reg_mr),
    OPERATION(reg_mr_ex),
    OPERATION(req_notify_cq),
    OPERATION(rereg_mr),
    OPERATION(resize_cq),
    OPERATION(set_comp_cntr),
    OPERATION(set_ece),
    OPERATION(set_err_comp_cntr),
    OPERATION(unimport_dm),
    OPERATION(unimport_mr),
    OPERATION(unimport_pd),
};

void every_operation(void **) {
    for (const machine of : machines) {
        const auto data = layout_data(of);
        for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
            std::set<std::string> seen;
            for (const auto &[name, offset] : operation_list) {
                const std::size_t place =
                    place_in(static_cast<coherdma::abi::epoch>(epoch), place_of(offset));
                const auto theirs = data.at("verbs_context_ops." + name)[epoch];
                if (place == nowhere)
                    assert_false(theirs.has_value());
                else
                    same(name, place * sizeof(void *), theirs);
                seen.insert("verbs_context_ops." + name);
            }
            assert_int_equal(seen.size(), operations_count);
            for (const auto &[name, row] : data) {
                if (name.starts_with("verbs_context_ops.") && name != "verbs_context_ops.sizeof")
                    assert_true(seen.contains(name));
            }
        }
    }
}

// Each operation is a number, and is found where the epoch has it; nothing is anywhere else.
void a_table_for_each_epoch(void **) {
    const auto data = layout_data(this_machine);
    std::array<std::uintptr_t, operations_count> numbers;
    for (std::size_t place = 0; place < operations_count; ++place)
        numbers[place] = place + 1;
    operations all;
    std::memcpy(static_cast<void *>(&all), numbers.data(), sizeof(all));
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
        const auto table = placed(all, static_cast<coherdma::abi::epoch>(epoch));
        std::array<std::uintptr_t, operations_count> got{}, wanted{};
        std::memcpy(got.data(), &table, sizeof(table));
        for (const auto &[name, offset] : operation_list) {
            if (const auto theirs = data.at("verbs_context_ops." + name)[epoch])
                wanted[*theirs / sizeof(void *)] = offset / sizeof(void *) + 1;
        }
        assert_true(got == wanted);
    }
}

#define MEMBER(type, member)                                                                       \
    { #type "." #member, offsetof(type, member) }
#define SIZE(type)                                                                                 \
    { #type ".sizeof", sizeof(type) }

void what_never_changed(void **) {
    for (const machine of : machines) {
        always(layout_data(of), {
                                    MEMBER(verbs_sysfs_dev, provider_data),
                                    MEMBER(verbs_sysfs_dev, match),
                                    MEMBER(verbs_sysfs_dev, flags),
                                    MEMBER(verbs_sysfs_dev, sysfs_name),
                                    MEMBER(verbs_sysfs_dev, sysfs_cdev),
                                    MEMBER(verbs_sysfs_dev, ibdev_name),
                                    MEMBER(verbs_sysfs_dev, ibdev_path),
                                    MEMBER(verbs_sysfs_dev, modalias),
                                    MEMBER(verbs_sysfs_dev, node_guid),
                                    MEMBER(verbs_sysfs_dev, driver_id),
                                    MEMBER(verbs_sysfs_dev, node_type),
                                    MEMBER(verbs_sysfs_dev, ibdev_idx),
                                    MEMBER(verbs_sysfs_dev, num_ports),
                                    MEMBER(verbs_sysfs_dev, abi_ver),
                                    MEMBER(verbs_sysfs_dev, time_created),
                                    SIZE(verbs_sysfs_dev),
                                    SIZE(ibv_device),
                                    MEMBER(verbs_device, device),
                                    MEMBER(verbs_device, ops),
                                    MEMBER(verbs_device, refcount),
                                    MEMBER(verbs_device, entry),
                                    MEMBER(verbs_device, sysfs),
                                    MEMBER(verbs_device, core_support),
                                    SIZE(verbs_device),
                                    MEMBER(verbs_match_ent, driver_data),
                                    {"verbs_match_ent.u", offsetof(verbs_match_ent, id)},
                                    MEMBER(verbs_match_ent, vendor),
                                    MEMBER(verbs_match_ent, device),
                                    MEMBER(verbs_match_ent, kind),
                                    SIZE(verbs_match_ent),
                                    MEMBER(verbs_device_ops, name),
                                    MEMBER(verbs_device_ops, match_min_abi_version),
                                    MEMBER(verbs_device_ops, match_max_abi_version),
                                    MEMBER(verbs_device_ops, match_table),
                                    MEMBER(verbs_device_ops, static_providers),
                                    MEMBER(verbs_device_ops, match_device),
                                    MEMBER(verbs_device_ops, alloc_context),
                                    MEMBER(verbs_device_ops, import_context),
                                    MEMBER(verbs_device_ops, alloc_device),
                                    MEMBER(verbs_device_ops, uninit_device),
                                    SIZE(verbs_device_ops),
                                    {"verbs_mr.ibv_mr", offsetof(verbs_mr, mr)},
                                    MEMBER(verbs_mr, mr_type),
                                    MEMBER(verbs_mr, access),
                                    SIZE(verbs_mr),
                                    SIZE(ibv_mr),
                                });
    }
    always(layout_data(this_machine), {
                                          MEMBER(verbs_srq, srq),
                                          MEMBER(verbs_srq, srq_type),
                                          MEMBER(verbs_srq, xrcd),
                                          MEMBER(verbs_srq, cq),
                                          MEMBER(verbs_srq, srq_num),
                                          SIZE(verbs_srq),
                                          SIZE(verbs_cq),
                                          SIZE(ibv_context),
                                          MEMBER(ibv_context, device),
                                          SIZE(ibv_qp),
                                          SIZE(ibv_cq),
                                          SIZE(ibv_cq_ex),
                                          SIZE(ibv_srq),
                                      });
}

void messages(void **) {
    const offsets sizes{
        {"ibv_get_context.sizeof", command::get_context},
        {"ibv_query_port.sizeof", command::query_port},
        {"ibv_alloc_pd.sizeof", command::alloc_pd},
        {"ibv_reg_mr.sizeof", command::reg_mr},
        {"ibv_rereg_mr.sizeof", command::rereg_mr},
        {"ibv_alloc_mw.sizeof", command::alloc_mw},
        {"ibv_create_cq.sizeof", command::create_cq},
        {"ibv_create_cq_ex.sizeof", command::create_cq_ex},
        {"ibv_resize_cq.sizeof", command::resize_cq},
        {"ibv_modify_cq.sizeof", command::modify_cq},
        {"ibv_create_srq.sizeof", command::create_srq},
        {"ibv_create_xsrq.sizeof", command::create_srq_ex},
        {"ibv_modify_srq.sizeof", command::modify_srq},
        {"ibv_query_srq.sizeof", command::query_srq},
        {"ibv_create_qp.sizeof", command::create_qp},
        {"ibv_create_qp_ex.sizeof", command::create_qp_ex},
        {"ibv_query_qp.sizeof", command::query_qp},
        {"ibv_modify_qp.sizeof", command::modify_qp},
        {"ib_uverbs_get_context_resp.sizeof", response::get_context},
        {"ib_uverbs_ex_query_device_resp.sizeof", response::query_device},
        {"ib_uverbs_alloc_pd_resp.sizeof", response::alloc_pd},
        {"ib_uverbs_reg_mr_resp.sizeof", response::reg_mr},
        {"ib_uverbs_rereg_mr_resp.sizeof", response::rereg_mr},
        {"ib_uverbs_alloc_mw_resp.sizeof", response::alloc_mw},
        {"ib_uverbs_create_cq_resp.sizeof", response::create_cq},
        {"ib_uverbs_ex_create_cq_resp.sizeof", response::create_cq_ex},
        {"ib_uverbs_resize_cq_resp.sizeof", response::resize_cq},
        {"ib_uverbs_create_srq_resp.sizeof", response::create_srq},
        {"ib_uverbs_create_qp_resp.sizeof", response::create_qp},
        {"ib_uverbs_ex_create_qp_resp.sizeof", response::create_qp_ex},
        {"ib_uverbs_create_ah_resp.sizeof", response::create_ah},
    };
    for (const machine of : machines)
        always(layout_data(of), sizes);
    struct two {
        std::uint32_t words[2];
    };
    using registered = message<response::reg_mr, two>; // the one with an odd size
    assert_int_equal(offsetof(registered, driver), 12);
    assert_int_equal(registered::size, 20);
    assert_int_equal(message<response::alloc_pd>::size, 4);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(what_differs),       cmocka_unit_test(around_a_context),
        cmocka_unit_test(every_operation),    cmocka_unit_test(a_table_for_each_epoch),
        cmocka_unit_test(what_never_changed), cmocka_unit_test(messages),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Compares every entry of the layout tables with compiler output, for both architectures.

#include "../cmocka.hpp"
#include "abi/abi.hpp"
#include "data.hpp"

#include <cstring>
#include <set>
#include <utility>
#include <vector>

using namespace coherdma::abi;

namespace {

constexpr std::array archs{arch::x86_64, arch::aarch64};
struct named_offset {
    std::string name;
    std::size_t offset;
};
using offsets = std::vector<named_offset>;

void assert_same(const std::string &name, std::size_t actual, std::optional<std::size_t> expected) {
    if (!expected || *expected != actual)
        fail_msg("%s: table %zu, headers %zd", name.c_str(), actual,
                 expected ? static_cast<ssize_t>(*expected) : -1);
}

void assert_in_each_release(const std::map<std::string, per_release> &data, const offsets &list) {
    for (const auto &[name, offset] : list) {
        for (const auto &expected : data.at(name))
            assert_same(name, offset, expected);
    }
}

void layout_table_matches_headers(void **) {
    for (const arch arch : archs) {
        const auto data = layout_data(arch);
        const auto table = layouts_for(arch);
        for (std::size_t version = 0; version < num_abi_versions; ++version) {
            const layout &row = table[version];
            assert_int_equal(static_cast<std::size_t>(row.version), version);
            assert_same("context_size", row.context_size, data.at("verbs_context.sizeof")[version]);
            assert_same("ops_size", row.ops_size, data.at("verbs_context_ops.sizeof")[version]);
            assert_same("comp_mask_offset", row.comp_mask_offset,
                        data.at("verbs_qp.comp_mask")[version]);
            assert_same("sizeof ibv_qp_ex", row.comp_mask_offset,
                        data.at("ibv_qp_ex.sizeof")[version]);
            assert_same("port_attr_size", row.port_attr_size,
                        data.at("ibv_port_attr.sizeof")[version]);
            assert_same("wr_atomic_write_offset", row.wr_atomic_write_offset,
                        data.at("ibv_qp_ex.wr_atomic_write")[version].value_or(0));
            assert_same("wr_flush_offset", row.wr_flush_offset,
                        data.at("ibv_qp_ex.wr_flush")[version].value_or(0));
            assert_true(*data.at("verbs_qp.sizeof")[version] <= sizeof(verbs_qp));
        }
    }
}

void context_offsets_match_headers(void **) {
    for (const arch arch : archs) {
        const auto data = layout_data(arch);
        for (std::size_t version = 0; version < num_abi_versions; ++version) {
            const std::size_t context = *data.at("verbs_context.context")[version];
            assert_same("sizeof ibv_context", *data.at("verbs_context.sizeof")[version] - context,
                        data.at("ibv_context.sizeof")[version]);
            assert_same("sz", context - sz_before_context, data.at("verbs_context.sz")[version]);
            assert_same("priv", context - priv_before_context,
                        data.at("verbs_context.priv")[version]);
            assert_same("ops", ops_offset_in_priv, data.at("verbs_ex_private.ops")[version]);
            if (arch == host_arch)
                assert_same("context", context_offset(layouts[version]), context);
        }
    }
}

#define OPERATION(name)                                                                            \
    { #name, offsetof(verbs_context_ops, name) }
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

void op_indices_match_headers(void **) {
    for (const arch arch : archs) {
        const auto data = layout_data(arch);
        for (std::size_t version = 0; version < num_abi_versions; ++version) {
            std::set<std::string> checked_names;
            for (const auto &[name, offset] : operation_list) {
                const std::size_t index =
                    op_index_in_version(static_cast<abi_version>(version), op_index(offset));
                const auto expected_offset = data.at("verbs_context_ops." + name)[version];
                if (index == op_missing)
                    assert_false(expected_offset.has_value());
                else
                    assert_same(name, index * sizeof(void *), expected_offset);
                checked_names.insert("verbs_context_ops." + name);
            }
            assert_int_equal(checked_names.size(), num_context_ops);
            for (const auto &[name, row] : data) {
                if (name.starts_with("verbs_context_ops.") && name != "verbs_context_ops.sizeof")
                    assert_true(checked_names.contains(name));
            }
        }
    }
}

// Each operation is a number, at the offset of the ABI version; all other entries are zero.
void convert_ops_matches_each_release(void **) {
    const auto data = layout_data(host_arch);
    std::array<std::uintptr_t, num_context_ops> numbers;
    for (std::size_t i = 0; i < num_context_ops; ++i)
        numbers[i] = i + 1;
    verbs_context_ops ops;
    std::memcpy(static_cast<void *>(&ops), numbers.data(), sizeof(ops));
    for (std::size_t version = 0; version < num_abi_versions; ++version) {
        const auto table = convert_ops(ops, static_cast<abi_version>(version));
        std::array<std::uintptr_t, num_context_ops> actual{}, expected{};
        std::memcpy(actual.data(), &table, sizeof(table));
        for (const auto &[name, offset] : operation_list) {
            if (const auto expected_offset = data.at("verbs_context_ops." + name)[version])
                expected[*expected_offset / sizeof(void *)] = offset / sizeof(void *) + 1;
        }
        assert_true(actual == expected);
    }
}

#define MEMBER(type, member)                                                                       \
    { #type "." #member, offsetof(type, member) }
#define SIZE(type)                                                                                 \
    { #type ".sizeof", sizeof(type) }

void fixed_structs_match_headers(void **) {
    for (const arch arch : archs) {
        assert_in_each_release(layout_data(arch),
                               {
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
    assert_in_each_release(layout_data(host_arch), {
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

void command_sizes_match_headers(void **) {
    const offsets sizes{
        {"ibv_get_context.sizeof", command::get_context},
        {"ibv_query_port.sizeof", command::query_port},
        {"ibv_alloc_pd.sizeof", command::alloc_pd},
        {"ibv_reg_mr.sizeof", command::reg_mr},
        {"ibv_rereg_mr.sizeof", command::rereg_mr},
        {"ibv_alloc_mw.sizeof", command::alloc_mw},
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
        {"ib_uverbs_ex_create_cq_resp.sizeof", response::create_cq_ex},
        {"ib_uverbs_resize_cq_resp.sizeof", response::resize_cq},
        {"ib_uverbs_create_srq_resp.sizeof", response::create_srq},
        {"ib_uverbs_create_qp_resp.sizeof", response::create_qp},
        {"ib_uverbs_ex_create_qp_resp.sizeof", response::create_qp_ex},
        {"ib_uverbs_create_ah_resp.sizeof", response::create_ah},
    };
    for (const arch arch : archs)
        assert_in_each_release(layout_data(arch), sizes);
    struct payload {
        std::uint32_t values[2];
    };
    using reg_mr_resp = message<response::reg_mr, payload>; // its size is not a multiple of 8
    assert_int_equal(offsetof(reg_mr_resp, drv_payload), 12);
    assert_int_equal(reg_mr_resp::size, 20);
    assert_int_equal(message<response::alloc_pd>::size, 4);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(layout_table_matches_headers),
        cmocka_unit_test(context_offsets_match_headers),
        cmocka_unit_test(op_indices_match_headers),
        cmocka_unit_test(convert_ops_matches_each_release),
        cmocka_unit_test(fixed_structs_match_headers),
        cmocka_unit_test(command_sizes_match_headers),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datinfo/look.hpp"

namespace tools::datinfo {
namespace {

struct name {
    unsigned value;
    const char *text;
};

constexpr name OWNERS[] = {{DAT_IOV_CONSUMER, "consumer"},
                           {DAT_IOV_PROVIDER_NOMOD, "provider, not modified"},
                           {DAT_IOV_PROVIDER_MOD, "provider, modified"}};
constexpr name CREATORS[] = {{DAT_PSP_CREATES_EP_NEVER, "never"},
                             {DAT_PSP_CREATES_EP_IFASKED, "if asked"},
                             {DAT_PSP_CREATES_EP_ALWAYS, "always"}};
constexpr name ZONES[] = {{DAT_PZ_UNIQUE, "unique"}, {DAT_PZ_SHAREABLE, "shareable"}};
constexpr name SCOPES[] = {{DAT_RMR_SCOPE_EP, "endpoint"},
                           {DAT_RMR_SCOPE_PZ, "protection zone"},
                           {DAT_RMR_SCOPE_ANY, "any"}};
constexpr name EXTENSIONS[] = {
    {DAT_EXTENSION_NONE, "none"}, {DAT_EXTENSION_IB, "IB"}, {DAT_EXTENSION_IW, "IW"}};
constexpr name BALANCES[] = {
    {DAT_HA_LB_NONE, "none"}, {DAT_HA_LB_INTERCOMM, "between"}, {DAT_HA_LB_INTRACOMM, "within"}};

// Sets of bits; the first name is that of none.
constexpr name MEMORY[] = {{DAT_MEM_TYPE_VIRTUAL, "virtual"},
                           {DAT_MEM_TYPE_LMR, "LMR"},
                           {DAT_MEM_TYPE_SHARED_VIRTUAL, "shared virtual"}};
constexpr name QUALITIES[] = {{DAT_QOS_BEST_EFFORT, "best effort"},
                              {DAT_QOS_HIGH_THROUGHPUT, "high throughput"},
                              {DAT_QOS_LOW_LATENCY, "low latency"},
                              {DAT_QOS_ECONOMY, "economy"},
                              {DAT_QOS_PREMIUM, "premium"}};
constexpr name COMPLETIONS[] = {{DAT_COMPLETION_DEFAULT_FLAG, "default"},
                                {DAT_COMPLETION_SUPPRESS_FLAG, "suppress"},
                                {DAT_COMPLETION_SOLICITED_WAIT_FLAG, "solicited wait"},
                                {DAT_COMPLETION_UNSIGNALLED_FLAG, "unsignalled"},
                                {DAT_COMPLETION_BARRIER_FENCE_FLAG, "barrier fence"},
                                {DAT_COMPLETION_EVD_THRESHOLD_FLAG, "EVD threshold"},
                                {DAT_COMPLETION_LMR_INVALIDATE_FENCE_FLAG, "LMR invalidate fence"}};
constexpr const char *STREAMS[] = {"software",   "connection request", "DTO",
                                   "connection", "RMR bind",           "asynchronous"};

template <std::size_t Count>
std::string one_of(const name (&names)[Count], unsigned value) {
    for (const name &each : names)
        if (each.value == value)
            return each.text;
    return std::to_string(value);
}

template <std::size_t Count>
std::string set_of(const name (&names)[Count], unsigned value) {
    std::string all = names[0].text;
    for (const name &each : names)
        if ((each.value & value) != 0)
            all += std::string(", ") + each.text;
    return all;
}

bool is(DAT_BOOLEAN value) {
    return value != DAT_FALSE;
}

/// Which event streams may feed one EVD with each.
json merging(const DAT_PROVIDER_ATTR &all) {
    json table = json::object();
    for (std::size_t row = 0; row < 6; ++row) {
        json with = json::array();
        for (std::size_t column = 0; column < 6; ++column)
            if (row != column && is(all.evd_stream_merging_supported[row][column]))
                with.push_back(STREAMS[column]);
        table[STREAMS[row]] = with;
    }
    return table;
}

std::string version(DAT_UINT32 major, DAT_UINT32 minor) {
    return std::to_string(major) + "." + std::to_string(minor);
}

} // namespace

std::string extension_name(DAT_EXTENSION which) {
    return one_of(EXTENSIONS, which);
}

json ia_attributes(const dat::adapter &ia) {
    const DAT_IA_ATTR &all = ia.attr();
    return {
        {"adapter_name", all.adapter_name},
        {"vendor_name", all.vendor_name},
        {"hardware_version", version(all.hardware_version_major, all.hardware_version_minor)},
        {"firmware_version", version(all.firmware_version_major, all.firmware_version_minor)},
        {"ia_address", ia.own_address().text()},
        {"max_eps", all.max_eps},
        {"max_dto_per_ep", all.max_dto_per_ep},
        {"max_rdma_read_per_ep_in", all.max_rdma_read_per_ep_in},
        {"max_rdma_read_per_ep_out", all.max_rdma_read_per_ep_out},
        {"max_evds", all.max_evds},
        {"max_evd_qlen", all.max_evd_qlen},
        {"max_iov_segments_per_dto", all.max_iov_segments_per_dto},
        {"max_lmrs", all.max_lmrs},
        {"max_lmr_block_size", all.max_lmr_block_size},
        {"max_lmr_virtual_address", all.max_lmr_virtual_address},
        {"max_pzs", all.max_pzs},
        {"max_message_size", all.max_message_size},
        {"max_rdma_size", all.max_rdma_size},
        {"max_rmrs", all.max_rmrs},
        {"max_rmr_target_address", all.max_rmr_target_address},
        {"max_srqs", all.max_srqs},
        {"max_ep_per_srq", all.max_ep_per_srq},
        {"max_recv_per_srq", all.max_recv_per_srq},
        {"max_iov_segments_per_rdma_read", all.max_iov_segments_per_rdma_read},
        {"max_iov_segments_per_rdma_write", all.max_iov_segments_per_rdma_write},
        {"max_rdma_read_in", all.max_rdma_read_in},
        {"max_rdma_read_out", all.max_rdma_read_out},
        {"max_rdma_read_per_ep_in_guaranteed", is(all.max_rdma_read_per_ep_in_guaranteed)},
        {"max_rdma_read_per_ep_out_guaranteed", is(all.max_rdma_read_per_ep_out_guaranteed)},
        {"zb_supported", is(all.zb_supported)},
        {"extension_supported", extension_name(all.extension_supported)},
        {"extension_version", all.extension_version},
    };
}

json provider_attributes(const dat::adapter &ia) {
    const DAT_PROVIDER_ATTR &all = ia.provider();
    return {
        {"provider_name", all.provider_name},
        {"provider_version", version(all.provider_version_major, all.provider_version_minor)},
        {"dapl_version", version(all.dapl_version_major, all.dapl_version_minor)},
        {"lmr_mem_types_supported", set_of(MEMORY, all.lmr_mem_types_supported)},
        {"iov_ownership_on_return", one_of(OWNERS, all.iov_ownership_on_return)},
        {"dat_qos_supported", set_of(QUALITIES, all.dat_qos_supported)},
        {"completion_flags_supported", set_of(COMPLETIONS, all.completion_flags_supported)},
        {"is_thread_safe", is(all.is_thread_safe)},
        {"max_private_data_size", all.max_private_data_size},
        {"supports_multipath", is(all.supports_multipath)},
        {"ep_creator", one_of(CREATORS, all.ep_creator)},
        {"pz_support", one_of(ZONES, all.pz_support)},
        {"optimal_buffer_alignment", all.optimal_buffer_alignment},
        {"evd_stream_merging_supported", merging(all)},
        {"srq_supported", is(all.srq_supported)},
        {"srq_watermarks_supported", all.srq_watermarks_supported},
        {"srq_ep_pz_difference_supported", is(all.srq_ep_pz_difference_supported)},
        {"srq_info_supported", all.srq_info_supported},
        {"ep_recv_info_supported", all.ep_recv_info_supported},
        {"lmr_sync_req", is(all.lmr_sync_req)},
        {"dto_async_return_guaranteed", is(all.dto_async_return_guaranteed)},
        {"rdma_write_for_rdma_read_req", is(all.rdma_write_for_rdma_read_req)},
        {"rdma_read_lmr_rmr_context_exposure", is(all.rdma_read_lmr_rmr_context_exposure)},
        {"rmr_scope_supported", one_of(SCOPES, all.rmr_scope_supported)},
        {"is_signal_safe", is(all.is_signal_safe)},
        {"ha_supported", is(all.ha_supported)},
        {"ha_loadbalancing", one_of(BALANCES, all.ha_loadbalancing)},
    };
}

json named(const DAT_NAMED_ATTR *list, DAT_COUNT count) {
    json all = json::object();
    for (DAT_COUNT place = 0; list && place < count; ++place)
        if (list[place].name)
            all[list[place].name] = list[place].value ? json(list[place].value) : json();
    return all;
}

} // namespace tools::datinfo

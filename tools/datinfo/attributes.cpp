// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datinfo/query.hpp"

namespace tools::datinfo {
namespace {

struct enum_name {
    unsigned value;
    const char *text;
};

constexpr enum_name IOV_OWNERSHIPS[] = {{DAT_IOV_CONSUMER, "consumer"},
                                        {DAT_IOV_PROVIDER_NOMOD, "provider, not modified"},
                                        {DAT_IOV_PROVIDER_MOD, "provider, modified"}};
constexpr enum_name EP_CREATORS[] = {{DAT_PSP_CREATES_EP_NEVER, "never"},
                                     {DAT_PSP_CREATES_EP_IFASKED, "if asked"},
                                     {DAT_PSP_CREATES_EP_ALWAYS, "always"}};
constexpr enum_name PZ_SUPPORTS[] = {{DAT_PZ_UNIQUE, "unique"}, {DAT_PZ_SHAREABLE, "shareable"}};
constexpr enum_name RMR_SCOPES[] = {{DAT_RMR_SCOPE_EP, "endpoint"},
                                    {DAT_RMR_SCOPE_PZ, "protection zone"},
                                    {DAT_RMR_SCOPE_ANY, "any"}};
constexpr enum_name EXTENSIONS[] = {
    {DAT_EXTENSION_NONE, "none"}, {DAT_EXTENSION_IB, "IB"}, {DAT_EXTENSION_IW, "IW"}};
constexpr enum_name HA_LOAD_BALANCINGS[] = {
    {DAT_HA_LB_NONE, "none"}, {DAT_HA_LB_INTERCOMM, "between"}, {DAT_HA_LB_INTRACOMM, "within"}};

// Bit sets; the first name is that of 0.
constexpr enum_name MEM_TYPES[] = {{DAT_MEM_TYPE_VIRTUAL, "virtual"},
                                   {DAT_MEM_TYPE_LMR, "LMR"},
                                   {DAT_MEM_TYPE_SHARED_VIRTUAL, "shared virtual"}};
constexpr enum_name QOS_FLAGS[] = {{DAT_QOS_BEST_EFFORT, "best effort"},
                                   {DAT_QOS_HIGH_THROUGHPUT, "high throughput"},
                                   {DAT_QOS_LOW_LATENCY, "low latency"},
                                   {DAT_QOS_ECONOMY, "economy"},
                                   {DAT_QOS_PREMIUM, "premium"}};
constexpr enum_name COMPLETION_FLAGS[] = {
    {DAT_COMPLETION_DEFAULT_FLAG, "default"},
    {DAT_COMPLETION_SUPPRESS_FLAG, "suppress"},
    {DAT_COMPLETION_SOLICITED_WAIT_FLAG, "solicited wait"},
    {DAT_COMPLETION_UNSIGNALLED_FLAG, "unsignalled"},
    {DAT_COMPLETION_BARRIER_FENCE_FLAG, "barrier fence"},
    {DAT_COMPLETION_EVD_THRESHOLD_FLAG, "EVD threshold"},
    {DAT_COMPLETION_LMR_INVALIDATE_FENCE_FLAG, "LMR invalidate fence"}};
// In the order of DAT_PROVIDER_ATTR::evd_stream_merging_supported.
constexpr const char *EVENT_STREAMS[] = {"software",   "connection request", "DTO",
                                         "connection", "RMR bind",           "asynchronous"};

template <std::size_t Count>
std::string enum_to_string(const enum_name (&names)[Count], unsigned value) {
    for (const enum_name &name : names)
        if (name.value == value)
            return name.text;
    return std::to_string(value);
}

/// "best effort, low latency": the name of 0 always comes first.
template <std::size_t Count>
std::string flags_to_string(const enum_name (&names)[Count], unsigned value) {
    std::string text = names[0].text;
    for (const enum_name &name : names)
        if ((name.value & value) != 0)
            text += std::string(", ") + name.text;
    return text;
}

bool to_bool(DAT_BOOLEAN value) {
    return value != DAT_FALSE;
}

/// For each event stream, the streams that may share its EVD.
json stream_merging(const DAT_PROVIDER_ATTR &attr) {
    json table = json::object();
    for (std::size_t i = 0; i < std::size(EVENT_STREAMS); ++i) {
        json streams = json::array();
        for (std::size_t j = 0; j < std::size(EVENT_STREAMS); ++j)
            if (i != j && to_bool(attr.evd_stream_merging_supported[i][j]))
                streams.push_back(EVENT_STREAMS[j]);
        table[EVENT_STREAMS[i]] = streams;
    }
    return table;
}

std::string version(DAT_UINT32 major, DAT_UINT32 minor) {
    return std::to_string(major) + "." + std::to_string(minor);
}

} // namespace

std::string extension_name(DAT_EXTENSION extension) {
    return enum_to_string(EXTENSIONS, extension);
}

json ia_attributes(const dat::adapter &ia) {
    const DAT_IA_ATTR &attr = ia.attr();
    return {
        {"adapter_name", attr.adapter_name},
        {"vendor_name", attr.vendor_name},
        {"hardware_version", version(attr.hardware_version_major, attr.hardware_version_minor)},
        {"firmware_version", version(attr.firmware_version_major, attr.firmware_version_minor)},
        {"ia_address", ia.ia_address().to_string()},
        {"max_eps", attr.max_eps},
        {"max_dto_per_ep", attr.max_dto_per_ep},
        {"max_rdma_read_per_ep_in", attr.max_rdma_read_per_ep_in},
        {"max_rdma_read_per_ep_out", attr.max_rdma_read_per_ep_out},
        {"max_evds", attr.max_evds},
        {"max_evd_qlen", attr.max_evd_qlen},
        {"max_iov_segments_per_dto", attr.max_iov_segments_per_dto},
        {"max_lmrs", attr.max_lmrs},
        {"max_lmr_block_size", attr.max_lmr_block_size},
        {"max_lmr_virtual_address", attr.max_lmr_virtual_address},
        {"max_pzs", attr.max_pzs},
        {"max_message_size", attr.max_message_size},
        {"max_rdma_size", attr.max_rdma_size},
        {"max_rmrs", attr.max_rmrs},
        {"max_rmr_target_address", attr.max_rmr_target_address},
        {"max_srqs", attr.max_srqs},
        {"max_ep_per_srq", attr.max_ep_per_srq},
        {"max_recv_per_srq", attr.max_recv_per_srq},
        {"max_iov_segments_per_rdma_read", attr.max_iov_segments_per_rdma_read},
        {"max_iov_segments_per_rdma_write", attr.max_iov_segments_per_rdma_write},
        {"max_rdma_read_in", attr.max_rdma_read_in},
        {"max_rdma_read_out", attr.max_rdma_read_out},
        {"max_rdma_read_per_ep_in_guaranteed", to_bool(attr.max_rdma_read_per_ep_in_guaranteed)},
        {"max_rdma_read_per_ep_out_guaranteed", to_bool(attr.max_rdma_read_per_ep_out_guaranteed)},
        {"zb_supported", to_bool(attr.zb_supported)},
        {"extension_supported", extension_name(attr.extension_supported)},
        {"extension_version", attr.extension_version},
    };
}

json provider_attributes(const dat::adapter &ia) {
    const DAT_PROVIDER_ATTR &attr = ia.provider_attr();
    return {
        {"provider_name", attr.provider_name},
        {"provider_version", version(attr.provider_version_major, attr.provider_version_minor)},
        {"dapl_version", version(attr.dapl_version_major, attr.dapl_version_minor)},
        {"lmr_mem_types_supported", flags_to_string(MEM_TYPES, attr.lmr_mem_types_supported)},
        {"iov_ownership_on_return", enum_to_string(IOV_OWNERSHIPS, attr.iov_ownership_on_return)},
        {"dat_qos_supported", flags_to_string(QOS_FLAGS, attr.dat_qos_supported)},
        {"completion_flags_supported",
         flags_to_string(COMPLETION_FLAGS, attr.completion_flags_supported)},
        {"is_thread_safe", to_bool(attr.is_thread_safe)},
        {"max_private_data_size", attr.max_private_data_size},
        {"supports_multipath", to_bool(attr.supports_multipath)},
        {"ep_creator", enum_to_string(EP_CREATORS, attr.ep_creator)},
        {"pz_support", enum_to_string(PZ_SUPPORTS, attr.pz_support)},
        {"optimal_buffer_alignment", attr.optimal_buffer_alignment},
        {"evd_stream_merging_supported", stream_merging(attr)},
        {"srq_supported", to_bool(attr.srq_supported)},
        {"srq_watermarks_supported", attr.srq_watermarks_supported},
        {"srq_ep_pz_difference_supported", to_bool(attr.srq_ep_pz_difference_supported)},
        {"srq_info_supported", attr.srq_info_supported},
        {"ep_recv_info_supported", attr.ep_recv_info_supported},
        {"lmr_sync_req", to_bool(attr.lmr_sync_req)},
        {"dto_async_return_guaranteed", to_bool(attr.dto_async_return_guaranteed)},
        {"rdma_write_for_rdma_read_req", to_bool(attr.rdma_write_for_rdma_read_req)},
        {"rdma_read_lmr_rmr_context_exposure", to_bool(attr.rdma_read_lmr_rmr_context_exposure)},
        {"rmr_scope_supported", enum_to_string(RMR_SCOPES, attr.rmr_scope_supported)},
        {"is_signal_safe", to_bool(attr.is_signal_safe)},
        {"ha_supported", to_bool(attr.ha_supported)},
        {"ha_loadbalancing", enum_to_string(HA_LOAD_BALANCINGS, attr.ha_loadbalancing)},
    };
}

json named_attributes(const DAT_NAMED_ATTR *list, DAT_COUNT count) {
    json attributes = json::object();
    for (DAT_COUNT i = 0; list && i < count; ++i)
        if (list[i].name)
            attributes[list[i].name] = list[i].value ? json(list[i].value) : json();
    return attributes;
}

} // namespace tools::datinfo

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What an IA and this provider can do, in numbers and, as OFED began it, in words.

#include "api.hpp"
#include "cm/limits.hpp"
#include "device.hpp"
#include "extensions/ib.hpp"
#include "ia.hpp"
#include "instance.hpp"
#include "named.hpp"

#include <algorithm>
#include <climits>
#include <cstring>
#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl {

namespace {

// Which counts dat_srq_query and dat_ep_recv_query know.
constexpr DAT_COUNT outstanding_known = 0x10;
constexpr DAT_COUNT allocated_known = 0x01, span_known = 0x10;

// Streams in the order of DAT's table; each is a bit of DAT_EVD_FLAGS.
constexpr std::array<DAT_UINT32, 6> streams = {DAT_EVD_SOFTWARE_FLAG, DAT_EVD_CR_FLAG,
                                               DAT_EVD_DTO_FLAG,      DAT_EVD_CONNECTION_FLAG,
                                               DAT_EVD_RMR_BIND_FLAG, DAT_EVD_ASYNC_FLAG};

// Errors stay by themselves: their place is limited, and they must not be lost for other events.
bool merges(std::size_t one, std::size_t other) {
    return one == other ||
           (streams.at(one) != DAT_EVD_ASYNC_FLAG && streams.at(other) != DAT_EVD_ASYNC_FLAG);
}

template <std::size_t size>
void put(char (&to)[size], const char *text) noexcept {
    std::strncpy(to, text, size - 1);
    to[size - 1] = '\0';
}

DAT_COUNT count(std::uint64_t value) {
    return static_cast<DAT_COUNT>(std::min<std::uint64_t>(value, INT_MAX));
}
DAT_SEG_LENGTH length(std::uint64_t value) {
    return static_cast<DAT_SEG_LENGTH>(std::min<std::uint64_t>(value, UINT32_MAX));
}

/// "2.41.7" of a driver's words.
void versions(const char *words, DAT_UINT32 &major, DAT_UINT32 &minor) noexcept {
    char *end = nullptr;
    major = static_cast<DAT_UINT32>(std::strtoul(words, &end, 10));
    minor = *end == '.' ? static_cast<DAT_UINT32>(std::strtoul(end + 1, nullptr, 10)) : 0;
}

void limits_of(const device &on, DAT_IA_ATTR &attr) noexcept {
    const ibv_device_attr &verbs = on.limits;
    attr.max_eps = verbs.max_qp;
    attr.max_dto_per_ep = verbs.max_qp_wr;
    attr.max_rdma_read_per_ep_in = verbs.max_qp_rd_atom;
    attr.max_rdma_read_per_ep_out = verbs.max_qp_init_rd_atom;
    attr.max_evds = verbs.max_cq;
    attr.max_evd_qlen = verbs.max_cqe;
    attr.max_iov_segments_per_dto = verbs.max_sge;
    attr.max_lmrs = verbs.max_mr;
    attr.max_lmr_block_size = length(verbs.max_mr_size);
    attr.max_lmr_virtual_address = UINT64_MAX;
    attr.max_pzs = verbs.max_pd;
    attr.max_message_size = on.state.max_msg_sz;
    attr.max_rdma_size = on.state.max_msg_sz;
    attr.max_rmrs = on.windows ? verbs.max_mw : 0;
    attr.max_rmr_target_address = on.windows ? UINT64_MAX : 0;
    attr.max_srqs = verbs.max_srq;
    attr.max_ep_per_srq = verbs.max_srq != 0 ? verbs.max_qp : 0;
    attr.max_recv_per_srq = verbs.max_srq_wr;
    attr.max_iov_segments_per_rdma_read = max_read_segments(on);
    attr.max_iov_segments_per_rdma_write = verbs.max_sge;
    attr.max_rdma_read_in =
        count(std::uint64_t(verbs.max_qp_rd_atom) * std::uint64_t(verbs.max_qp));
    attr.max_rdma_read_out =
        count(std::uint64_t(verbs.max_qp_init_rd_atom) * std::uint64_t(verbs.max_qp));
    attr.max_rdma_read_per_ep_in_guaranteed = DAT_TRUE;
    attr.max_rdma_read_per_ep_out_guaranteed = DAT_TRUE;
    attr.zb_supported = on.is_siw() ? DAT_FALSE : DAT_TRUE;
    attr.extension_supported = on.iwarp ? DAT_EXTENSION_NONE : DAT_EXTENSION_IB;
    attr.extension_version = on.iwarp ? 0 : DAT_IB_EXTENSION_VERSION;
}

void fill(const ia &of, DAT_IA_ATTR &attr) noexcept {
    const device &on = *of.on;
    attr = {};
    put(attr.adapter_name, ibv_get_device_name(on.verbs->device));
    put(attr.vendor_name, vendor_of(on));
    attr.hardware_version_major = on.limits.hw_ver;
    versions(on.limits.fw_ver, attr.firmware_version_major, attr.firmware_version_minor);
    attr.ia_address_ptr = const_cast<sockaddr *>(&on.addresses[0].any);
    limits_of(on, attr);
}

/// Only what this port can: whatever needs a name is in its list.
void fill(const ia &of, DAT_PROVIDER_ATTR &attr) noexcept {
    const device &on = *of.on;
    coherdma_device_attr coherency = {};
    coherdma_query_device(of.coherency.get(), &coherency, sizeof coherency);
    attr = {};
    put(attr.provider_name, "coherdma");
    attr.provider_version_major = COHERDMA_VERSION_MAJOR;
    attr.provider_version_minor = COHERDMA_VERSION_MINOR;
    attr.dapl_version_major = of.from.info.dapl_version_major;
    attr.dapl_version_minor = of.from.info.dapl_version_minor;
    attr.lmr_mem_types_supported = static_cast<DAT_MEM_TYPE>(
        DAT_MEM_TYPE_VIRTUAL | DAT_MEM_TYPE_LMR | DAT_MEM_TYPE_SHARED_VIRTUAL);
    attr.iov_ownership_on_return = DAT_IOV_CONSUMER;
    attr.dat_qos_supported = DAT_QOS_BEST_EFFORT;
    attr.completion_flags_supported = static_cast<DAT_COMPLETION_FLAGS>(
        DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |
        DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG |
        DAT_COMPLETION_EVD_THRESHOLD_FLAG);
    attr.is_thread_safe = of.from.info.is_thread_safe;
    attr.max_private_data_size = cm::most_private_data;
    attr.supports_multipath = DAT_FALSE;
    attr.ep_creator = DAT_PSP_CREATES_EP_IFASKED;
    attr.pz_support = DAT_PZ_UNIQUE;
    attr.optimal_buffer_alignment = std::max<DAT_UINT32>(coherency.alignment, 64);
    for (std::size_t one = 0; one != streams.size(); ++one)
        for (std::size_t other = 0; other != streams.size(); ++other)
            const_cast<DAT_BOOLEAN &>(attr.evd_stream_merging_supported[one][other]) =
                merges(one, other) ? DAT_TRUE : DAT_FALSE;
    attr.srq_supported = on.limits.max_srq > 0 ? DAT_TRUE : DAT_FALSE;
    attr.srq_watermarks_supported = on.limits.max_srq > 0 ? 1 : 0;
    attr.srq_ep_pz_difference_supported = DAT_FALSE;
    attr.srq_info_supported = on.limits.max_srq > 0 ? outstanding_known : 0;
    attr.ep_recv_info_supported = allocated_known | span_known;
    attr.lmr_sync_req = coherency.sync_required != 0 ? DAT_TRUE : DAT_FALSE;
    attr.dto_async_return_guaranteed = DAT_TRUE;
    attr.rdma_write_for_rdma_read_req = reads_need_remote_write(on) ? DAT_TRUE : DAT_FALSE;
    attr.rdma_read_lmr_rmr_context_exposure = on.iwarp ? DAT_TRUE : DAT_FALSE;
    attr.rmr_scope_supported = DAT_RMR_SCOPE_PZ;
    attr.is_signal_safe = DAT_FALSE;
    attr.ha_supported = DAT_FALSE;
    attr.ha_loadbalancing = DAT_HA_LB_NONE;
    const auto &list = of.named->list();
    attr.num_provider_specific_attr = static_cast<DAT_COUNT>(list.size());
    attr.provider_specific_attr = const_cast<DAT_NAMED_ATTR *>(list.data());
}

} // namespace

bool mergeable(DAT_EVD_FLAGS flags) noexcept {
    const auto wanted = static_cast<DAT_UINT32>(flags) & ~DAT_UINT32{DAT_EVD_EXTENSION_BASE};
    DAT_UINT32 known = 0;
    for (std::size_t one = 0; one != streams.size(); ++one) {
        known |= streams.at(one);
        for (std::size_t other = 0; other != streams.size(); ++other)
            if ((wanted & streams.at(one)) != 0 && (wanted & streams.at(other)) != 0 &&
                !merges(one, other))
                return false;
    }
    return flags != 0 && (wanted & ~known) == 0;
}

DAT_RETURN ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async, DAT_IA_ATTR_MASK ia_mask,
                    DAT_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
                    DAT_PROVIDER_ATTR *provider_attr) noexcept {
    const ia *const one = called_with<ia>(ia_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if ((ia_mask & ~DAT_IA_FIELD_ALL) != 0)
        return wrong_argument(3);
    if (ia_mask != 0 && ia_attr == nullptr)
        return wrong_argument(4);
    if ((provider_mask & ~DAT_PROVIDER_FIELD_ALL) != 0)
        return wrong_argument(5);
    if (provider_mask != 0 && provider_attr == nullptr)
        return wrong_argument(6);
    if (async != nullptr)
        *async = one->async != nullptr ? one->async.load() : DAT_EVD_OUT_OF_SCOPE;
    if (ia_mask != 0)
        fill(*one, *ia_attr);
    if (provider_mask != 0)
        fill(*one, *provider_attr);
    return DAT_SUCCESS;
}

DAT_RETURN ia_ha_related(DAT_IA_HANDLE ia_handle, const DAT_NAME_PTR name,
                         DAT_BOOLEAN *related) noexcept {
    const ia *const one = called_with<ia>(ia_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (name == nullptr)
        return wrong_argument(2);
    if (related == nullptr)
        return wrong_argument(3);
    // No connection moves from one IA to another here.
    *related = DAT_FALSE;
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_ia_query: the attributes of the IA and of the provider.

#include "api.hpp"
#include "dapl/core/instance.hpp"
#include "dapl/core/limits.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/ia/named_attr.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl {

namespace {

// srq_info_supported and ep_recv_info_supported: the counts that dat_srq_query and
// dat_ep_recv_query return.
constexpr DAT_COUNT srq_outstanding = 0x10;
// srq_watermarks_supported: that of dat_srq_set_lw, and the two of dat_ep_set_watermark.
constexpr DAT_COUNT low_watermark = 0x001, soft_high_watermark = 0x010, hard_high_watermark = 0x100;
constexpr DAT_COUNT ep_recv_allocated = 0x01, ep_recv_span = 0x10;

template <std::size_t size>
void copy_string(char (&dst)[size], const char *src) noexcept {
    std::strncpy(dst, src, size - 1);
    dst[size - 1] = '\0';
}

DAT_COUNT to_count(std::uint64_t value) {
    return static_cast<DAT_COUNT>(std::min<std::uint64_t>(value, INT_MAX));
}
DAT_SEG_LENGTH to_segment_length(std::uint64_t value) {
    return static_cast<DAT_SEG_LENGTH>(std::min<std::uint64_t>(value, UINT32_MAX));
}

/// version: such as "2.41.7".
void parse_version(const char *version, DAT_UINT32 &major, DAT_UINT32 &minor) noexcept {
    char *end = nullptr;
    major = static_cast<DAT_UINT32>(std::strtoul(version, &end, 10));
    minor = *end == '.' ? static_cast<DAT_UINT32>(std::strtoul(end + 1, nullptr, 10)) : 0;
}

/// The limits of the device, with DAT's names.
void set_limits(const device &dev, DAT_IA_ATTR &attr) noexcept {
    const ibv_device_attr &dev_attr = dev.attr;
    attr.max_eps = dev_attr.max_qp;
    attr.max_dto_per_ep = dev_attr.max_qp_wr;
    attr.max_rdma_read_per_ep_in = dev_attr.max_qp_rd_atom;
    attr.max_rdma_read_per_ep_out = dev_attr.max_qp_init_rd_atom;
    attr.max_evds = dev_attr.max_cq;
    attr.max_evd_qlen = dev_attr.max_cqe;
    attr.max_iov_segments_per_dto = dev_attr.max_sge;
    attr.max_lmrs = dev_attr.max_mr;
    attr.max_lmr_block_size = to_segment_length(dev_attr.max_mr_size);
    attr.max_lmr_virtual_address = UINT64_MAX;
    attr.max_pzs = dev_attr.max_pd;
    attr.max_message_size = dev.port_attr.max_msg_sz;
    attr.max_rdma_size = dev.port_attr.max_msg_sz;
    attr.max_rmrs = dev.has_mw ? dev_attr.max_mw : 0;
    attr.max_rmr_target_address = dev.has_mw ? UINT64_MAX : 0;
    attr.max_srqs = dev_attr.max_srq;
    attr.max_ep_per_srq = dev_attr.max_srq != 0 ? dev_attr.max_qp : 0;
    attr.max_recv_per_srq = dev_attr.max_srq_wr;
    attr.max_iov_segments_per_rdma_read = max_read_segments(dev);
    attr.max_iov_segments_per_rdma_write = dev_attr.max_sge;
    attr.max_rdma_read_in =
        to_count(std::uint64_t(dev_attr.max_qp_rd_atom) * std::uint64_t(dev_attr.max_qp));
    attr.max_rdma_read_out =
        to_count(std::uint64_t(dev_attr.max_qp_init_rd_atom) * std::uint64_t(dev_attr.max_qp));
    attr.max_rdma_read_per_ep_in_guaranteed = DAT_TRUE;
    attr.max_rdma_read_per_ep_out_guaranteed = DAT_TRUE;
    attr.zb_supported = dev.is_siw() ? DAT_FALSE : DAT_TRUE;
    attr.extension_supported = dev.iwarp ? DAT_EXTENSION_NONE : DAT_EXTENSION_IB;
    attr.extension_version = dev.iwarp ? 0 : DAT_IB_EXTENSION_VERSION;
}

void set_attr(const dapl_ia &ia, DAT_IA_ATTR &attr) noexcept {
    const device &dev = *ia.dev;
    attr = {};
    copy_string(attr.adapter_name, ibv_get_device_name(dev.context->device));
    copy_string(attr.vendor_name, vendor_name(dev));
    attr.hardware_version_major = dev.attr.hw_ver;
    parse_version(dev.attr.fw_ver, attr.firmware_version_major, attr.firmware_version_minor);
    attr.ia_address_ptr = const_cast<sockaddr *>(&dev.addresses[0].sa);
    set_limits(dev, attr);
}

void set_attr(const dapl_ia &ia, DAT_PROVIDER_ATTR &attr) noexcept {
    const device &dev = *ia.dev;
    coherdma_device_attr coherency = {};
    coherdma_query_device(ia.coherency.get(), &coherency, sizeof coherency);
    attr = {};
    copy_string(attr.provider_name, "coherdma");
    attr.provider_version_major = COHERDMA_VERSION_MAJOR;
    attr.provider_version_minor = COHERDMA_VERSION_MINOR;
    attr.dapl_version_major = ia.inst.info.dapl_version_major;
    attr.dapl_version_minor = ia.inst.info.dapl_version_minor;
    attr.lmr_mem_types_supported = static_cast<DAT_MEM_TYPE>(
        DAT_MEM_TYPE_VIRTUAL | DAT_MEM_TYPE_LMR | DAT_MEM_TYPE_SHARED_VIRTUAL);
    attr.iov_ownership_on_return = DAT_IOV_CONSUMER;
    attr.dat_qos_supported = DAT_QOS_BEST_EFFORT;
    attr.completion_flags_supported = static_cast<DAT_COMPLETION_FLAGS>(
        DAT_COMPLETION_SUPPRESS_FLAG | DAT_COMPLETION_SOLICITED_WAIT_FLAG |
        DAT_COMPLETION_UNSIGNALLED_FLAG | DAT_COMPLETION_BARRIER_FENCE_FLAG |
        DAT_COMPLETION_EVD_THRESHOLD_FLAG);
    attr.is_thread_safe = ia.inst.info.is_thread_safe;
    attr.max_private_data_size = max_private_data;
    attr.supports_multipath = DAT_FALSE;
    attr.ep_creator = DAT_PSP_CREATES_EP_IFASKED;
    attr.pz_support = DAT_PZ_UNIQUE;
    attr.optimal_buffer_alignment = std::max<DAT_UINT32>(coherency.buffer_alignment, 64);
    for (std::size_t i = 0; i != evd_streams.size(); ++i)
        for (std::size_t j = 0; j != evd_streams.size(); ++j)
            const_cast<DAT_BOOLEAN &>(attr.evd_stream_merging_supported[i][j]) =
                can_merge(i, j) ? DAT_TRUE : DAT_FALSE;
    attr.srq_supported = dev.attr.max_srq > 0 ? DAT_TRUE : DAT_FALSE;
    attr.srq_watermarks_supported =
        dev.attr.max_srq > 0 ? low_watermark | soft_high_watermark | hard_high_watermark : 0;
    attr.srq_ep_pz_difference_supported = DAT_FALSE;
    attr.srq_info_supported = dev.attr.max_srq > 0 ? srq_outstanding : 0;
    attr.ep_recv_info_supported = ep_recv_allocated | ep_recv_span;
    attr.lmr_sync_req = coherency.sync_required != 0 ? DAT_TRUE : DAT_FALSE;
    attr.dto_async_return_guaranteed = DAT_TRUE;
    attr.rdma_write_for_rdma_read_req = read_needs_remote_write(dev) ? DAT_TRUE : DAT_FALSE;
    attr.rdma_read_lmr_rmr_context_exposure = dev.iwarp ? DAT_TRUE : DAT_FALSE;
    attr.rmr_scope_supported = DAT_RMR_SCOPE_ANY; // dat_rmr_create, dat_rmr_create_for_ep
    attr.is_signal_safe = DAT_FALSE;
    attr.ha_supported = DAT_FALSE;
    attr.ha_loadbalancing = DAT_HA_LB_NONE;
    const auto &list = ia.provider_attrs->list();
    attr.num_provider_specific_attr = static_cast<DAT_COUNT>(list.size());
    attr.provider_specific_attr = const_cast<DAT_NAMED_ATTR *>(list.data());
}

} // namespace

DAT_RETURN ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async_evd_handle,
                    DAT_IA_ATTR_MASK ia_mask, DAT_IA_ATTR *ia_attr,
                    DAT_PROVIDER_ATTR_MASK provider_mask,
                    DAT_PROVIDER_ATTR *provider_attr) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if ((ia_mask & ~DAT_IA_FIELD_ALL) != 0)
        return invalid_parameter(3);
    if (ia_mask != 0 && ia_attr == nullptr)
        return invalid_parameter(4);
    if ((provider_mask & ~DAT_PROVIDER_FIELD_ALL) != 0)
        return invalid_parameter(5);
    if (provider_mask != 0 && provider_attr == nullptr)
        return invalid_parameter(6);
    if (async_evd_handle != nullptr)
        *async_evd_handle = ia->async_evd != nullptr ? ia->async_evd.load() : DAT_EVD_OUT_OF_SCOPE;
    if (ia_mask != 0)
        set_attr(*ia, *ia_attr);
    if (provider_mask != 0)
        set_attr(*ia, *provider_attr);
    return DAT_SUCCESS;
}

DAT_RETURN ia_ha_related(DAT_IA_HANDLE ia_handle, const DAT_NAME_PTR name,
                         DAT_BOOLEAN *related) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (name == nullptr)
        return invalid_parameter(2);
    if (related == nullptr)
        return invalid_parameter(3);
    // Connections do not fail over between IAs.
    *related = DAT_FALSE;
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl

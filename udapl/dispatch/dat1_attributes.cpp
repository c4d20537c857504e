// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// ia_query: IA and provider attributes.

#include "dapl/api.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"
#include "dat1_calls.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace coherdma::dapl::dat1 {

namespace {

/// From the attributes of DAT 2.0, where 1.2 has them.
void to_dat1(ia_attr &dst, const DAT_IA_ATTR &src) noexcept {
    const auto copy = [](auto &dst_array, const auto &src_array) {
        static_assert(sizeof dst_array == sizeof src_array);
        std::memcpy(&dst_array, &src_array, sizeof dst_array);
    };
    dst = {};
    copy(dst.adapter_name, src.adapter_name);
    copy(dst.vendor_name, src.vendor_name);
    dst.hardware_version_major = src.hardware_version_major;
    dst.hardware_version_minor = src.hardware_version_minor;
    dst.firmware_version_major = src.firmware_version_major;
    dst.firmware_version_minor = src.firmware_version_minor;
    dst.ia_address_ptr = src.ia_address_ptr;
    dst.max_eps = src.max_eps;
    dst.max_dto_per_ep = src.max_dto_per_ep;
    dst.max_rdma_read_per_ep_in = src.max_rdma_read_per_ep_in;
    dst.max_rdma_read_per_ep_out = src.max_rdma_read_per_ep_out;
    dst.max_evds = src.max_evds;
    dst.max_evd_qlen = src.max_evd_qlen;
    dst.max_iov_segments_per_dto = std::min(src.max_iov_segments_per_dto, max_segments_per_dto);
    dst.max_lmrs = src.max_lmrs;
    dst.max_lmr_virtual_address = src.max_lmr_virtual_address;
    dst.max_pzs = src.max_pzs;
    dst.max_message_size = src.max_message_size;
    dst.max_rdma_size = src.max_rdma_size;
    dst.max_rmrs = src.max_rmrs;
    dst.max_rmr_target_address = src.max_rmr_target_address;
    dst.max_srqs = src.max_srqs;
    dst.max_ep_per_srq = src.max_ep_per_srq;
    dst.max_recv_per_srq = src.max_recv_per_srq;
    dst.max_iov_segments_per_rdma_read =
        std::min(src.max_iov_segments_per_rdma_read, max_segments_per_dto);
    dst.max_iov_segments_per_rdma_write =
        std::min(src.max_iov_segments_per_rdma_write, max_segments_per_dto);
    dst.max_rdma_read_in = src.max_rdma_read_in;
    dst.max_rdma_read_out = src.max_rdma_read_out;
    dst.max_rdma_read_per_ep_in_guaranteed = src.max_rdma_read_per_ep_in_guaranteed;
    dst.max_rdma_read_per_ep_out_guaranteed = src.max_rdma_read_per_ep_out_guaranteed;
    dst.num_transport_attr = src.num_transport_attr;
    dst.transport_attr = src.transport_attr;
    dst.num_vendor_attr = src.num_vendor_attr;
    dst.vendor_attr = src.vendor_attr;
}

// Both versions begin with the same members: all of 1.2 but num_provider_specific_attr and
// provider_specific_attr.
constexpr std::size_t size_of_same_members = offsetof(provider_attr, num_provider_specific_attr);
static_assert(size_of_same_members ==
              offsetof(DAT_PROVIDER_ATTR, rdma_read_lmr_rmr_context_exposure));

} // namespace

DAT_RETURN ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async_evd_handle,
                    DAT_IA_ATTR_MASK ia_attr_mask, ia_attr *ia_attr_out,
                    DAT_PROVIDER_ATTR_MASK provider_attr_mask,
                    provider_attr *provider_attr_out) noexcept {
    DAT_IA_ATTR dat2_ia_attr;
    DAT_PROVIDER_ATTR dat2_provider_attr;
    const DAT_RETURN result = dapl::ia_query(
        ia_handle, async_evd_handle, dat2_ia_mask(ia_attr_mask),
        ia_attr_out != nullptr ? &dat2_ia_attr : nullptr, dat2_provider_mask(provider_attr_mask),
        provider_attr_out != nullptr ? &dat2_provider_attr : nullptr);
    if (result != DAT_SUCCESS)
        return to_dat1_error(result);
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia) // another thread has closed it
        return to_dat1_error(invalid_handle(DAT_INVALID_HANDLE_IA));
    if (ia_attr_mask != 0) {
        to_dat1(*ia_attr_out, dat2_ia_attr);
        // In 2.0 the member has 32 bits, so the limit may be truncated.
        ia_attr_out->max_lmr_block_size = ia->dev->attr.max_mr_size;
    }
    if (provider_attr_mask != 0) {
        std::memcpy(static_cast<void *>(provider_attr_out), &dat2_provider_attr,
                    size_of_same_members);
        // Only the first: those of extensions follow, and 1.2 has no dat_extension_op.
        provider_attr_out->num_provider_specific_attr =
            static_cast<DAT_COUNT>(ia->provider_attrs->num_base_attrs());
        provider_attr_out->provider_specific_attr = dat2_provider_attr.provider_specific_attr;
    }
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl::dat1

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What an IA and this provider can do, as DAT 1.2 asks it.

#include "dapl/api.hpp"
#include "dapl/device.hpp"
#include "dapl/ia.hpp"
#include "dat1_calls.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace coherdma::dapl::dat1 {

namespace {

void put(ia_attr &to, const DAT_IA_ATTR &from) noexcept {
    const auto copy = [](auto &into, const auto &value) {
        static_assert(sizeof into == sizeof value);
        std::memcpy(&into, &value, sizeof into);
    };
    to = {};
    copy(to.adapter_name, from.adapter_name);
    copy(to.vendor_name, from.vendor_name);
    to.hardware_version_major = from.hardware_version_major;
    to.hardware_version_minor = from.hardware_version_minor;
    to.firmware_version_major = from.firmware_version_major;
    to.firmware_version_minor = from.firmware_version_minor;
    to.ia_address_ptr = from.ia_address_ptr;
    to.max_eps = from.max_eps;
    to.max_dto_per_ep = from.max_dto_per_ep;
    to.max_rdma_read_per_ep_in = from.max_rdma_read_per_ep_in;
    to.max_rdma_read_per_ep_out = from.max_rdma_read_per_ep_out;
    to.max_evds = from.max_evds;
    to.max_evd_qlen = from.max_evd_qlen;
    to.max_iov_segments_per_dto = std::min(from.max_iov_segments_per_dto, most_segments);
    to.max_lmrs = from.max_lmrs;
    to.max_lmr_virtual_address = from.max_lmr_virtual_address;
    to.max_pzs = from.max_pzs;
    to.max_message_size = from.max_message_size;
    to.max_rdma_size = from.max_rdma_size;
    to.max_rmrs = from.max_rmrs;
    to.max_rmr_target_address = from.max_rmr_target_address;
    to.max_srqs = from.max_srqs;
    to.max_ep_per_srq = from.max_ep_per_srq;
    to.max_recv_per_srq = from.max_recv_per_srq;
    to.max_iov_segments_per_rdma_read =
        std::min(from.max_iov_segments_per_rdma_read, most_segments);
    to.max_iov_segments_per_rdma_write =
        std::min(from.max_iov_segments_per_rdma_write, most_segments);
    to.max_rdma_read_in = from.max_rdma_read_in;
    to.max_rdma_read_out = from.max_rdma_read_out;
    to.max_rdma_read_per_ep_in_guaranteed = from.max_rdma_read_per_ep_in_guaranteed;
    to.max_rdma_read_per_ep_out_guaranteed = from.max_rdma_read_per_ep_out_guaranteed;
    to.num_transport_attr = from.num_transport_attr;
    to.transport_attr = from.transport_attr;
    to.num_vendor_attr = from.num_vendor_attr;
    to.vendor_attr = from.vendor_attr;
}

// Both begin alike; the last attribute of this part is the last that 1.2 has.
constexpr std::size_t alike = offsetof(provider_attr, num_provider_specific_attr);
static_assert(alike == offsetof(DAT_PROVIDER_ATTR, rdma_read_lmr_rmr_context_exposure));

} // namespace

DAT_RETURN ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async, DAT_IA_ATTR_MASK ia_wanted,
                    ia_attr *ia_to, DAT_PROVIDER_ATTR_MASK provider_wanted,
                    provider_attr *provider_to) noexcept {
    DAT_IA_ATTR of_ia;
    DAT_PROVIDER_ATTR of_provider;
    const DAT_RETURN result = dapl::ia_query(
        ia_handle, async, ia_mask(ia_wanted), ia_to != nullptr ? &of_ia : nullptr,
        provider_mask(provider_wanted), provider_to != nullptr ? &of_provider : nullptr);
    if (result != DAT_SUCCESS)
        return told(result);
    const ia &one = *called_with<ia>(ia_handle);
    if (ia_wanted != 0) {
        put(*ia_to, of_ia);
        // 2.0 has 32 bits for it, and less than the truth.
        ia_to->max_lmr_block_size = one.on->limits.max_mr_size;
    }
    if (provider_wanted != 0) {
        std::memcpy(static_cast<void *>(provider_to), &of_provider, alike);
        // Not what only an extension's call could use: 1.2 has none.
        provider_to->num_provider_specific_attr = static_cast<DAT_COUNT>(one.named->plain());
        provider_to->provider_specific_attr = of_provider.provider_specific_attr;
    }
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl::dat1

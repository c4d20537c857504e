// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_lmr_sync_rdma_read and dat_lmr_sync_rdma_write.

#include "sync.hpp"

#include "dapl/api.hpp"

namespace coherdma::dapl {

DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *segments,
                              DAT_VLEN num_segments) noexcept {
    return sync(ia_handle, segments, num_segments, coherdma_sync_before_read);
}

DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *segments,
                               DAT_VLEN num_segments) noexcept {
    return sync(ia_handle, segments, num_segments, sync_around_write);
}

} // namespace coherdma::dapl

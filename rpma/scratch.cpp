// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "scratch.hpp"

#include "peer.hpp"

#include <sys/mman.h>
#include <utility>

namespace coherdma::rpma {

namespace {

constexpr std::size_t SCRATCH_SIZE = 8; ///< as many bytes as coherdma_post_flush() reads at most

} // namespace

int flush_scratch::create(rpma_peer &peer) noexcept {
    void *const page =
        mmap(nullptr, SCRATCH_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return RPMA_E_NOMEM;
    page_ = page;
    if (const int ret = peer.register_memory(page, SCRATCH_SIZE, RPMA_MR_USAGE_READ_DST, mr_))
        return ret;
    sge_ = {
        .addr = reinterpret_cast<std::uintptr_t>(page), .length = SCRATCH_SIZE, .lkey = mr_->lkey};
    return 0;
}

int flush_scratch::destroy() noexcept {
    first_error error;
    error.add(destroy_verbs(mr_, ibv_dereg_mr, "ibv_dereg_mr"));
    void *const page = std::exchange(page_, nullptr);
    if (page != nullptr && munmap(page, SCRATCH_SIZE) != 0)
        error.add(RPMA_E_INVAL);
    return error.get();
}

} // namespace coherdma::rpma

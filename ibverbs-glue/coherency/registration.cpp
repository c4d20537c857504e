// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Since 7.0, Linux refuses to register user memory for a device that it treats as non-coherent: a
// registration that succeeds shows that the kernel treats the device as coherent.

#include "architecture.hpp"
#include "kernel_version.hpp"
#include "rules.hpp"

#include <cerrno>
#include <cstring>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

namespace coherdma::coherency {

/// The rule "registration" of rules.cpp: the kernel registers memory of coherent devices only.
/// COHERDMA_UNKNOWN: the rule has no result.
evidence evaluate_registration(const rule_input &input) {
    evidence result;
    result.source = "ibv_reg_mr";
    if (parse_kernel_release(input.kernel_release) < kernel_version{.major = 7, .minor = 0}) {
        result.source = "uname -r";
        result.value = input.kernel_release;
        result.reason = "before 7.0 the kernel registers memory for any device";
        return result;
    }
    if (!input.context || !input.try_reg_mr) {
        result.reason = "this process cannot open the device, so registration was not tried";
        return result;
    }
    const int error = input.try_reg_mr(input.context);
    result.value = error == 0 ? "success" : std::strerror(error);
    if (error == 0) {
        result.coherency = COHERDMA_COHERENT;
        result.reason = "this kernel registers memory only for devices that it treats as coherent";
    } else if (error == EOPNOTSUPP && !has_only_coherent_devices(input.machine)) {
        result.coherency = COHERDMA_NON_COHERENT;
        result.reason =
            "this kernel refuses registration for devices that it treats as non-coherent";
    } else if (error == EIO) {
        result.reason = "the kernel may be configured to use bounce buffers for all DMA (swiotlb)";
    } else {
        result.reason = "the error does not concern coherency";
    }
    return result;
}

/// Whether the kernel says that it gives the device copies of the program's memory.
bool has_dma_bounce_flag(ibv_context *context) {
    // IB_UVERBS_DEVICE_CC_DMA_BOUNCE of <rdma/ib_user_verbs.h>, since Linux 7.2.
    constexpr std::uint64_t DEVICE_CC_DMA_BOUNCE = std::uint64_t{1} << 41;
    ibv_device_attr_ex attr = {};
    return ibv_query_device_ex(context, nullptr, &attr) == 0 &&
           (attr.device_cap_flags_ex & DEVICE_CC_DMA_BOUNCE) != 0;
}

/// Registers a page and deregisters it. Returns 0 or an errno.
int try_reg_mr(ibv_context *context) {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void *page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return errno;
    int error = 0;
    if (ibv_pd *pd = ibv_alloc_pd(context)) {
        const int access = IBV_ACCESS_LOCAL_WRITE;
        ibv_mr *mr = ibv_reg_mr(pd, page, size, access);
        error = mr ? ibv_dereg_mr(mr) : errno;
        ibv_dealloc_pd(pd);
    } else {
        error = errno;
    }
    munmap(page, size);
    return error;
}

} // namespace coherdma::coherency

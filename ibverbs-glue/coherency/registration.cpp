// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// From 7.0 on, Linux refuses to register a program's memory for a device that it takes for
// non-coherent. So there a registration that works is the kernel's own word.

#include "verdict.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

namespace coherdma::coherency {

finding ask_registration(const subject &device) {
    finding found;
    found.source = "ibv_reg_mr";
    if (std::strtol(device.release.c_str(), nullptr, 10) < 7) {
        found.source = "uname -r";
        found.value = device.release;
        found.reason = "before 7.0 the kernel registers memory for any device";
        return found;
    }
    if (!device.context || !device.registers) {
        found.reason = "the device is not open, so it cannot be tried";
        return found;
    }
    const int error = device.registers(device.context);
    found.value = error == 0 ? "success" : std::strerror(error);
    if (error == 0) {
        found.verdict = COHERDMA_COHERENT;
        found.reason = "this kernel registers memory only for devices that it takes for coherent";
    } else if (error == EOPNOTSUPP) {
        found.verdict = COHERDMA_NON_COHERENT;
        found.reason = "this kernel refuses memory for devices that it takes for non-coherent";
    } else if (error == EIO) {
        found.reason = "this kernel may be made to copy all that devices see (swiotlb)";
    } else {
        found.reason = "that has another reason than coherency";
    }
    return found;
}

int register_page(ibv_context *context) {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void *page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return errno;
    int error = 0;
    if (ibv_pd *domain = ibv_alloc_pd(context)) {
        const int access = IBV_ACCESS_LOCAL_WRITE;
        ibv_mr *region = ibv_reg_mr(domain, page, size, access);
        error = region ? ibv_dereg_mr(region) : errno;
        ibv_dealloc_pd(domain);
    } else {
        error = errno;
    }
    munmap(page, size);
    return error;
}

} // namespace coherdma::coherency

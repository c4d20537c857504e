// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registered memory. What the kernel's driver cannot, it says itself.

#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider {
namespace {

ibv_mr *reg_dmabuf(ibv_pd *domain, std::uint64_t offset, std::size_t length, std::uint64_t remote,
                   int fd, int access) noexcept {
    fresh<abi::verbs_mr> region;
    if (!region)
        return nullptr;
    if (const int error =
            library().reg_dmabuf_mr(domain, offset, length, remote, fd, access, &*region)) {
        errno = error;
        return nullptr;
    }
    return &region.take()->mr;
}

int rereg(abi::verbs_mr *region, int flags, ibv_pd *domain, void *address, std::size_t length,
          int access) noexcept {
    abi::message<abi::command::rereg_mr> command = {};
    abi::message<abi::response::rereg_mr> response = {};
    return library().rereg_mr(region, static_cast<std::uint32_t>(flags), address, length,
                              reinterpret_cast<std::uintptr_t>(address), access, domain, &command,
                              command.size, &response, response.size);
}

int dereg(abi::verbs_mr *region) noexcept {
    const int error = library().dereg_mr(region);
    if (error == 0)
        std::free(region);
    return error;
}

int advise(ibv_pd *domain, ib_uverbs_advise_mr_advice advice, std::uint32_t flags, ibv_sge *pieces,
           std::uint32_t count) noexcept {
    return library().advise_mr(domain, advice, flags, pieces, count);
}

// A region that somebody else registered on the same open device.
ibv_mr *import(ibv_pd *domain, std::uint32_t handle) noexcept {
    fresh<abi::verbs_mr> region;
    if (!region)
        return nullptr;
    if (const int error = library().query_mr(domain, &*region, handle)) {
        errno = error;
        return nullptr;
    }
    return &region.take()->mr;
}

void unimport(ibv_mr *region) noexcept {
    std::free(&of<abi::verbs_mr>(region));
}

} // namespace

void fill_region(abi::operations &able) noexcept {
    able.reg_dmabuf_mr = reg_dmabuf;
    able.rereg_mr = rereg;
    able.dereg_mr = dereg;
    able.advise_mr = advise;
    able.import_mr = import;
    able.unimport_mr = unimport;
}

} // namespace coherdma::provider

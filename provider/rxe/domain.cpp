// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

using abi::library;

ibv_pd *alloc(ibv_context *context) noexcept {
    fresh<ibv_pd> domain;
    if (!domain)
        return nullptr;
    abi::message<abi::command::alloc_pd> command = {};
    abi::message<abi::response::alloc_pd> response = {};
    if (const int error = library().alloc_pd(context, &*domain, &command, command.size, &response,
                                             response.size)) {
        errno = error;
        return nullptr;
    }
    return domain.take();
}

int dealloc(ibv_pd *domain) noexcept {
    const int error = library().dealloc_pd(domain);
    if (error == 0)
        std::free(domain);
    return error;
}

} // namespace

void fill_domain(abi::operations &able) noexcept {
    able.alloc_pd = alloc;
    able.dealloc_pd = dealloc;
}

} // namespace coherdma::provider::rxe

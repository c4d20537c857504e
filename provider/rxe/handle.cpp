// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Address handles. The kernel keeps the address and gives it a number; one that gives no number
// (before 5.18) wants it in every request, which is not offered here.

#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

struct answer {
    std::uint32_t number, unused;
};

int destroy(ibv_ah *ah) noexcept {
    const int error = library().destroy_ah(ah);
    if (error == 0)
        std::free(&of<handle>(ah));
    return error;
}

ibv_ah *create(ibv_pd *domain, ibv_ah_attr *attributes) noexcept {
    fresh<handle> own;
    if (!own)
        return nullptr;
    abi::message<abi::response::create_ah, answer> response = {};
    if (const int error =
            library().create_ah(domain, &own->verbs, attributes, &response, response.size)) {
        errno = error;
        return nullptr;
    }
    own->number = response.driver.number;
    if (own->number == 0) {
        own->verbs.context = domain->context;
        library().destroy_ah(&own->verbs);
        errno = EOPNOTSUPP;
        return nullptr;
    }
    return &own.take()->verbs;
}

} // namespace

void fill_handle(abi::operations &able) noexcept {
    able.create_ah = create;
    able.destroy_ah = destroy;
}

} // namespace coherdma::provider::rxe

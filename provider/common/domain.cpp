// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Protection domains, thread domains and parent domains. The kernel knows the first alone: a parent
// domain is a protection domain seen through a thread domain, and whatever is made in it is used by
// one thread at a time, so it takes no turns. Rings are the kernel's memory, so an allocator that a
// parent domain brings along is not needed for anything.

#include "objects.hpp"

#include <atomic>
#include <cerrno>

namespace coherdma::provider {
namespace {

struct thread {
    ibv_td verbs;
    std::uint32_t users;
};

struct domain {
    ibv_pd verbs;
    domain *under; ///< of a parent domain, nullptr of others
    thread *used_by;
    std::uint32_t users; ///< parent domains over this one
};

void use(std::uint32_t &users, std::uint32_t change) noexcept {
    std::atomic_ref(users).fetch_add(change);
}
bool used(std::uint32_t &users) noexcept {
    return std::atomic_ref(users).load() != 0;
}

ibv_pd *alloc(ibv_context *context) noexcept {
    fresh<domain> own;
    if (!own)
        return nullptr;
    abi::message<abi::command::alloc_pd> command = {};
    abi::message<abi::response::alloc_pd> response = {};
    if (const int error = library().alloc_pd(context, &own->verbs, &command, command.size,
                                             &response, response.size)) {
        errno = error;
        return nullptr;
    }
    return &own.take()->verbs;
}

ibv_pd *alloc_parent(ibv_context *context, ibv_parent_domain_init_attr *wanted) noexcept {
    constexpr unsigned known =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if (wanted->pd == nullptr || (wanted->comp_mask & ~known) != 0) {
        errno = wanted->pd == nullptr ? EINVAL : EOPNOTSUPP;
        return nullptr;
    }
    fresh<domain> own;
    if (!own)
        return nullptr;
    domain &given = of<domain>(wanted->pd);
    own->under = given.under != nullptr ? given.under : &given;
    own->used_by = wanted->td != nullptr ? &of<thread>(wanted->td) : given.used_by;
    own->verbs.context = context;
    own->verbs.handle = own->under->verbs.handle;
    use(own->under->users, 1);
    if (own->used_by != nullptr)
        use(own->used_by->users, 1);
    return &own.take()->verbs;
}

int dealloc(ibv_pd *pd) noexcept {
    domain &own = of<domain>(pd);
    if (used(own.users))
        return EBUSY;
    if (own.under == nullptr) {
        if (const int error = library().dealloc_pd(pd))
            return error;
    } else {
        use(own.under->users, ~std::uint32_t{0});
        if (own.used_by != nullptr)
            use(own.used_by->users, ~std::uint32_t{0});
    }
    std::free(&own);
    return 0;
}

ibv_td *alloc_thread(ibv_context *context, ibv_td_init_attr *wanted) noexcept {
    if (wanted->comp_mask != 0) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    fresh<thread> own;
    if (!own)
        return nullptr;
    own->verbs.context = context;
    return &own.take()->verbs;
}

int dealloc_thread(ibv_td *td) noexcept {
    thread &own = of<thread>(td);
    if (used(own.users))
        return EBUSY;
    std::free(&own);
    return 0;
}

// A domain that somebody else made on the same open device.
ibv_pd *import(ibv_context *context, std::uint32_t handle) noexcept {
    fresh<domain> own;
    if (!own)
        return nullptr;
    own->verbs.context = context;
    own->verbs.handle = handle;
    return &own.take()->verbs;
}

void unimport(ibv_pd *pd) noexcept {
    std::free(&of<domain>(pd));
}

} // namespace

bool alone(ibv_pd *pd) noexcept {
    return of<domain>(pd).used_by != nullptr;
}

int wish_of(const ibv_cq_init_attr_ex &wanted, bool &alone) noexcept {
    constexpr unsigned known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    if ((wanted.wc_flags & ~std::uint64_t{IBV_WC_STANDARD_FLAGS}) != 0 ||
        (wanted.comp_mask & ~known) != 0)
        return EOPNOTSUPP;
    alone = false;
    if ((wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
        if (wanted.parent_domain == nullptr || of<domain>(wanted.parent_domain).under == nullptr)
            return EINVAL;
        alone = provider::alone(wanted.parent_domain);
    }
    if ((wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0) {
        if ((wanted.flags & ~unsigned{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0)
            return EOPNOTSUPP;
        alone = alone || (wanted.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
    }
    return 0;
}

void fill_domain(abi::operations &able) noexcept {
    able.alloc_pd = alloc;
    able.alloc_parent_domain = alloc_parent;
    able.dealloc_pd = dealloc;
    able.alloc_td = alloc_thread;
    able.dealloc_td = dealloc_thread;
    able.import_pd = import;
    able.unimport_pd = unimport;
}

} // namespace coherdma::provider

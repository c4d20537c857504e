// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// PDs, thread domains (TDs) and parent domains. The kernel has only PDs. Objects that are created
// in a parent domain with a TD take no locks. The allocator of a parent domain is not called, since
// the kernel allocates the rings. A PD or TD with parent domains cannot be deallocated.

#include "objects.hpp"

#include <atomic>
#include <cerrno>

namespace coherdma::provider {
namespace {

struct driver_td {
    ibv_td verbs;
    std::uint32_t num_parent_domains; ///< that have this TD
};

struct driver_pd {
    ibv_pd verbs;
    driver_pd *base_pd;               ///< of a parent domain; nullptr: this is a PD of the kernel
    driver_td *td;                    ///< in a parent domain: its TD or nullptr; in a PD: nullptr
    std::uint32_t num_parent_domains; ///< of this PD
};

driver_pd &to_driver_pd(ibv_pd *ibpd) noexcept {
    return container_of<driver_pd>(ibpd);
}

void increment(std::uint32_t &counter) noexcept {
    std::atomic_ref(counter).fetch_add(1);
}
void decrement(std::uint32_t &counter) noexcept {
    std::atomic_ref(counter).fetch_sub(1);
}
bool is_zero(std::uint32_t &counter) noexcept {
    return std::atomic_ref(counter).load() == 0;
}

ibv_pd *alloc_pd(ibv_context *context) noexcept {
    auto pd = make_calloc_ptr<driver_pd>();
    if (!pd)
        return nullptr;
    abi::message<abi::command::alloc_pd> command = {};
    abi::message<abi::response::alloc_pd> response = {};
    if (const int error = libibverbs().ibv_cmd_alloc_pd(context, &pd->verbs, &command, command.size,
                                                        &response, response.size))
        return fail_with(error);
    return &pd.release()->verbs;
}

/// Of a PD or, by its base PD, of a parent domain. The attributes of an allocator are ignored.
ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr) noexcept {
    constexpr unsigned supported_mask =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if (attr->pd == nullptr || (attr->comp_mask & ~supported_mask) != 0)
        return fail_with(attr->pd == nullptr ? EINVAL : EOPNOTSUPP);
    auto parent = make_calloc_ptr<driver_pd>();
    if (!parent)
        return nullptr;
    driver_pd &pd = to_driver_pd(attr->pd);
    parent->base_pd = pd.base_pd != nullptr ? pd.base_pd : &pd;
    parent->td = attr->td != nullptr ? &container_of<driver_td>(attr->td) : pd.td;
    parent->verbs.context = context;
    parent->verbs.handle = parent->base_pd->verbs.handle;
    increment(parent->base_pd->num_parent_domains);
    if (parent->td != nullptr)
        increment(parent->td->num_parent_domains);
    return &parent.release()->verbs;
}

/// Of a PD or a parent domain. EBUSY: it is the base of parent domains.
int dealloc_pd(ibv_pd *ibpd) noexcept {
    driver_pd &pd = to_driver_pd(ibpd);
    if (!is_zero(pd.num_parent_domains))
        return EBUSY;
    if (pd.base_pd == nullptr) {
        if (const int error = libibverbs().ibv_cmd_dealloc_pd(ibpd))
            return error;
    } else {
        decrement(pd.base_pd->num_parent_domains);
        if (pd.td != nullptr)
            decrement(pd.td->num_parent_domains);
    }
    std::free(&pd);
    return 0;
}

ibv_td *alloc_td(ibv_context *context, ibv_td_init_attr *attr) noexcept {
    if (attr->comp_mask != 0)
        return fail_with(EOPNOTSUPP);
    auto td = make_calloc_ptr<driver_td>();
    if (!td)
        return nullptr;
    td->verbs.context = context;
    return &td.release()->verbs;
}

int dealloc_td(ibv_td *ibtd) noexcept {
    driver_td &td = container_of<driver_td>(ibtd);
    if (!is_zero(td.num_parent_domains))
        return EBUSY;
    std::free(&td);
    return 0;
}

// Imports a PD that another process allocated on the same open device.
ibv_pd *import_pd(ibv_context *context, std::uint32_t handle) noexcept {
    auto pd = make_calloc_ptr<driver_pd>();
    if (!pd)
        return nullptr;
    pd->verbs.context = context;
    pd->verbs.handle = handle;
    return &pd.release()->verbs;
}

void unimport_pd(ibv_pd *ibpd) noexcept {
    std::free(&to_driver_pd(ibpd));
}

} // namespace

bool is_single_threaded(ibv_pd *ibpd) noexcept {
    return to_driver_pd(ibpd).td != nullptr;
}

/// Checks the attributes of a CQ. single_threaded: whether the consumer has promised to use it from
/// one thread at a time. Returns 0 or an errno.
int check_cq_attr(const ibv_cq_init_attr_ex &attr, bool &single_threaded) noexcept {
    constexpr unsigned supported_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    if ((attr.wc_flags & ~std::uint64_t{IBV_WC_STANDARD_FLAGS}) != 0 ||
        (attr.comp_mask & ~supported_mask) != 0)
        return EOPNOTSUPP;
    single_threaded = false;
    if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
        if (attr.parent_domain == nullptr || to_driver_pd(attr.parent_domain).base_pd == nullptr)
            return EINVAL;
        single_threaded = is_single_threaded(attr.parent_domain);
    }
    if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0) {
        if ((attr.flags & ~unsigned{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0)
            return EOPNOTSUPP;
        single_threaded = single_threaded || (attr.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
    }
    return 0;
}

void fill_pd_ops(abi::verbs_context_ops &ops) noexcept {
    ops.alloc_pd = alloc_pd;
    ops.alloc_parent_domain = alloc_parent_domain;
    ops.dealloc_pd = dealloc_pd;
    ops.alloc_td = alloc_td;
    ops.dealloc_td = dealloc_td;
    ops.import_pd = import_pd;
    ops.unimport_pd = unimport_pd;
}

} // namespace coherdma::provider

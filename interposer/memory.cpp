// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// PDs, MRs, MWs and AHs.

#include "calls.hpp"

#include <cerrno>
#include <new>

using namespace coherdma::interposer;

// Headers of newer releases of rdma-core declare functions with them, older ones neither.
struct ibv_mr_init_attr;
struct ibv_buf;

namespace {

/// Calls the function that creates an object, unless the program's call of this name is to fail.
/// What the library calls for that itself is not observed: its ibv_reg_mr() may call
/// ibv_reg_mr_iova2(), which is the interposer's.
template <class function>
auto create(object_kind kind, ibv_context *context, const char *name, function call)
    -> decltype(call()) {
    if (const int error = failure_of(name))
        return fail_with(error);
    auto *const created = [&] {
        const unobserved_scope scope;
        return call();
    }();
    add_object(kind, created, context);
    return created;
}

/// Passes a registration from observer to observer, and last to the driver.
template <class function>
class registration_chain final : public registrar {
  public:
    /// call: registers what the program asked for.
    registration_chain(const context_record *context, const registration &asked, function call)
        : context_(context)
        , asked_(asked)
        , call_(call) {}

    ibv_mr *reg_mr(const registration &current) override {
        if (context_ == nullptr || num_passed_ == context_->observers.size())
            return register_with_driver(current);
        observer &next = *context_->observers[num_passed_++];
        ibv_mr *const mr = next.reg_mr(current, *this);
        --num_passed_;
        return mr;
    }

  private:
    ibv_mr *register_with_driver(const registration &current) {
        const bool is_changed = current.addr != asked_.addr || current.length != asked_.length ||
                                current.iova != asked_.iova || current.access != asked_.access ||
                                current.pd != asked_.pd;
        if (!is_changed || asked_.kind != memory_kind::PROGRAM)
            return call_();
        return libibverbs().reg_mr_iova2(current.pd, current.addr, current.length, current.iova,
                                         static_cast<unsigned>(current.access));
    }

    const context_record *const context_; ///< nullptr: it is not observed
    const registration &asked_;
    const function call_;
    std::size_t num_passed_ = 0; ///< observers that have it
};

/// Registers memory, by the observers if there are any.
template <class function>
ibv_mr *register_memory(const registration &asked, const char *name, function call) {
    if (tables().others.find(asked.pd) == nullptr &&
        is_refused(object_kind::PD, asked.pd, "ibv_reg_mr")) {
        errno = EINVAL;
        return nullptr;
    }
    const context_record *const context = tables().contexts.find(asked.pd->context);
    registration_chain<function> chain(is_observed(context) ? context : nullptr, asked, call);
    return create(object_kind::MR, asked.pd->context, name, [&] { return chain.reg_mr(asked); });
}

constexpr const char *REG_MR = "ibv_reg_mr"; ///< for an observer: of all that register memory

registration ask_for_program_memory(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova,
                                    int access) noexcept {
    return {.pd = pd,
            .kind = memory_kind::PROGRAM,
            .addr = addr,
            .length = length,
            .iova = iova,
            .access = access};
}

std::uint64_t to_iova(const void *addr) noexcept {
    return reinterpret_cast<std::uintptr_t>(addr);
}

/// The library is of a release without the function, which the program looked up all the same.
template <class object_type>
object_type *not_supported() noexcept {
    errno = EOPNOTSUPP;
    return nullptr;
}

/// A context that a function of a driver opened, mlx5dv_open_device(), is observed from its first
/// PD.
void adopt_context(ibv_context *context) try {
    if (tables().contexts.find(context) != nullptr || unobserved_scope::is_active())
        return;
    // Of two threads with its first PDs one observes it: the other would take the interposer's
    // functions for the driver's.
    const std::lock_guard guard(tables().adoption_mutex);
    if (tables().contexts.find(context) == nullptr)
        static_cast<void>(observe_context(*context)); // it is open: a refusal has no effect
} catch (const std::bad_alloc &) {                    // it is not observed
}

ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr) {
    const bool has_td = attr->td != nullptr; // the call may change attr
    ibv_pd *const pd = create(object_kind::PD, context, "ibv_alloc_parent_domain", [=] {
        return context_of(context).driver_ex.alloc_parent_domain(context, attr);
    });
    object_record *const record = has_td ? tables().others.find(pd) : nullptr;
    if (record != nullptr)
        record->info.is_single_threaded = true;
    return pd;
}

ibv_mr *alloc_null_mr(ibv_pd *pd) {
    return register_memory({.pd = pd, .kind = memory_kind::NO_MEMORY}, "ibv_alloc_null_mr",
                           [=] { return context_of(pd->context).driver_ex.alloc_null_mr(pd); });
}

ibv_mr *reg_dm_mr(ibv_pd *pd, ibv_dm *dm, std::uint64_t offset, std::size_t length,
                  unsigned access) {
    return register_memory(
        {.pd = pd,
         .kind = memory_kind::DEVICE,
         .length = length,
         .access = static_cast<int>(access)},
        "ibv_reg_dm_mr", [=] {
            return context_of(pd->context).driver_ex.reg_dm_mr(pd, dm, offset, length, access);
        });
}

ibv_mw *alloc_mw(ibv_pd *pd, ibv_mw_type type) {
    return create(object_kind::MW, pd->context, "ibv_alloc_mw",
                  [=] { return context_of(pd->context).driver_ops.alloc_mw(pd, type); });
}

int dealloc_mw(ibv_mw *mw) {
    const auto driver_dealloc_mw = context_of(mw->context).driver_ops.dealloc_mw;
    if (const int error = failure_of("ibv_dealloc_mw"))
        return error;
    return destroy_object(mw, [=] {
        held_posts::release_all(mw->context);
        return driver_dealloc_mw(mw);
    });
}

} // namespace

namespace coherdma::interposer {

void hook_memory_functions(ibv_context &context, extended_functions &driver) {
    driver.alloc_parent_domain =
        replace_extended(context, &verbs_context::alloc_parent_domain, alloc_parent_domain);
    driver.alloc_null_mr = replace_extended(context, &verbs_context::alloc_null_mr, alloc_null_mr);
    driver.reg_dm_mr = replace_extended(context, &verbs_context::reg_dm_mr, reg_dm_mr);
    if (context.ops.alloc_mw != nullptr)
        context.ops.alloc_mw = alloc_mw;
    if (context.ops.dealloc_mw != nullptr)
        context.ops.dealloc_mw = dealloc_mw;
}

} // namespace coherdma::interposer

extern "C" {

ibv_pd *ibv_alloc_pd(ibv_context *context) {
    adopt_context(context);
    return create(object_kind::PD, context, "ibv_alloc_pd",
                  [=] { return libibverbs().alloc_pd(context); });
}

ibv_pd *ibv_import_pd(ibv_context *context, std::uint32_t handle) {
    const auto import_pd = libibverbs().import_pd;
    return import_pd != nullptr ? create(object_kind::PD, context, "ibv_import_pd",
                                         [=] { return import_pd(context, handle); })
                                : not_supported<ibv_pd>();
}

int ibv_dealloc_pd(ibv_pd *pd) {
    if (const int error = failure_of("ibv_dealloc_pd"))
        return error;
    return destroy_object(pd, [=] { return libibverbs().dealloc_pd(pd); });
}

void ibv_unimport_pd(ibv_pd *pd) {
    destroy_object(pd, [=] {
        libibverbs().unimport_pd(pd);
        return 0;
    });
}

ibv_mr *ibv_reg_mr(ibv_pd *pd, void *addr, std::size_t length, int access) {
    return register_memory(ask_for_program_memory(pd, addr, length, to_iova(addr), access), REG_MR,
                           [=] { return libibverbs().reg_mr(pd, addr, length, access); });
}

ibv_mr *ibv_reg_mr_iova(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova,
                        int access) {
    return register_memory(ask_for_program_memory(pd, addr, length, iova, access), REG_MR, [=] {
        return libibverbs().reg_mr_iova(pd, addr, length, iova, access);
    });
}

ibv_mr *ibv_reg_mr_iova2(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova,
                         unsigned access) {
    return register_memory(
        ask_for_program_memory(pd, addr, length, iova, static_cast<int>(access)), REG_MR,
        [=] { return libibverbs().reg_mr_iova2(pd, addr, length, iova, access); });
}

ibv_mr *ibv_reg_mr_ex(ibv_pd *pd, ibv_mr_init_attr *init_attr) {
    const auto reg_mr_ex = libibverbs().reg_mr_ex;
    if (reg_mr_ex == nullptr)
        return not_supported<ibv_mr>();
    auto *const attr = reinterpret_cast<mr_init_attr *>(init_attr);
    constexpr std::uint64_t PROGRAM_MEMORY = MR_HAS_ADDR | MR_HAS_IOVA;
    const bool has_addr = (attr->comp_mask & MR_HAS_ADDR) != 0;
    registration asked = ask_for_program_memory(
        pd, has_addr ? attr->addr : nullptr, attr->length,
        (attr->comp_mask & MR_HAS_IOVA) != 0 ? attr->iova : to_iova(attr->addr), attr->access);
    if (!has_addr || (attr->comp_mask & ~PROGRAM_MEMORY) != 0)
        asked.kind = memory_kind::OTHER;
    return register_memory(asked, REG_MR, [=] { return reg_mr_ex(pd, attr); });
}

ibv_mr *ibv_reg_buf_mr(ibv_pd *pd, ibv_buf *buf, void *addr, std::size_t length, int access) {
    const auto reg_buf_mr = libibverbs().reg_buf_mr;
    registration asked = ask_for_program_memory(pd, addr, length, to_iova(addr), access);
    asked.kind = memory_kind::OTHER; // it may be device memory
    return reg_buf_mr != nullptr
               ? register_memory(asked, "ibv_reg_buf_mr",
                                 [=] { return reg_buf_mr(pd, buf, addr, length, access); })
               : not_supported<ibv_mr>();
}

ibv_mr *ibv_reg_dmabuf_mr(ibv_pd *pd, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                          int fd, int access) {
    const auto reg_dmabuf_mr = libibverbs().reg_dmabuf_mr;
    return reg_dmabuf_mr != nullptr
               ? register_memory(
                     {.pd = pd,
                      .kind = memory_kind::DMABUF,
                      .length = length,
                      .iova = iova,
                      .access = access},
                     "ibv_reg_dmabuf_mr",
                     [=] { return reg_dmabuf_mr(pd, offset, length, iova, fd, access); })
               : not_supported<ibv_mr>();
}

ibv_mr *ibv_import_mr(ibv_pd *pd, std::uint32_t handle) {
    const auto import_mr = libibverbs().import_mr;
    return import_mr != nullptr
               ? register_memory({.pd = pd, .kind = memory_kind::IMPORTED}, "ibv_import_mr",
                                 [=] { return import_mr(pd, handle); })
               : not_supported<ibv_mr>();
}

int ibv_rereg_mr(ibv_mr *mr, int flags, ibv_pd *pd, void *addr, std::size_t length, int access) {
    if (const int error = failure_of("ibv_rereg_mr")) {
        errno = error;
        return IBV_REREG_MR_ERR_INPUT; // the MR is as it was
    }
    const auto rereg = [=] {
        held_posts::release_all(mr->context);
        return libibverbs().rereg_mr(mr, flags, pd, addr, length, access);
    };
    const object_record *const record = tables().others.find(mr);
    if (!is_observed(record))
        return rereg();
    {
        const unobserved_scope scope;
        for (observer *const asked : record->observers)
            if (const int error = asked->before_rereg_mr(*mr, flags)) {
                errno = error;
                return IBV_REREG_MR_ERR_INPUT; // the MR is as it was
            }
    }
    const int error = rereg();
    if (error == 0)
        notify(*record, &observer::on_rereg_mr, *mr, flags, access);
    return error;
}

int ibv_dereg_mr(ibv_mr *mr) {
    if (tables().others.find(mr) == nullptr && is_refused(object_kind::MR, mr, "ibv_dereg_mr"))
        return EINVAL;
    if (const int error = failure_of("ibv_dereg_mr"))
        return error;
    return destroy_object(mr, [=] {
        held_posts::release_all(mr->context);
        return libibverbs().dereg_mr(mr);
    });
}

void ibv_unimport_mr(ibv_mr *mr) {
    destroy_object(mr, [=] {
        held_posts::release_all(mr->context);
        libibverbs().unimport_mr(mr);
        return 0;
    });
}

ibv_ah *ibv_create_ah(ibv_pd *pd, ibv_ah_attr *attr) {
    return create(object_kind::AH, pd->context, "ibv_create_ah",
                  [=] { return libibverbs().create_ah(pd, attr); });
}

ibv_ah *ibv_create_ah_from_wc(ibv_pd *pd, ibv_wc *wc, ibv_grh *grh, std::uint8_t port_num) {
    return create(object_kind::AH, pd->context, "ibv_create_ah_from_wc",
                  [=] { return libibverbs().create_ah_from_wc(pd, wc, grh, port_num); });
}

int ibv_destroy_ah(ibv_ah *ah) {
    if (const int error = failure_of("ibv_destroy_ah"))
        return error;
    return destroy_object(ah, [=] {
        held_posts::release_all(ah->context);
        return libibverbs().destroy_ah(ah);
    });
}

} // extern "C"

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An interface adapter: a port of an RDMA device, opened under one of its names.
#pragma once

#include "index.hpp"
#include "lock.hpp"
#include "named.hpp"
#include "object.hpp"
#include "owned.hpp"

#include <array>
#include <atomic>
#include <coherdma/coherdma.h>
#include <memory>
#include <net/if.h>
#include <sys/socket.h>

namespace coherdma::dapl {

struct ep;
struct evd;
struct lmr;
struct rmr;
struct instance;
struct device;

class ia : public object {
  public:
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_IA;
    explicit ia(instance &opened_as) noexcept;
    ~ia();

    ibv_context *verbs() const noexcept;
    /// What the program has for it: the registry's small integer.
    DAT_IA_HANDLE handle() noexcept;

    /// The object, found by its handle and good for an IA's argument. It lives while guard is held.
    template <class kind>
    kind *find(DAT_HANDLE wanted) noexcept {
        kind *const one = as<kind>(wanted);
        return one != nullptr && one->home == this ? one : nullptr;
    }
    /// The same, counted as used, so it lives on. Without guard.
    template <class kind>
    kind *borrow(DAT_HANDLE wanted) noexcept {
        const holding held(guard);
        kind *const one = find<kind>(wanted);
        if (one != nullptr)
            ++one->users;
        return one;
    }
    /// The same of any IA, where the API lets it be another's.
    template <class kind>
    static kind *borrow_any(DAT_HANDLE wanted) noexcept {
        kind *const one = as<kind>(wanted);
        return one != nullptr ? one->home->template borrow<kind>(wanted) : nullptr;
    }
    static void give_back(object *one) noexcept {
        if (one == nullptr)
            return;
        const holding held(one->home->guard);
        --one->users;
    }

    /// A complete object is from now on among the IA's, and its handle is good.
    template <class kind>
    void adopt(kind *one) noexcept {
        const holding held(guard);
        enlist(kind::type, one);
        publish(one, provider);
    }

    /// Its handle is bad from now on. False: somebody else was faster. in_use: others need it, and
    /// nothing was changed.
    template <class kind>
    bool disown(kind *one, bool &in_use) noexcept {
        const holding held(guard);
        in_use = false;
        if (as<kind>(one) == nullptr)
            return false;
        in_use = one->users != 0;
        if (in_use)
            return false;
        delist(one);
        withdraw(one);
        return true;
    }

    /// For objects that need no more to end than their destructor.
    template <class kind>
    DAT_RETURN free_unused(kind *one, DAT_UINT32 while_used, DAT_UINT32 while_gone) noexcept {
        bool in_use;
        if (!disown(one, in_use))
            return in_use ? wrong_state(while_used) : wrong_handle(while_gone);
        discard(one);
        return DAT_SUCCESS;
    }

    /// The first of a kind; for closing.
    template <class kind>
    kind *first() noexcept {
        const holding held(guard);
        return first_of<kind>();
    }
    /// The same, with guard held.
    template <class kind>
    kind *first_of() noexcept {
        return static_cast<kind *>(members.at(kind::type));
    }
    /// Whether there are objects beside its own.
    bool busy() noexcept;

    lock guard; ///< of the lists, the indexes and all objects' users
    instance &from;
    std::shared_ptr<device> on;
    std::unique_ptr<coherdma_device, ends<coherdma_close>> coherency;
    std::unique_ptr<named_attributes> named;
    std::atomic<evd *> async = nullptr; ///< used by the IA, whosever it is
    bool own_async = false;             ///< made at open, not by the program
    bool ro_aware = false;              ///< the program knows of relaxed ordering

    index<lmr> by_lkey;
    index<object> by_rkey; ///< LMRs and RMRs
    index<ep> by_number;   ///< EPs that take receives from an SRQ

  private:
    void enlist(DAT_HANDLE_TYPE kind, object *one) noexcept;
    static void delist(object *one) noexcept;

    std::array<object *, DAT_HANDLE_TYPE_EXTENSION_BASE> members = {};
};

} // namespace coherdma::dapl

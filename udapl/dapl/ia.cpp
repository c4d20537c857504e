// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ia.hpp"

#include "api.hpp"
#include "async.hpp"
#include "cm/listener.hpp"
#include "cno.hpp"
#include "device.hpp"
#include "ep.hpp"
#include "evd.hpp"
#include "instance.hpp"
#include "lmr.hpp"
#include "named.hpp"
#include "pz.hpp"
#include "rmr.hpp"
#include "srq.hpp"

#include <algorithm>
#include <cerrno>

namespace coherdma::dapl {

ia::ia(instance &opened_as) noexcept
    : object(*this)
    , from(opened_as) {}

ia::~ia() = default;

ibv_context *ia::verbs() const noexcept {
    return on->verbs;
}

DAT_IA_HANDLE ia::handle() noexcept {
    DAT_IA_HANDLE known = DAT_HANDLE_NULL;
    if (from.public_handle != nullptr && from.public_handle(this, &known) == DAT_SUCCESS)
        return known;
    return this;
}

void ia::enlist(DAT_HANDLE_TYPE kind, object *one) noexcept {
    object *&first = members.at(kind);
    one->next = first;
    one->before = &first;
    if (first != nullptr)
        first->before = &one->next;
    first = one;
}

void ia::delist(object *one) noexcept {
    *one->before = one->next;
    if (one->next != nullptr)
        one->next->before = one->before;
    one->next = nullptr;
    one->before = nullptr;
}

bool ia::busy() noexcept {
    const holding held(guard);
    for (object *each : members)
        if (each != nullptr && !(own_async && each == async && each->next == nullptr))
            return true;
    return false;
}

namespace {

/// What the program said of the asynchronous EVD: its own, none, or one to be made.
DAT_RETURN take_async(ia &on, DAT_COUNT qlen, DAT_EVD_HANDLE *async) noexcept {
    if (*async == DAT_EVD_OUT_OF_SCOPE || *async == DAT_EVD_ASYNC_EXISTS)
        return DAT_SUCCESS;
    if (*async != DAT_HANDLE_NULL) {
        // Of another IA: events go there.
        evd *const given = ia::borrow_any<evd>(*async);
        if (given == nullptr || (given->flags & DAT_EVD_ASYNC_FLAG) == 0) {
            ia::give_back(given);
            return wrong_handle(DAT_INVALID_HANDLE_EVD_ASYNC);
        }
        on.async = given;
        return DAT_SUCCESS;
    }
    if (qlen <= 0)
        return wrong_argument(2);
    // Of every endpoint there may be one at a time; OFED's dtestsrq asks for 8 and has 20
    // endpoints.
    const auto &limits = on.on->limits;
    evd *made = nullptr;
    const DAT_RETURN result = make_evd(on, std::max(qlen, std::min(limits.max_qp, limits.max_cqe)),
                                       DAT_EVD_ASYNC_FLAG, made);
    if (result != DAT_SUCCESS)
        return result;
    on.async = made;
    on.own_async = true;
    made->users = 1; // the IA
    return DAT_SUCCESS;
}

DAT_RETURN find(ia &on, DAT_COUNT qlen, DAT_EVD_HANDLE *async) noexcept {
    on.on = find_device(on.from.device.c_str());
    if (on.on == nullptr)
        return failed(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    on.coherency.reset(coherdma_open_device(on.verbs()));
    if (!on.coherency)
        return failed(DAT_INTERNAL_ERROR);
    on.named = std::make_unique<named_attributes>(*on.on);
    const DAT_RETURN result = take_async(on, qlen, async);
    if (result != DAT_SUCCESS)
        return result;
    if (const int error = hear_of(on)) {
        if (on.own_async)
            discard(on.async.load());
        else
            ia::give_back(on.async);
        return failed_with(error, DAT_RESOURCE_ERROR_HANDLER);
    }
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN open_ia(const opening &how, const DAT_NAME_PTR name, DAT_COUNT qlen,
                   DAT_EVD_HANDLE *async, DAT_IA_HANDLE *ia_handle) noexcept {
    if (name == nullptr)
        return wrong_argument(1);
    if (async == nullptr)
        return wrong_argument(3);
    if (ia_handle == nullptr)
        return wrong_argument(4);
    instance *const as_what = find_instance(name, how.version, how.thread_safe);
    if (as_what == nullptr)
        return failed(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    // Without effect where another plugin was chosen, or ours is not installed.
    coherdma_use_provider();
    if (const int error = events::start())
        return failed_with(error, DAT_RESOURCE_DEVICE);
    ia *const made = prepare<ia>(*as_what);
    DAT_RETURN result = made == nullptr ? exhausted(DAT_RESOURCE_MEMORY) : DAT_SUCCESS;
    if (made != nullptr) {
        made->provider = as_what->table;
        made->ro_aware = how.ro_aware && as_what->tells_ro_aware;
        result = find(*made, qlen, async);
        if (result != DAT_SUCCESS)
            discard(made);
    }
    if (result != DAT_SUCCESS) {
        events::stop();
        return result;
    }
    publish(made, as_what->table);
    if (made->own_async)
        made->adopt(made->async.load());
    if (made->async != nullptr)
        *async = made->async;
    *ia_handle = made;
    return DAT_SUCCESS;
}

DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async,
                   DAT_IA_HANDLE *ia_handle) noexcept {
    return open_ia({2, DAT_FALSE}, name, qlen, async, ia_handle);
}

DAT_RETURN ia_open_thread_safe(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *async,
                               DAT_IA_HANDLE *ia_handle) noexcept {
    return open_ia({2, DAT_TRUE}, name, qlen, async, ia_handle);
}

namespace {

template <class kind, class what>
void end_all(ia &on, what &&end) noexcept {
    bool in_use;
    while (kind *const one = on.first<kind>()) {
        {
            // Whoever used it has gone before it, or goes with it.
            const holding held(on.guard);
            one->users = 0;
        }
        if (on.disown(one, in_use))
            end(one);
    }
}

void end_members(ia &on) noexcept {
    end_all<cm::request>(on, [](auto *one) { cm::end_request(one); });
    end_all<ep>(on, [](auto *one) { end_ep(one); });
    end_all<cm::psp>(on, [](auto *one) { cm::end_listener(one); });
    end_all<cm::rsp>(on, [](auto *one) { cm::end_listener(one); });
    end_all<cm::csp>(on, [](auto *one) { cm::end_listener(one); });
    end_all<rmr>(on, [](auto *one) { end_rmr(one); });
    end_all<lmr>(on, [](auto *one) { end_lmr(one); });
    end_all<srq>(on, [](auto *one) { discard(one); });
    end_all<evd>(on, [](auto *one) { end_evd(one); });
    end_all<cno>(on, [](auto *one) { end_cno(one); });
    end_all<pz>(on, [](auto *one) { discard(one); });
}

} // namespace

DAT_RETURN ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS flags) noexcept {
    ia *const one = called_with<ia>(ia_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (flags != DAT_CLOSE_ABRUPT_FLAG && flags != DAT_CLOSE_GRACEFUL_FLAG)
        return wrong_argument(2);
    // An agent is called by the thread that this would wait for.
    if (events::in_thread() || (flags == DAT_CLOSE_GRACEFUL_FLAG && one->busy()))
        return wrong_state(DAT_INVALID_STATE_IA_IN_USE);
    withdraw(one);
    if (!one->own_async)
        ia::give_back(one->async.exchange(nullptr));
    hear_no_more(*one);
    end_members(*one);
    discard(one);
    events::stop();
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl

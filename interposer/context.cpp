// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Opening a device: the observers say whether they want its events. If any does, functions of the
// context are replaced before the program gets it, and stay replaced until it is closed.

#include "calls.hpp"
#include "observers.hpp"

#include <cerrno>
#include <new>

using namespace coherdma::interposer;

int coherdma::interposer::observe_context(ibv_context &context) {
    std::vector<observer *> observers;
    for (observer *const loaded : loaded_observers()) {
        const unobserved_scope scope;
        int error = 0;
        if (loaded->on_open(context, error))
            observers.push_back(loaded);
        if (error != 0)
            return error;
    }
    if (loaded_observers().empty())
        return 0;
    // Also if none wants it: then they are not asked again.
    auto record = std::make_unique<context_record>();
    init_record(*record, object_kind::CONTEXT, &context, &context, observers);
    record->driver_ops = context.ops;
    context_record &added = *record;
    if (!tables().contexts.insert(&context, record.get()))
        throw std::bad_alloc();
    static_cast<void>(record.release());
    if (added.observers.empty())
        return 0;
    hook_memory_functions(context, added.driver_ex);
    hook_queue_functions(context, added.driver_ex);
    hook_post_functions(context);
    hook_poll_functions(context);
    hook_event_functions(context);
    hook_query_functions(context, added.driver_ex);
    notify(added, &observer::on_create, std::as_const(added.info));
    return 0;
}

namespace {

/// A device that cannot be observed is not opened.
ibv_context *observe_opened(ibv_context *context) {
    if (context == nullptr || unobserved_scope::is_active())
        return context;
    int error;
    try {
        error = observe_context(*context);
    } catch (const std::bad_alloc &) {
        error = ENOMEM;
    }
    if (error == 0)
        return context;
    libibverbs().close_device(context);
    errno = error;
    return nullptr;
}

} // namespace

extern "C" {

ibv_context *ibv_open_device(ibv_device *device) {
    if (const int error = failure_of("ibv_open_device"))
        return fail_with(error);
    return observe_opened(libibverbs().open_device(device));
}

ibv_context *ibv_import_device(int cmd_fd) {
    if (const int error = failure_of("ibv_import_device"))
        return fail_with(error);
    return observe_opened(libibverbs().import_device(cmd_fd));
}

int ibv_close_device(ibv_context *context) {
    int error;
    destroy(
        tables().contexts, context,
        [=] {
            held_posts::release_all(context);
            return libibverbs().close_device(context);
        },
        error);
    return error;
}

} // extern "C"

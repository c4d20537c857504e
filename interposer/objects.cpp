// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

#include "observers.hpp"

#include <algorithm>
#include <cstddef>
#include <dlfcn.h>
#include <execinfo.h>
#include <new>

namespace coherdma::interposer {
namespace {

/// Frames before the first of the interposer; 0: it has none.
int count_others(const call_stack &stack) noexcept {
    Dl_info interposer{}, other{};
    dladdr(reinterpret_cast<void *>(count_others), &interposer);
    for (int i = 0; i < stack.depth; ++i)
        if (dladdr(stack.frames[static_cast<std::size_t>(i)], &other) != 0 &&
            other.dli_fbase == interposer.dli_fbase)
            return i;
    return 0;
}

/// With the interposer's own frames.
call_stack capture_stack() noexcept {
    call_stack stack;
    stack.depth = backtrace(stack.frames.data(), static_cast<int>(stack.frames.size()));
    // Frames of a sanitizer, whose backtrace() calls that of the C library, are the same each time.
    static const int num_others = count_others(stack);
    stack.depth -= num_others;
    if (num_others != 0)
        std::move(stack.frames.begin() + num_others,
                  stack.frames.begin() + num_others + stack.depth, stack.frames.begin());
    return stack;
}

std::atomic<std::uint64_t> last_number = 0;

} // namespace

int ask_for_failure(const char *call) {
    if (unobserved_scope::is_active())
        return 0;
    const int saved_errno = errno;
    int error = 0;
    for (observer *const asked : loaded_observers()) {
        const unobserved_scope scope;
        if (error == 0)
            error = asked->before_call(call);
    }
    errno = saved_errno;
    return error;
}

bool is_refused(object_kind kind, const void *handle, const char *call) {
    if (handle == nullptr || unobserved_scope::is_active())
        return false;
    bool refused = false;
    for (observer *const asked : loaded_observers()) {
        const unobserved_scope scope;
        refused = asked->refuses_unknown(kind, handle, call) || refused;
    }
    return refused;
}

const char *name_of_destruction(object_kind kind) noexcept {
    switch (kind) {
    case object_kind::MR:
        return "ibv_dereg_mr";
    case object_kind::MW:
        return "ibv_dealloc_mw";
    case object_kind::CQ:
        return "ibv_destroy_cq";
    case object_kind::SRQ:
        return "ibv_destroy_srq";
    case object_kind::QP:
        return "ibv_destroy_qp";
    case object_kind::AH:
        return "ibv_destroy_ah";
    case object_kind::CM_ID:
        return "rdma_destroy_id";
    case object_kind::CONTEXT: // these close a descriptor, which the parent has, too
    case object_kind::CHANNEL:
    case object_kind::PD:
        break;
    }
    return nullptr;
}

bool is_single_threaded(const ibv_pd *pd) noexcept {
    const object_record *const record = tables().others.find(pd);
    return record != nullptr && record->info.is_single_threaded;
}

std::uint64_t next_number() noexcept {
    return last_number.fetch_add(1, std::memory_order_relaxed) + 1;
}

object_tables &tables() noexcept {
    alignas(object_tables) static std::byte storage[sizeof(object_tables)];
    static object_tables &created = *new (storage) object_tables;
    return created;
}

void init_record(object_record &record, object_kind kind, const void *handle, ibv_context *context,
                 const std::vector<observer *> &observers) {
    record.info.kind = kind;
    record.info.handle = handle;
    record.info.context = context;
    record.info.number = next_number();
    record.info.creation = capture_stack();
    record.observers = observers;
}

void add_object(object_kind kind, const void *handle, ibv_context *context,
                const std::vector<observer *> &observers) try {
    if (handle == nullptr || observers.empty() || unobserved_scope::is_active())
        return;
    auto record = std::make_unique<object_record>();
    init_record(*record, kind, handle, context, observers);
    if (!tables().others.insert(handle, record.get()))
        return;
    const object_record &added = *record.release();
    notify(added, &observer::on_create, added.info);
} catch (const std::bad_alloc &) { // the program's call succeeds all the same
}

void add_object(object_kind kind, const void *handle, ibv_context *context) {
    const context_record *const owner = tables().contexts.find(context);
    if (is_observed(owner))
        add_object(kind, handle, context, owner->observers);
}

} // namespace coherdma::interposer

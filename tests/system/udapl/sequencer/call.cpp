// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "call.hpp"

#include <cstdio>

namespace sequencer {

call::call(worker &caller, const call_rule &called)
    : caller_(caller)
    , rule_(called)
    , legal_types_(called.legal_types) {
    caller.ring.begin(called.name);
}

namespace {

std::string hex(DAT_HANDLE handle) {
    char text[32];
    std::snprintf(text, sizeof text, "%#zx", reinterpret_cast<std::uintptr_t>(handle));
    return text;
}

/// For a failure's message.
std::string description(const object *obj) {
    if (obj == nullptr)
        return "not a handle of its type";
    return (obj->is_freed() ? "freed of IA " : "live of IA ") + hex(obj->ia->handle) +
           (obj->ia->freed ? " (closed), EVD flags " : ", EVD flags ") +
           std::to_string(obj->evd_flags);
}

} // namespace

DAT_HANDLE call::use_handle(const object_ref &ref, const char *name) {
    used_handle used = {ref.obj, 0, 0, false, ref.obj == nullptr};
    if (object *const obj = ref.obj) {
        used_busy_object_ =
            obj->num_users.fetch_add(1, std::memory_order_relaxed) != 0 || used_busy_object_;
        // In this order: a free that begins later increments the attempts.
        used.free_attempts = obj->free_attempts.load(std::memory_order_acquire);
        used.ia_free_attempts = obj->ia->free_attempts.load(std::memory_order_acquire);
        used.was_being_freed = obj->active_frees.load(std::memory_order_acquire) != 0 ||
                               obj->ia->active_frees.load(std::memory_order_acquire) != 0;
        used.is_certainly_invalid = obj->is_freed();
    }
    handles_.at(num_handles_++) = used;
    return arg(name, ref.handle);
}

DAT_HANDLE call::use_handle(const object_ref &ref, const object *ia, const char *name) {
    use_handle(ref, name);
    used_handle &used = handles_.at(num_handles_ - 1);
    used.is_certainly_invalid = used.is_certainly_invalid || ia == nullptr || ref.obj->ia != ia;
    return ref.handle;
}

DAT_HANDLE call::use_evd(const object_ref &ref, const object *ia, DAT_EVD_FLAGS flags,
                         const char *name) {
    use_handle(ref, ia, name);
    used_handle &used = handles_.at(num_handles_ - 1);
    used.is_certainly_invalid = used.is_certainly_invalid || (ref.obj->evd_flags & flags) == 0;
    return ref.handle;
}

DAT_HANDLE call::use_optional(const object_ref &ref, const object *ia, const char *name) {
    return ref.handle == DAT_HANDLE_NULL ? arg(name, ref.handle) : use_handle(ref, ia, name);
}

DAT_HANDLE call::use_optional_evd(const object_ref &ref, const object *ia, DAT_EVD_FLAGS flags,
                                  const char *name) {
    if (ref.handle != DAT_HANDLE_NULL)
        return use_evd(ref, ia, flags, name);
    allow(rules::invalid_parameter);
    return arg(name, ref.handle);
}

void call::expect_invalid_parameter() {
    has_invalid_parameter_ = true;
    legal_types_ |= rules::invalid_parameter;
}

void call::frees(object *obj) {
    if (obj == nullptr)
        return;
    caller_.table.begin_free(*obj);
    objects_to_free_.at(num_objects_to_free_++) = obj;
}

void call::begins_attempt(object *ep) {
    connecting_ep_ = ep;
    if (ep != nullptr)
        ep->attempts.begin();
}

bool call::is_possibly_invalid(const used_handle &used) const {
    if (used.is_certainly_invalid || used.was_being_freed || used.obj->is_freed())
        return true;
    const auto attempts_changed = [this](const object &obj, unsigned attempts) {
        for (std::size_t i = 0; i != num_objects_to_free_; ++i) // this call is a free itself
            attempts += objects_to_free_.at(i) == &obj ? 1U : 0U;
        return obj.free_attempts.load(std::memory_order_acquire) != attempts;
    };
    return attempts_changed(*used.obj, used.free_attempts) ||
           attempts_changed(*used.obj->ia, used.ia_free_attempts);
}

bool call::has_possibly_invalid_handle() const {
    for (std::size_t i = 0; i != num_handles_; ++i)
        if (is_possibly_invalid(handles_.at(i)))
            return true;
    return allows_invalid_handle_;
}

/// The process fails if the result contradicts what is known of the handles and arguments, or the
/// rule.
void call::check(DAT_RETURN result) const {
    const std::string text = caller_.ring.last_call();
    const std::uint32_t type = type_bit(result);
    if (type == type_bit(DAT_INVALID_HANDLE)) {
        if (!has_possibly_invalid_handle())
            fail(text + ", but all handles are valid");
        return;
    }
    if (num_handles_ != 0 && handles_.at(0).is_certainly_invalid)
        fail(text + ", but the first handle is invalid");
    if (result == DAT_SUCCESS)
        for (std::size_t i = 0; i != num_handles_; ++i)
            if (handles_.at(i).is_certainly_invalid)
                fail(text + ", but handle " + std::to_string(i + 1) +
                     " is invalid: " + description(handles_.at(i).obj));
    if (result == DAT_SUCCESS && has_invalid_parameter_)
        fail(text + ", but a parameter is invalid");
    // What a wait returns when the IA is closed.
    const bool aborted =
        type == type_bit(DAT_ABORT) ||
        (type == rules::invalid_state && DAT_GET_SUBTYPE(result) == DAT_INVALID_STATE_CNO_DEAD);
    if (aborted ? !has_possibly_invalid_handle() : (legal_types_ & type) == 0)
        fail(text + ", which is not legal here");
}

DAT_RETURN call::check_result(DAT_RETURN result) {
    caller_.ring.end(result);
    if (caller_.shared.config.print_calls)
        std::printf("thread %zu: %s\n", caller_.index, caller_.ring.last_call().c_str());
    ++caller_.num_calls;
    auto &counts = caller_.statistics[rule_.name];
    ++counts.total;
    counts.successes += result == DAT_SUCCESS ? 1U : 0U;
    counts.invalid_handles += DAT_GET_TYPE(result) == DAT_INVALID_HANDLE ? 1U : 0U;
    counts.on_busy_object += used_busy_object_ ? 1U : 0U;
    for (std::size_t i = 0; i != num_handles_; ++i)
        if (object *const obj = handles_.at(i).obj)
            obj->num_users.fetch_sub(1, std::memory_order_relaxed);
    succeeded_ = result == DAT_SUCCESS;
    check(result);
    if (connecting_ep_ != nullptr)
        connecting_ep_->attempts.end_call(succeeded_);
    for (std::size_t i = 0; i != num_objects_to_free_; ++i)
        // The EP of a CR, the second object, may be freed by dat_ep_free during dat_cr_reject.
        if (!caller_.table.end_free(*objects_to_free_.at(i), succeeded_) && i == 0)
            fail(std::string(rule_.name) +
                 " has freed an object twice: " + hex(objects_to_free_.at(i)->handle));
    return result;
}

} // namespace sequencer

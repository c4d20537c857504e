// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// IAs, and the functions that take handles of any type.

#include "steps.hpp"

#include <cstdint>
#include <mutex>
#include <thread>

namespace sequencer {

namespace {

/// Waits until the steps that other threads do at this moment have ended: step numbers are odd
/// during a step.
void wait_for_other_steps(const worker &thread) {
    for (std::size_t i = 0; i != thread.shared.step_numbers.size(); ++i) {
        const auto &number = thread.shared.step_numbers.at(i);
        const std::uint64_t begin = number.load(std::memory_order_acquire);
        while (i != thread.index && begin % 2 == 1 &&
               number.load(std::memory_order_acquire) == begin)
            std::this_thread::yield();
    }
}

/// Opens a further IA. Its handle may be one of a closed IA, which no step must be using: see
/// ia_lock.
void open(worker &thread) {
    const std::unique_lock guard(thread.shared.ia_lock, std::try_to_lock);
    if (!guard)
        return;
    if (thread.shared.config.num_threads > 1)
        wait_for_other_steps(thread);
    object *const ia = open_ia(thread);
    if (ia != nullptr && !thread.insert_unless_full(*ia))
        close_ia(thread, {ia, ia->handle}, DAT_CLOSE_GRACEFUL_FLAG);
}

void close(worker &thread) {
    close_other_ia(thread, thread.draw(DAT_HANDLE_TYPE_IA));
}

void query_ia(worker &thread) {
    const object_ref ia = thread.draw_ia();
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    DAT_IA_ATTR ia_attr = {};
    DAT_PROVIDER_ATTR provider_attr = {};
    call query_call(thread, rules::ia_query);
    DAT_HANDLE const handle = query_call.use_handle(ia, "ia");
    query_call.check_result(dat_ia_query(handle, &async_evd, DAT_IA_FIELD_ALL, &ia_attr,
                                         DAT_PROVIDER_FIELD_ALL, &provider_attr));
    if (query_call.has_succeeded())
        expect(ia_attr.max_eps == thread.shared.ia_attr.max_eps,
               "dat_ia_query returned other attributes");
}

void list_providers(worker &thread) {
    DAT_PROVIDER_INFO infos[8] = {};
    DAT_PROVIDER_INFO *list[8] = {};
    for (std::size_t i = 0; i != std::size(list); ++i)
        list[i] = &infos[i];
    DAT_COUNT count = 0;
    call list_call(thread, rules::list_providers);
    list_call.check_result(dat_registry_list_providers(8, &count, list));
}

object_ref draw_of_any_type(worker &thread) {
    const auto type = static_cast<DAT_HANDLE_TYPE>(thread.random.number_below(num_types));
    return type == DAT_HANDLE_TYPE_IA ? thread.draw_ia() : thread.draw(type);
}
/// These functions take handles of any type, so a value that is none of the drawn type may be valid
/// for them.
bool may_be_handle_of_other_type(const object_ref &ref) {
    return ref.obj == nullptr && ref.handle != DAT_HANDLE_NULL;
}

void get_handle_type(worker &thread) {
    const object_ref ref = draw_of_any_type(thread);
    if (may_be_handle_of_other_type(ref))
        return;
    DAT_HANDLE_TYPE type{};
    call get_call(thread, rules::get_handle_type);
    get_call.check_result(dat_get_handle_type(get_call.use_handle(ref, "handle"), &type));
    if (get_call.has_succeeded())
        expect(type == ref.obj->type, "dat_get_handle_type returned another type");
}

/// The high half of an object's context is its serial number.
void set_context(worker &thread) {
    const object_ref ref = draw_of_any_type(thread);
    if (may_be_handle_of_other_type(ref))
        return;
    DAT_CONTEXT context;
    context.as_64 = ref.obj == nullptr ? 1 // any value: the call is refused
                                       : (std::uint64_t{ref.obj->serial} << 32) |
                                             (thread.random.next() & 0xffffffff);
    call set_call(thread, rules::set_consumer_context);
    DAT_HANDLE const handle = set_call.use_handle(ref, "handle");
    set_call.check_result(dat_set_consumer_context(handle, context));
    if (set_call.has_succeeded())
        ref.obj->context.store(context.as_64, std::memory_order_relaxed);
}

void get_context(worker &thread) {
    const object_ref ref = draw_of_any_type(thread);
    if (may_be_handle_of_other_type(ref))
        return;
    DAT_CONTEXT context = {};
    call get_call(thread, rules::get_consumer_context);
    get_call.check_result(dat_get_consumer_context(get_call.use_handle(ref, "handle"), &context));
    if (!get_call.has_succeeded())
        return;
    if (thread.shared.config.num_threads == 1)
        expect(context.as_64 == ref.obj->context.load(std::memory_order_relaxed),
               "the context is not the one set last");
    else
        expect(context.as_64 == 0 || context.as_64 >> 32 == ref.obj->serial,
               "the context is that of another object");
}

} // namespace

object *open_ia(worker &thread) {
    DAT_IA_HANDLE handle = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    call open_call(thread, rules::ia_open);
    open_call.creates(DAT_HANDLE_TYPE_IA);
    open_call.creates(DAT_HANDLE_TYPE_EVD);
    open_call.check_result(dat_ia_open(const_cast<char *>(thread.shared.config.ia_name.c_str()),
                                       open_call.arg("qlen", 64), &async_evd, &handle));
    if (!open_call.has_succeeded())
        return nullptr;
    object &ia = thread.add_object(DAT_HANDLE_TYPE_IA, handle, nullptr);
    object &evd = thread.add_object(DAT_HANDLE_TYPE_EVD, async_evd, &ia);
    evd.evd_flags = DAT_EVD_ASYNC_FLAG;
    evd.length = 64;
    evd.is_async_evd = true;
    thread.insert_unless_full(evd); // closing the IA frees it
    return &ia;
}

void close_ia(worker &thread, const object_ref &ia, DAT_CLOSE_FLAGS flags) {
    call close_call(thread, flags == DAT_CLOSE_GRACEFUL_FLAG ? rules::ia_close_graceful
                                                             : rules::ia_close_abrupt);
    DAT_HANDLE const handle = close_call.use_handle(ia, "ia");
    close_call.frees(ia.obj); // and with it its objects: see object::is_freed
    close_call.check_result(dat_ia_close(handle, flags));
    // At most so many objects of each type were freed with the IA.
    for (std::size_t type = 0; type != num_types; ++type)
        thread.table.count_free(static_cast<DAT_HANDLE_TYPE>(type), object_table::num_slots);
}

void close_other_ia(worker &thread, const object_ref &ia) {
    const std::shared_lock guard(thread.shared.ia_lock, std::try_to_lock);
    // The main IA has objects of its own, which make a graceful close fail.
    if (!guard || ia.obj == thread.shared.main_ia)
        return;
    close_ia(thread, ia,
             thread.random.percent_chance(50) ? DAT_CLOSE_GRACEFUL_FLAG : DAT_CLOSE_ABRUPT_FLAG);
}

std::span<const step> ia_steps() {
    static constexpr step steps[] = {{open, 3},
                                     {close, 3},
                                     {query_ia, 4},
                                     {list_providers, 1},
                                     {get_handle_type, 10},
                                     {set_context, 8},
                                     {get_context, 8}};
    return steps;
}

} // namespace sequencer

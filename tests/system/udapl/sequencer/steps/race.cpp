// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two threads free, reset or change one object at the same moment. Left to chance, that is rare.

#include "steps.hpp"

#include <chrono>
#include <initializer_list>

namespace sequencer {

/// What a thread offers in shared_state::offered_race. The thread that takes it copies function and
/// ref, then sets taken: after that the race may be gone.
struct race {
    void (*function)(worker &, const object_ref &) = nullptr; ///< that the taking thread calls
    object_ref ref = {};
    std::atomic<bool> taken = false;
};

namespace {

using race_function = void (*)(worker &, const object_ref &);

template <DAT_HANDLE_TYPE type>
void free_ref(worker &thread, const object_ref &ref) {
    free_object(thread, type, ref);
}

/// Each of the two threads calls one of these functions with the same object; nullptr stands for
/// the first.
struct race_kind {
    DAT_HANDLE_TYPE type;
    std::array<race_function, 3> functions;
};

constexpr race_kind kinds[] = {
    {DAT_HANDLE_TYPE_EP, {reset_ep, disconnect_ep, free_ref<DAT_HANDLE_TYPE_EP>}},
    {DAT_HANDLE_TYPE_EP, {reset_ep, reset_ep, query_receives}},
    {DAT_HANDLE_TYPE_SRQ, {resize_srq, resize_srq, free_ref<DAT_HANDLE_TYPE_SRQ>}},
    {DAT_HANDLE_TYPE_PSP, {free_ref<DAT_HANDLE_TYPE_PSP>}},
    {DAT_HANDLE_TYPE_RSP, {free_ref<DAT_HANDLE_TYPE_RSP>}},
    {DAT_HANDLE_TYPE_CSP, {free_ref<DAT_HANDLE_TYPE_CSP>}},
    {DAT_HANDLE_TYPE_CR, {free_ref<DAT_HANDLE_TYPE_CR>}},
    {DAT_HANDLE_TYPE_EVD, {free_ref<DAT_HANDLE_TYPE_EVD>}},
    {DAT_HANDLE_TYPE_CNO, {free_ref<DAT_HANDLE_TYPE_CNO>}},
    {DAT_HANDLE_TYPE_RMR, {free_ref<DAT_HANDLE_TYPE_RMR>}},
    {DAT_HANDLE_TYPE_PZ, {free_ref<DAT_HANDLE_TYPE_PZ>}},
    {DAT_HANDLE_TYPE_IA, {close_other_ia}},
};

race_function draw_function(worker &thread, const race_kind &kind) {
    race_function function = thread.random.choose(kind.functions);
    return function != nullptr ? function : kind.functions.front();
}

/// Offers a race to the other threads, and waits a moment until one takes it. False: none did. The
/// race is not used by another thread on return.
bool offer_and_wait(worker &thread, race &offered) {
    std::atomic<race *> &slot = thread.shared.offered_race;
    race *expected = nullptr;
    if (!slot.compare_exchange_strong(expected, &offered, std::memory_order_acq_rel))
        return false;
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
    while (!offered.taken.load(std::memory_order_acquire)) {
        expected = &offered;
        if (std::chrono::steady_clock::now() > end &&
            slot.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel))
            return false;
    }
    return true;
}

void start_race(worker &thread) {
    const race_kind &kind = thread.random.choose(kinds);
    const object_ref ref = thread.draw(kind.type);
    race offered;
    offered.function = draw_function(thread, kind);
    offered.ref = ref;
    offer_and_wait(thread, offered); // without another thread, the function is called all the same
    draw_function(thread, kind)(thread, ref);
}

} // namespace

bool join_race(worker &thread) {
    std::atomic<race *> &slot = thread.shared.offered_race;
    if (slot.load(std::memory_order_relaxed) == nullptr)
        return false;
    race *const offered = slot.exchange(nullptr, std::memory_order_acq_rel);
    if (offered == nullptr)
        return false;
    const race_function function = offered->function;
    const object_ref ref = offered->ref;
    offered->taken.store(true, std::memory_order_release);
    function(thread, ref);
    return true;
}

std::span<const step> race_steps() {
    static constexpr step steps[] = {{start_race, 15}};
    return steps;
}

} // namespace sequencer

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two threads free, reset or change one object at the same moment. Left to chance, that is rare.

#include "steps.hpp"

#include <chrono>
#include <initializer_list>

namespace sequencer {

/// Offered by a thread, and taken by another one, which copies it and sets taken.
struct duel {
    void (*function)(worker &, const drawn &) = nullptr; ///< of the thread that takes it
    drawn ref = {};
    std::atomic<bool> taken = false;
};

namespace {

using duel_function = void (*)(worker &, const drawn &);

template <DAT_HANDLE_TYPE type>
void free_ref(worker &thread, const drawn &ref) {
    free_object(thread, type, ref);
}

struct duel_kind {
    DAT_HANDLE_TYPE type;
    std::array<duel_function, 3> functions;
};

constexpr duel_kind kinds[] = {
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

duel_function draw_function(worker &thread, const duel_kind &kind) {
    duel_function function = thread.random.choose(kind.functions);
    return function != nullptr ? function : kind.functions.front();
}

/// Waits a moment for another thread. False: none has taken the duel.
bool offer(worker &thread, duel &offered) {
    std::atomic<duel *> &slot = thread.shared.offered_duel;
    duel *expected = nullptr;
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

void start_duel(worker &thread) {
    const duel_kind &kind = thread.random.choose(kinds);
    const drawn ref = thread.draw(kind.type);
    duel offered;
    offered.function = draw_function(thread, kind);
    offered.ref = ref;
    offer(thread, offered);
    draw_function(thread, kind)(thread, ref);
}

} // namespace

bool join_duel(worker &thread) {
    std::atomic<duel *> &slot = thread.shared.offered_duel;
    if (slot.load(std::memory_order_relaxed) == nullptr)
        return false;
    duel *const offered = slot.exchange(nullptr, std::memory_order_acq_rel);
    if (offered == nullptr)
        return false;
    const duel_function function = offered->function;
    const drawn ref = offered->ref;
    offered->taken.store(true, std::memory_order_release);
    function(thread, ref);
    return true;
}

std::span<const step> duel_steps() {
    static constexpr step steps[] = {{start_duel, 15}};
    return steps;
}

} // namespace sequencer

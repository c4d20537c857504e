// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The counters of IAs, EPs and EVDs. Without COHERDMA_COUNTERS=1 there are none.

#include "steps.hpp"

#include <dat2/dat_ib_extensions.h>

namespace sequencer {

namespace {

struct counted_type {
    DAT_HANDLE_TYPE type;
    int num_counters;
};

void query(worker &thread) {
    static constexpr counted_type types[] = {{DAT_HANDLE_TYPE_IA, DCNT_IA_ALL_COUNTERS},
                                             {DAT_HANDLE_TYPE_EP, DCNT_EP_ALL_COUNTERS},
                                             {DAT_HANDLE_TYPE_EVD, DCNT_EVD_ALL_COUNTERS}};
    const auto &[type, num_counters] = thread.random.choose(types);
    const object_ref ref = type == DAT_HANDLE_TYPE_IA ? thread.draw_ia() : thread.draw(type);
    if (ref.obj == nullptr)
        return;                              // perhaps a handle of another type that has counters
    DAT_UINT64 values[DCNT_IA_ALL_COUNTERS]; // the most of any type
    const bool all = thread.random.percent_chance(50);
    const int counter =
        all ? num_counters
            : static_cast<int>(thread.random.number_below(static_cast<std::size_t>(num_counters)));
    call query_call(thread, rules::query_counters);
    DAT_HANDLE const handle = query_call.use_handle(ref, "handle");
    query_call.check_result(dat_ib_query_counters(handle, query_call.arg("counter", counter),
                                                  values,
                                                  thread.random.percent_chance(20) ? 1 : 0));
}

void start_or_stop(worker &thread) {
    static constexpr DAT_IA_COUNTER_TYPE types[] = {DCNT_IA_CM, DCNT_IA_LNK, DCNT_IA_DIAG};
    const object_ref ia = thread.draw_ia();
    const DAT_IA_COUNTER_TYPE type = thread.random.choose(types);
    const bool start = thread.random.percent_chance(50);
    call counter_call(thread, start ? rules::start_counter : rules::stop_counter);
    DAT_HANDLE const handle = counter_call.use_handle(ia, "ia");
    counter_call.check_result(start ? dat_ib_start_counter(handle, type)
                                    : dat_ib_stop_counter(handle, type));
}

} // namespace

std::span<const step> counter_steps() {
    static constexpr step steps[] = {{query, 5}, {start_or_stop, 2}};
    return steps;
}

} // namespace sequencer

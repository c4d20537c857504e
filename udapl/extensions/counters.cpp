// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "counters.hpp"

#include "dapl/ep/ep.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/ia/ia.hpp"

#include <cinttypes>
#include <cstdio>
#include <unistd.h>

namespace coherdma::dapl::extensions {

namespace {

/// An object with counters.
struct counted_object {
    object *obj;
    DAT_HANDLE_TYPE handle_type;
    unsigned num_counters; ///< also the index that selects every counter
};

/// The DAT_IA_COUNTER_TYPE of an IA's counter from DCNT_IA_CM_LISTEN on.
constexpr unsigned counter_type(unsigned counter) {
    return counter >= first_diag_counter   ? DCNT_IA_DIAG
           : counter >= first_port_counter ? DCNT_IA_LNK
                                           : DCNT_IA_CM;
}
constexpr bool is_port_counter(const counted_object &target, unsigned counter) {
    return target.handle_type == DAT_HANDLE_TYPE_IA && counter >= first_port_counter;
}

/// A port counter, which sysfs has, counts from its last reset; while stopped it keeps its value.
DAT_UINT64 read_counter(const counted_object &target, unsigned counter, bool reset) noexcept {
    counter_set &set = *target.obj->counters;
    auto &value = set.values[counter];
    if (is_port_counter(target, counter) && !set.stopped[counter_type(counter)].load()) {
        const DAT_UINT64 port_value = read_port_counter(*target.obj->ia->dev, counter);
        value.store(port_value - set.port_base[counter].load());
        if (reset)
            set.port_base[counter].store(port_value);
    }
    return reset ? value.exchange(0) : value.load();
}

/// Calls fn for the counter of this index, or for every counter if it is num_counters.
template <class function>
void for_each_selected(const counted_object &target, int index, function &&fn) noexcept {
    const auto selected = static_cast<unsigned>(index);
    for (unsigned counter = 0; counter != target.num_counters; ++counter)
        if (selected == counter || selected == target.num_counters)
            fn(counter);
}

/// DAT_IB_PRINT_COUNTERS_OP: prints the counters that are not 0. index: of one counter, or all.
void print_counters(const counted_object &target, int index, bool reset) noexcept {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    for_each_selected(target, index, [&](unsigned counter) {
        if (const DAT_UINT64 value = read_counter(target, counter, reset))
            std::printf(" %s:%ld: %s = %" PRIu64 "\n", host, static_cast<long>(getpid()),
                        counter_name(target.handle_type, counter), value);
    });
}

/// Starts sampling (and resets the counters) or stops it for one DAT_IA_COUNTER_TYPE.
DAT_RETURN set_sampling(const counted_object &target, unsigned type, bool start) noexcept {
    if (target.handle_type != DAT_HANDLE_TYPE_IA)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (type > DCNT_IA_DIAG)
        return invalid_parameter(2);
    counter_set &set = *target.obj->counters;
    if (start)
        set.stopped[type].store(false);
    // DCNT_IA_CM_LISTEN is the first counter that has a type.
    for (unsigned counter = DCNT_IA_CM_LISTEN; counter != target.num_counters; ++counter)
        if (counter_type(counter) == type)
            (void)read_counter(target, counter, start);
    if (!start)
        set.stopped[type].store(true);
    return DAT_SUCCESS;
}

/// Starts, stops, prints or queries counters; args are those of dat_extension_op after the handle.
DAT_RETURN apply_counters_op(const counted_object &target, DAT_EXTENDED_OP operation,
                             std::va_list args) noexcept {
    if (target.obj->counters == nullptr)
        return dat_error(DAT_NOT_IMPLEMENTED);
    const int index = va_arg(args, int); // a counter, all of them, or a DAT_IA_COUNTER_TYPE
    if (operation == DAT_IB_START_COUNTERS_OP || operation == DAT_IB_STOP_COUNTERS_OP)
        return set_sampling(target, static_cast<unsigned>(index),
                            operation == DAT_IB_START_COUNTERS_OP);
    if (index < 0 || static_cast<unsigned>(index) > target.num_counters)
        return invalid_parameter(2);
    if (operation == DAT_IB_PRINT_COUNTERS_OP) {
        print_counters(target, index, va_arg(args, int) != 0);
        return DAT_SUCCESS;
    }
    auto *values = va_arg(args, DAT_UINT64 *);
    if (values == nullptr)
        return invalid_parameter(3);
    const bool reset = va_arg(args, int) != 0;
    for_each_selected(target, index,
                      [&](unsigned counter) { *values++ = read_counter(target, counter, reset); });
    return DAT_SUCCESS;
}

} // namespace

/// The extension operations on the counters of an IA, EP or EVD. args: those after the operation.
DAT_RETURN counters_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, std::va_list args) noexcept {
    if (const auto ia = lookup<dapl_ia>(handle))
        return apply_counters_op({ia.get(), DAT_HANDLE_TYPE_IA, DCNT_IA_ALL_COUNTERS}, operation,
                                 args);
    if (const auto ep = lookup<dapl_ep>(handle))
        return apply_counters_op({ep.get(), DAT_HANDLE_TYPE_EP, DCNT_EP_ALL_COUNTERS}, operation,
                                 args);
    if (const auto evd = lookup<dapl_evd>(handle))
        return apply_counters_op({evd.get(), DAT_HANDLE_TYPE_EVD, DCNT_EVD_ALL_COUNTERS}, operation,
                                 args);
    return invalid_handle(DAT_INVALID_HANDLE1);
}

} // namespace coherdma::dapl::extensions

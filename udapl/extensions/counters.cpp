// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "counters.hpp"

#include "dapl/ep.hpp"
#include "dapl/evd.hpp"
#include "dapl/ia.hpp"

#include <cinttypes>
#include <cstdio>
#include <unistd.h>

namespace coherdma::dapl::extensions {

namespace {

/// An object that has counters, and how many.
struct counted {
    object *what;
    DAT_HANDLE_TYPE kind;
    unsigned count;
};

counted find(DAT_HANDLE handle) noexcept {
    if (ia *const one = as<ia>(handle))
        return {one, DAT_HANDLE_TYPE_IA, DCNT_IA_ALL_COUNTERS};
    if (ep *const one = as<ep>(handle))
        return {one, DAT_HANDLE_TYPE_EP, DCNT_EP_ALL_COUNTERS};
    if (evd *const one = as<evd>(handle))
        return {one, DAT_HANDLE_TYPE_EVD, DCNT_EVD_ALL_COUNTERS};
    return {nullptr, DAT_HANDLE_TYPE_IA, 0};
}

constexpr unsigned type_of(unsigned which) {
    return which >= first_of_diagnostics ? DCNT_IA_DIAG
           : which >= first_of_link      ? DCNT_IA_LNK
                                         : DCNT_IA_CM;
}
constexpr bool is_of_port(const counted &one, unsigned which) {
    return one.kind == DAT_HANDLE_TYPE_IA && which >= first_of_link;
}

DAT_UINT64 read(const counted &one, unsigned which, bool reset) noexcept {
    counters &all = *one.what->counted;
    auto &value = all.values.at(which);
    if (is_of_port(one, which) && !all.stopped.at(type_of(which)).load()) {
        const DAT_UINT64 now = counter_of_port(*one.what->home->on, which);
        value.store(now - all.begun.at(which).load());
        if (reset)
            all.begun.at(which).store(now);
    }
    return reset ? value.exchange(0) : value.load();
}

template <class what>
void for_each(const counted &one, int which, what &&act) noexcept {
    const auto chosen = static_cast<unsigned>(which);
    for (unsigned each = 0; each != one.count; ++each)
        if (chosen == each || chosen == one.count)
            act(each);
}

void print(const counted &one, int which, bool reset) noexcept {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    for_each(one, which, [&](unsigned each) {
        if (const DAT_UINT64 value = read(one, each, reset))
            std::printf(" %s:%ld: %s = %" PRIu64 "\n", host, static_cast<long>(getpid()),
                        name_of(one.kind, each), value);
    });
}

// Those of a type that is not sampled stay as they are.
DAT_RETURN sample(const counted &one, unsigned type, bool begin) noexcept {
    if (one.kind != DAT_HANDLE_TYPE_IA)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (type > DCNT_IA_DIAG)
        return wrong_argument(3);
    counters &all = *one.what->counted;
    if (begin)
        all.stopped.at(type).store(false);
    for (unsigned each = DCNT_IA_CM_LISTEN; each != one.count; ++each)
        if (type_of(each) == type)
            (void)read(one, each, begin);
    if (!begin)
        all.stopped.at(type).store(true);
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN operate_counters(DAT_HANDLE handle, DAT_EXTENDED_OP operation,
                            std::va_list arguments) noexcept {
    const counted one = find(handle);
    if (one.what == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE1);
    if (one.what->counted == nullptr)
        return failed(DAT_NOT_IMPLEMENTED);
    const int which = va_arg(arguments, int);
    if (operation == DAT_IB_START_COUNTERS_OP || operation == DAT_IB_STOP_COUNTERS_OP)
        return sample(one, static_cast<unsigned>(which), operation == DAT_IB_START_COUNTERS_OP);
    if (which < 0 || static_cast<unsigned>(which) > one.count)
        return wrong_argument(3);
    if (operation == DAT_IB_PRINT_COUNTERS_OP) {
        print(one, which, va_arg(arguments, int) != 0);
        return DAT_SUCCESS;
    }
    auto *out = va_arg(arguments, DAT_UINT64 *);
    if (out == nullptr)
        return wrong_argument(4);
    const bool reset = va_arg(arguments, int) != 0;
    for_each(one, which, [&](unsigned each) { *out++ = read(one, each, reset); });
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl::extensions

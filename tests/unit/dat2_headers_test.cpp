// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What of the headers of uDAPL only a running program shows. The sizes, offsets, values and types
// are compared while dat2/abi.h is compiled.

#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#ifdef COHERDMA_DAT1
#    include <dat/dat_registry.h>
#else
#    include <dat2/dat_ib_extensions.h>
#    include <dat2/dat_registry.h>
#endif

extern "C" {
#include <cmocka.h>
}

namespace {

void pointers(void **) {
    std::size_t compared = 0;
    const auto is = [&compared](DAT_HANDLE handle, std::uintptr_t value, const char *name) {
        if (reinterpret_cast<std::uintptr_t>(handle) != value)
            fail_msg("%s is not %zu", name, static_cast<std::size_t>(value));
        ++compared;
    };
#define POINTER(name, value) is(name, value, #name);
#define NUMBER(name, value)
#define MASK(name, value)
#define TEXT(name, text)
#define SYMBOL(name, text)
#define ENUMERATOR(name, type)
#define CHOSEN(name, ofed, solaris)
#include "constants.inc"
    assert_int_equal(compared, 3);
    DAT_IA_HANDLE handle = DAT_UL_TO_IA_HANDLE(7UL);
    assert_int_equal(DAT_IA_HANDLE_TO_UL(handle), 7);
    const DAT_OS_WAIT_PROXY_AGENT none = DAT_OS_WAIT_PROXY_AGENT_NULL;
    assert_null(none.instance_data);
    assert_true(none.proxy_agent_func == nullptr);
}

void errors(void **) {
    const DAT_RETURN error = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP);
    assert_int_equal(error, 0x8005000cU);
    assert_int_equal(DAT_GET_TYPE(error), DAT_INVALID_HANDLE);
    assert_int_equal(DAT_GET_SUBTYPE(error), DAT_INVALID_HANDLE_EP);
    assert_false(DAT_IS_WARNING(error));
    assert_true(DAT_IS_WARNING(DAT_CLASS_WARNING | DAT_QUEUE_FULL));
}

void older_names(void **) {
    DAT_IA_ATTR ia = {};
    ia.max_message_size = 5;
    ia.max_rdma_read_per_ep_in = 6;
    assert_int_equal(ia.max_mtu_size, 5);
    assert_int_equal(ia.max_rdma_read_per_ep, 6);
    DAT_EP_ATTR ep = {};
    ep.max_mtu_size = 7;
    assert_int_equal(ep.max_message_size, 7);
    assert_int_equal(DAT_IA_FIELD_IA_MAX_DTO_PER_OP, DAT_IA_FIELD_IA_MAX_DTO_PER_EP);
    // They are members' names only: programs may have them for other things.
    const int max_mtu_size = 1, max_message_size = 2, max_rdma_read_per_ep = 3;
    assert_int_equal(max_mtu_size + max_message_size + max_rdma_read_per_ep, 6);
}

// Each pointer of a table leads to a function that returns the pointer's place.
template <std::size_t Place, typename... Arguments>
DAT_RETURN place(Arguments...) {
    return Place;
}
template <typename Type>
Type value() {
    return Type{};
}

DAT_PROVIDER table() {
    DAT_PROVIDER all = {};
#define FUNCTION(...)
#define ENTRY(member, ...) all.member = place<offsetof(DAT_PROVIDER, member)>;
#include "functions.inc"
    return all;
}

#ifndef COHERDMA_DAT1
DAT_RETURN extended(DAT_HANDLE handle, const DAT_PROVIDER *all, ...) {
    assert_true(DAT_HANDLE_TO_PROVIDER(handle) == all);
    va_list arguments;
    va_start(arguments, all);
    const DAT_RETURN found = DAT_HANDLE_EXTENDEDOP(handle, 5, arguments);
    va_end(arguments);
    return found;
}
#endif

void calls_of_providers(void **) {
    DAT_PROVIDER all = table();
    struct {
        DAT_PROVIDER *provider;
    } object = {&all};
    DAT_HANDLE handle = &object;
    std::size_t tried = 0;
    const auto leads = [&tried](DAT_RETURN found, std::size_t wanted, const char *name) {
        if (found != wanted)
            fail_msg("the macro for %s leads to the function at %u", name, found);
        ++tried;
    };
#define CALL(member, ...) leads(__VA_ARGS__, offsetof(DAT_PROVIDER, member), #member);
#include "calls.inc"
    // The registry alone opens and closes.
#ifdef COHERDMA_DAT1
    assert_int_equal(tried, 66);
#else
    leads(extended(handle, &all), offsetof(DAT_PROVIDER, handle_extendedop_func), "extensions");
    assert_int_equal(tried, 77);
#endif
}

} // namespace

int main() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers),
        cmocka_unit_test(errors),
        cmocka_unit_test(older_names),
        cmocka_unit_test(calls_of_providers),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

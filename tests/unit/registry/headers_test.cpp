// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The parts of the uDAPL headers that only a running program can check. headers/abi.h checks sizes,
// offsets, values and types at compile time.

#include "../cmocka.hpp"

#include <cstdint>
#ifdef COHERDMA_DAT1
#    include <dat/dat_registry.h>
#else
#    include <dat2/dat_ib_extensions.h>
#    include <dat2/dat_registry.h>
#endif

namespace {

void pointer_constants_have_their_values(void **) {
    std::size_t num_values = 0;
    const auto assert_value = [&num_values](DAT_HANDLE handle, std::uintptr_t value,
                                            const char *name) {
        if (reinterpret_cast<std::uintptr_t>(handle) != value)
            fail_msg("%s is not %zu", name, static_cast<std::size_t>(value));
        ++num_values;
    };
#define POINTER(name, value) assert_value(name, value, #name);
#define NUMBER(name, value)
#define MASK(name, value)
#define TEXT(name, text)
#define SYMBOL(name, text)
#define ENUMERATOR(name, type)
#define CHOSEN(name, ofed, solaris)
#include "constants.inc"
    assert_int_equal(num_values, 3);
    DAT_IA_HANDLE handle = DAT_UL_TO_IA_HANDLE(7UL);
    assert_int_equal(DAT_IA_HANDLE_TO_UL(handle), 7);
    const DAT_OS_WAIT_PROXY_AGENT none = DAT_OS_WAIT_PROXY_AGENT_NULL;
    assert_null(none.instance_data);
    assert_true(none.proxy_agent_func == nullptr);
}

void privilege_flags_have_their_values(void **) {
    assert_int_equal(DAT_MEM_PRIV_NONE_FLAG, 0);
    assert_int_equal(DAT_MEM_PRIV_LOCAL_READ_FLAG, 0x01);
    assert_int_equal(DAT_MEM_PRIV_LOCAL_WRITE_FLAG, 0x10);
    assert_int_equal(DAT_MEM_PRIV_REMOTE_READ_FLAG, 0x02);
    assert_int_equal(DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 0x20);
    assert_int_equal(DAT_MEM_PRIV_ALL_FLAG, 0x33);
}

void error_macros_split_type_and_subtype(void **) {
    const DAT_RETURN error = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP);
    assert_int_equal(error, 0x8005000cU);
    assert_int_equal(DAT_GET_TYPE(error), DAT_INVALID_HANDLE);
    assert_int_equal(DAT_GET_SUBTYPE(error), DAT_INVALID_HANDLE_EP);
    assert_false(DAT_IS_WARNING(error));
    assert_true(DAT_IS_WARNING(DAT_CLASS_WARNING | DAT_QUEUE_FULL));
}

void old_member_names_are_aliases(void **) {
    DAT_IA_ATTR ia = {};
    ia.max_message_size = 5;
    ia.max_rdma_read_per_ep_in = 6;
    assert_int_equal(ia.max_mtu_size, 5);
    assert_int_equal(ia.max_rdma_read_per_ep, 6);
    DAT_EP_ATTR ep = {};
    ep.max_mtu_size = 7;
    assert_int_equal(ep.max_message_size, 7);
    assert_int_equal(DAT_IA_FIELD_IA_MAX_DTO_PER_OP, DAT_IA_FIELD_IA_MAX_DTO_PER_EP);
    // The macros rename members only: programs may use the names for variables.
    const int max_mtu_size = 1, max_message_size = 2, max_rdma_read_per_ep = 3;
    assert_int_equal(max_mtu_size + max_message_size + max_rdma_read_per_ep, 6);
}

// A table whose functions return their offset.
template <std::size_t Offset, typename... Arguments>
DAT_RETURN return_offset(Arguments...) {
    return Offset;
}
/// The arguments in calls.inc.
template <typename Type>
Type value() {
    return Type{};
}

DAT_PROVIDER make_table() {
    DAT_PROVIDER table = {};
#define FUNCTION(...)
#define ENTRY(member, ...) table.member = return_offset<offsetof(DAT_PROVIDER, member)>;
#include "functions.inc"
    return table;
}

#ifndef COHERDMA_DAT1
DAT_RETURN call_extended(DAT_HANDLE handle, const DAT_PROVIDER *table, ...) {
    assert_true(DAT_HANDLE_TO_PROVIDER(handle) == table);
    va_list arguments;
    va_start(arguments, table);
    const DAT_RETURN status = DAT_HANDLE_EXTENDEDOP(handle, 5, arguments);
    va_end(arguments);
    return status;
}
#endif

void provider_macros_call_their_function(void **) {
    DAT_PROVIDER table = make_table();
    struct {
        DAT_PROVIDER *provider;
    } object = {&table};
    DAT_HANDLE handle = &object;
    std::size_t num_macros = 0;
    const auto assert_calls = [&num_macros](DAT_RETURN called_offset, std::size_t offset,
                                            const char *name) {
        if (called_offset != offset)
            fail_msg("the macro for %s calls the function at offset %u", name, called_offset);
        ++num_macros;
    };
#define CALL(member, ...) assert_calls(__VA_ARGS__, offsetof(DAT_PROVIDER, member), #member);
#include "calls.inc"
    // ia_open and ia_close are called by the registry only.
#ifdef COHERDMA_DAT1
    assert_int_equal(num_macros, 66);
#else
    assert_calls(call_extended(handle, &table), offsetof(DAT_PROVIDER, handle_extendedop_func),
                 "extensions");
    assert_int_equal(num_macros, 77);
#endif
}

} // namespace

int main() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointer_constants_have_their_values),
        cmocka_unit_test(privilege_flags_have_their_values),
        cmocka_unit_test(error_macros_split_type_and_subtype),
        cmocka_unit_test(old_member_names_are_aliases),
        cmocka_unit_test(provider_macros_call_their_function),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

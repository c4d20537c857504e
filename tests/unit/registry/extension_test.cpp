// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_extension_op: operations forwarded to the provider, and the two that open and close a query
// of a provider by name, DAT_IB_OPEN_QUERY_OP and DAT_IB_CLOSE_QUERY_OP.

#include "registry.hpp"

using namespace registry_test;

namespace {

/// Neither opens nor closes a query. The stub adds the second argument to the first.
constexpr auto ADD_OP = static_cast<DAT_EXTENDED_OP>(3);
constexpr auto OPEN_QUERY_OP = static_cast<DAT_EXTENDED_OP>(DAT_OPEN_EXTENSION_BASE);
constexpr auto CLOSE_QUERY_OP = static_cast<DAT_EXTENDED_OP>(DAT_CLOSE_EXTENSION_BASE);
constexpr DAT_RETURN NOT_IMPLEMENTED = DAT_MAKE_ERROR(DAT_NOT_IMPLEMENTED, DAT_NO_SUBTYPE);
constexpr DAT_RETURN INVALID_HANDLE = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);

stub::state *state;

DAT_RETURN open_query(const char *name, DAT_IA_HANDLE &ia) {
    return dat_extension_op(DAT_HANDLE_NULL, OPEN_QUERY_OP, name, &ia);
}

void assert_forwarded(DAT_HANDLE handle) {
    int sum = 40;
    assert_int_equal(dat_extension_op(handle, ADD_OP, &sum, 2), DAT_SUCCESS);
    assert_int_equal(sum, 42);
}

/// dat_extension_op is enabled by the first open of an IA whose provider has extensions.
void extension_op_needs_ia_with_extensions(void **) {
    DAT_IA_HANDLE query = DAT_HANDLE_NULL;
    int sum = 0;
    const DAT_IA_HANDLE ia = open_ia_ok("plain");
    assert_int_equal(dat_extension_op(ia, ADD_OP, &sum, 1), NOT_IMPLEMENTED);
    assert_int_equal(dat_extension_op(convert_handle(ia), ADD_OP, &sum, 1), NOT_IMPLEMENTED);
    assert_int_equal(dat_extension_op(ia, OPEN_QUERY_OP, "plain", &query), NOT_IMPLEMENTED);
    assert_int_equal(dat_extension_op(DAT_HANDLE_NULL, ADD_OP, &sum, 1), INVALID_HANDLE);
    assert_int_equal(open_query("unknown", query), NOT_REGISTERED);
    assert_int_equal(dat_extension_op(ia, ADD_OP, &sum, 1), NOT_IMPLEMENTED);
    assert_int_equal(sum, 0);
    const DAT_IA_HANDLE extended_ia = open_ia_ok("extended");
    assert_forwarded(extended_ia);
    assert_forwarded(ia); // enabled for all IAs once an IA has extensions
    close_ia_ok(extended_ia);
    close_ia_ok(ia);
}

void extension_op_accepts_ia_and_object(void **) {
    const DAT_IA_HANDLE ia = open_ia_ok("extended");
    stub::object object;
    object.provider = state->find_table("extended");
    for (const DAT_HANDLE handle : {ia, convert_handle(ia), static_cast<DAT_HANDLE>(&object)})
        assert_forwarded(handle);
    unsigned long garbage[8] = {};
    for (const std::uintptr_t address :
         {std::uintptr_t{0}, std::uintptr_t{99}, std::uintptr_t{4095}, std::uintptr_t{4096},
          ~std::uintptr_t{7}, reinterpret_cast<std::uintptr_t>(&object) + 1,
          reinterpret_cast<std::uintptr_t>(garbage)}) {
        int sum = 0;
        assert_int_equal(dat_extension_op(reinterpret_cast<DAT_HANDLE>(address), ADD_OP, &sum, 1),
                         INVALID_HANDLE);
        assert_int_equal(dat_extension_op(reinterpret_cast<DAT_HANDLE>(address), CLOSE_QUERY_OP),
                         INVALID_IA);
        assert_int_equal(sum, 0);
    }
    close_ia_ok(ia);
}

/// A query opens an IA for its attributes only: one load of the provider serves several.
void open_query_shares_provider(void **) {
    const int inits = state->inits, finis = state->finis, extensions = state->extensions;
    DAT_IA_HANDLE query = DAT_HANDLE_NULL, second_query = DAT_HANDLE_NULL;
    assert_int_equal(open_query("plain", query), DAT_SUCCESS);
    assert_int_equal(open_query("plain", second_query), DAT_SUCCESS);
    assert_int_equal(state->inits - inits, 1);
    assert_forwarded(query);
    // A query handle is not an IA handle.
    DAT_IA_HANDLE converted = DAT_HANDLE_NULL;
    assert_int_equal(dats_get_ia_handle(query, &converted), INVALID_IA);
    assert_int_equal(dat_ia_query(query, nullptr, 0, nullptr, 0, nullptr), INVALID_IA);
    assert_int_equal(dat_ia_close(query, DAT_CLOSE_ABRUPT_FLAG), INVALID_IA);
    assert_int_equal(dat_extension_op(query, CLOSE_QUERY_OP), DAT_SUCCESS);
    assert_int_equal(state->finis - finis, 0);
    assert_int_equal(dat_extension_op(second_query, CLOSE_QUERY_OP), DAT_SUCCESS);
    assert_int_equal(state->finis - finis, 1);
    assert_int_equal(state->extensions - extensions, 5);
}

void close_query_rejects_open_ia(void **) {
    const DAT_IA_HANDLE ia = open_ia_ok("extended");
    assert_int_equal(dat_extension_op(ia, CLOSE_QUERY_OP), INVALID_IA);
    assert_int_equal(dat_extension_op(convert_handle(ia), CLOSE_QUERY_OP), INVALID_IA);
    assert_forwarded(ia);
    close_ia_ok(ia);
}

void failed_query_releases_provider(void **) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    const int inits = state->inits;
    assert_int_equal(open_query(nullptr, ia),
                     DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
    assert_int_equal(open_query(std::string(256, 'x').c_str(), ia),
                     DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1));
    assert_int_equal(open_query("safe", ia), // a query is not thread-safe
                     DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND));
    assert_int_equal(state->inits - inits, 0);
    const DAT_RETURN failure = DAT_MAKE_ERROR(DAT_ABORT, DAT_NO_SUBTYPE);
    state->extension_status = failure;
    assert_int_equal(open_query("plain", ia), failure);
    assert_int_equal(state->inits, state->finis); // the provider is released
    state->extension_status = DAT_SUCCESS;
    assert_int_equal(open_query("plain", ia), DAT_SUCCESS);
    state->extension_status = failure;
    assert_int_equal(dat_extension_op(ia, CLOSE_QUERY_OP), failure);
    state->extension_status = DAT_SUCCESS;
    assert_forwarded(ia);
    assert_int_equal(dat_extension_op(ia, CLOSE_QUERY_OP), DAT_SUCCESS);
    assert_int_equal(state->inits, state->finis);
}

void provider_without_extension_op_gives_model_not_supported(void **) {
    const DAT_RETURN not_supported = DAT_MAKE_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
    DAT_IA_HANDLE query = DAT_HANDLE_NULL;
    const DAT_IA_HANDLE ia = open_ia_ok("without");
    assert_int_equal(dat_extension_op(ia, ADD_OP), not_supported);
    assert_int_equal(open_query("without", query), not_supported);
    close_ia_ok(ia);
    assert_int_equal(state->inits, state->finis);
}

int setup(void **) {
    use_conf(conf_line("plain", "") + conf_line("extended", "extensions") +
             conf_line("without", "noext") +
             conf_line("safe", "", COHERDMA_TEST_STUB, "threadsafe"));
    state = &load_stub();
    return 0;
}

} // namespace

int main() {
    setenv("COHERDMA_DAT_LIVE", "0", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(extension_op_needs_ia_with_extensions),
        cmocka_unit_test(extension_op_accepts_ia_and_object),
        cmocka_unit_test(open_query_shares_provider),
        cmocka_unit_test(close_query_rejects_open_ia),
        cmocka_unit_test(failed_query_releases_provider),
        cmocka_unit_test(provider_without_extension_op_gives_model_not_supported),
    };
    return cmocka_run_group_tests(tests, setup, nullptr);
}

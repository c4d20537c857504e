// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_extension_op: what goes to an object's provider, and the two operations that open and close a
// provider by its name. Their numbers are those of DAT_IB_OPEN_QUERY_OP and DAT_IB_CLOSE_QUERY_OP.

#include "registry.hpp"

using namespace registry_test;

namespace {

constexpr auto ANY = static_cast<DAT_EXTENDED_OP>(3);
constexpr auto OPEN = static_cast<DAT_EXTENDED_OP>(DAT_OPEN_EXTENSION_BASE);
constexpr auto CLOSE = static_cast<DAT_EXTENDED_OP>(DAT_CLOSE_EXTENSION_BASE);
constexpr DAT_RETURN NOT_IMPLEMENTED = DAT_MAKE_ERROR(DAT_NOT_IMPLEMENTED, DAT_NO_SUBTYPE);
constexpr DAT_RETURN NO_HANDLE = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);

stub::state *state;

DAT_RETURN open_query(const char *name, DAT_IA_HANDLE &ia) {
    return dat_extension_op(DAT_HANDLE_NULL, OPEN, name, &ia);
}

/// The stub adds its second argument to where its first leads.
void is_passed_on(DAT_HANDLE handle) {
    int sum = 40;
    assert_int_equal(dat_extension_op(handle, ANY, &sum, 2), DAT_SUCCESS);
    assert_int_equal(sum, 42);
}

void not_before_somebody_has_extensions(void **) {
    DAT_IA_HANDLE query = DAT_HANDLE_NULL;
    int sum = 0;
    const DAT_IA_HANDLE ia = opened("plain");
    assert_int_equal(dat_extension_op(ia, ANY, &sum, 1), NOT_IMPLEMENTED);
    assert_int_equal(dat_extension_op(address_of(ia), ANY, &sum, 1), NOT_IMPLEMENTED);
    assert_int_equal(dat_extension_op(ia, OPEN, "plain", &query), NOT_IMPLEMENTED);
    assert_int_equal(dat_extension_op(DAT_HANDLE_NULL, ANY, &sum, 1), NO_HANDLE);
    assert_int_equal(open_query("nobody", query), NO_NAME);
    assert_int_equal(dat_extension_op(ia, ANY, &sum, 1), NOT_IMPLEMENTED);
    assert_int_equal(sum, 0);
    const DAT_IA_HANDLE other = opened("extended");
    is_passed_on(other);
    is_passed_on(ia); // the provider may know better than it said
    closed(other);
    closed(ia);
}

void objects_of_all_kinds(void **) {
    const DAT_IA_HANDLE ia = opened("extended");
    stub::object object;
    object.provider = state->provider("extended");
    for (const DAT_HANDLE each : {ia, address_of(ia), static_cast<DAT_HANDLE>(&object)})
        is_passed_on(each);
    unsigned long garbage[8] = {};
    for (const std::uintptr_t each :
         {std::uintptr_t{0}, std::uintptr_t{99}, std::uintptr_t{4095}, std::uintptr_t{4096},
          ~std::uintptr_t{7}, reinterpret_cast<std::uintptr_t>(&object) + 1,
          reinterpret_cast<std::uintptr_t>(garbage)}) {
        int sum = 0;
        assert_int_equal(dat_extension_op(reinterpret_cast<DAT_HANDLE>(each), ANY, &sum, 1),
                         NO_HANDLE);
        assert_int_equal(dat_extension_op(reinterpret_cast<DAT_HANDLE>(each), CLOSE), NO_IA);
        assert_int_equal(sum, 0);
    }
    closed(ia);
}

void a_query(void **) {
    const int inits = state->inits, finis = state->finis, asked = state->extensions;
    DAT_IA_HANDLE one = DAT_HANDLE_NULL, other = DAT_HANDLE_NULL;
    assert_int_equal(open_query("plain", one), DAT_SUCCESS);
    assert_int_equal(open_query("plain", other), DAT_SUCCESS);
    assert_int_equal(state->inits - inits, 1);
    is_passed_on(one);
    // It has no integer, and is not for other calls.
    DAT_IA_HANDLE number = DAT_HANDLE_NULL;
    assert_int_equal(dats_get_ia_handle(one, &number), NO_IA);
    assert_int_equal(dat_ia_query(one, nullptr, 0, nullptr, 0, nullptr), NO_IA);
    assert_int_equal(dat_ia_close(one, DAT_CLOSE_ABRUPT_FLAG), NO_IA);
    assert_int_equal(dat_extension_op(one, CLOSE), DAT_SUCCESS);
    assert_int_equal(state->finis - finis, 0);
    assert_int_equal(dat_extension_op(other, CLOSE), DAT_SUCCESS);
    assert_int_equal(state->finis - finis, 1);
    assert_int_equal(state->extensions - asked, 5);
}

void what_was_not_opened_so_is_not_closed_so(void **) {
    const DAT_IA_HANDLE ia = opened("extended");
    assert_int_equal(dat_extension_op(ia, CLOSE), NO_IA);
    assert_int_equal(dat_extension_op(address_of(ia), CLOSE), NO_IA);
    is_passed_on(ia);
    closed(ia);
}

void failures(void **) {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    const int inits = state->inits;
    assert_int_equal(open_query(nullptr, ia),
                     DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    assert_int_equal(open_query(std::string(256, 'x').c_str(), ia),
                     DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    assert_int_equal(open_query("safe", ia), // not for those who can do with less
                     DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND));
    assert_int_equal(state->inits - inits, 0);
    const DAT_RETURN failure = DAT_MAKE_ERROR(DAT_ABORT, DAT_NO_SUBTYPE);
    state->extension_status = failure;
    assert_int_equal(open_query("plain", ia), failure);
    assert_int_equal(state->inits, state->finis); // nothing is left open
    state->extension_status = DAT_SUCCESS;
    assert_int_equal(open_query("plain", ia), DAT_SUCCESS);
    state->extension_status = failure;
    assert_int_equal(dat_extension_op(ia, CLOSE), failure);
    state->extension_status = DAT_SUCCESS;
    is_passed_on(ia);
    assert_int_equal(dat_extension_op(ia, CLOSE), DAT_SUCCESS);
    assert_int_equal(state->inits, state->finis);
}

void a_provider_without_extensions(void **) {
    const DAT_RETURN unknown = DAT_MAKE_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
    DAT_IA_HANDLE query = DAT_HANDLE_NULL;
    const DAT_IA_HANDLE ia = opened("without");
    assert_int_equal(dat_extension_op(ia, ANY), unknown);
    assert_int_equal(open_query("without", query), unknown);
    closed(ia);
    assert_int_equal(state->inits, state->finis);
}

int set_up(void **) {
    use_conf(record("plain", "") + record("extended", "extensions") + record("without", "noext") +
             record("safe", "", COHERDMA_TEST_STUB, "threadsafe"));
    state = &stub_of();
    return 0;
}

} // namespace

int main() {
    setenv("COHERDMA_DAT_LIVE", "0", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(not_before_somebody_has_extensions),
        cmocka_unit_test(objects_of_all_kinds),
        cmocka_unit_test(a_query),
        cmocka_unit_test(what_was_not_opened_so_is_not_closed_so),
        cmocka_unit_test(failures),
        cmocka_unit_test(a_provider_without_extensions),
    };
    return cmocka_run_group_tests(tests, set_up, nullptr);
}

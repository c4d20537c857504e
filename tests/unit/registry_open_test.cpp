// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How IAs and providers come and go, and what the registry tells of them.

#include <algorithm>
#include <array>
#include <vector>

#include "registry.hpp"

using namespace registry_test;

namespace {

constexpr DAT_RETURN bad_argument(DAT_RETURN_SUBTYPE which) {
    return DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, which);
}

stub::state *state;

/// What the stub was asked for since this began.
struct since {
    int inits = state->inits, finis = state->finis, opens = state->opens, closes = state->closes;
    void are(int new_inits, int new_finis, int new_opens, int new_closes) const {
        assert_int_equal(state->inits - inits, new_inits);
        assert_int_equal(state->finis - finis, new_finis);
        assert_int_equal(state->opens - opens, new_opens);
        assert_int_equal(state->closes - closes, new_closes);
    }
};

bool is_loaded(const char *library) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    if (handle)
        dlclose(handle);
    return handle;
}

DAT_RETURN open_version(const char *name, DAT_UINT32 major, DAT_UINT32 minor,
                        DAT_BOOLEAN thread_safe) {
    std::string copy = name;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    const DAT_RETURN status = dat_ia_openv(copy.data(), 8, &evd, &ia, major, minor, thread_safe);
    if (status != DAT_SUCCESS)
        assert_null(ia);
    return status;
}

void names_that_cannot_be_opened(void **) {
    const since before;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    char good[] = "good";
    assert_int_equal(dat_ia_openv(nullptr, 8, &evd, &ia, MAJOR, MINOR, DAT_FALSE),
                     bad_argument(DAT_INVALID_ARG1));
    assert_int_equal(dat_ia_openv(good, 8, &evd, nullptr, MAJOR, MINOR, DAT_FALSE), NO_IA);
    assert_int_equal(open_ia(std::string(256, 'x').c_str(), ia), bad_argument(DAT_INVALID_ARG1));
    assert_int_equal(open_ia(std::string(255, 'x').c_str(), ia), NO_NAME);
    for (const char *each : {"", "Good", "goo", "good ", "missing", "silent", "empty"})
        assert_int_equal(open_ia(each, ia), NO_NAME);
    const auto not_found = [](DAT_RETURN_SUBTYPE what) {
        return DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, what);
    };
    assert_int_equal(open_version("good", MAJOR, MINOR, DAT_TRUE),
                     not_found(DAT_THREAD_SAFETY_NOT_FOUND));
    assert_int_equal(open_version("good", MAJOR, MINOR + 1, DAT_FALSE),
                     not_found(DAT_MINOR_NOT_FOUND));
    assert_int_equal(open_version("good", OTHER_MAJOR, OTHER_MINOR, DAT_FALSE),
                     not_found(DAT_MAJOR_NOT_FOUND));
    assert_int_equal(open_version("other version", MAJOR, MINOR, DAT_FALSE),
                     not_found(DAT_MAJOR_NOT_FOUND));
    // It is the other registry's, whatever is asked for.
    assert_int_equal(open_version("other version", OTHER_MAJOR, OTHER_MINOR, DAT_FALSE),
                     not_found(DAT_MAJOR_NOT_FOUND));
    assert_null(ia);
    before.are(1, 0, 0, 0); // the silent one was tried; OFED's would not survive to be told to end
}

void the_first_library_that_loads_is_used(void **) {
    closed(opened("second"));
    assert_string_equal(state->instance, "the second");
    closed(opened("third"));
    assert_string_equal(state->instance, "the third");
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    // It loads and does not want to: that counts.
    assert_int_equal(open_ia("unwilling", ia), NO_NAME);
    assert_string_equal(state->instance, "silent");
}

void integers(void **) {
    std::array<DAT_IA_HANDLE, 4> ias = {};
    for (std::size_t place = 0; place < 3; ++place) {
        ias[place] = opened("good");
        assert_ptr_equal(ias[place], reinterpret_cast<void *>(place + 1));
        assert_ptr_not_equal(address_of(ias[place]), ias[place]);
    }
    closed(ias[1]);
    ias[3] = opened("good");
    assert_ptr_equal(ias[3], ias[1]); // the lowest that is free
    assert_int_equal(dat_ia_close(address_of(ias[3]), DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    assert_int_equal(dat_ia_close(ias[3], DAT_CLOSE_ABRUPT_FLAG), NO_IA);
    closed(ias[2]);
    closed(ias[0]);
    assert_int_equal(dat_ia_close(ias[0], DAT_CLOSE_ABRUPT_FLAG), NO_IA);
    assert_int_equal(dat_ia_close(DAT_HANDLE_NULL, DAT_CLOSE_ABRUPT_FLAG), NO_IA);
}

void until_there_are_no_more(void **) {
    std::vector<DAT_IA_HANDLE> ias;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_RETURN status = DAT_SUCCESS;
    while ((status = open_ia("good", ia)) == DAT_SUCCESS)
        ias.push_back(ia);
    assert_int_equal(status, DAT_MAKE_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    assert_int_equal(ias.size(), 4095);
    assert_int_equal(state->opens - state->closes, 4095);
    for (const DAT_IA_HANDLE each : ias)
        closed(each);
    assert_int_equal(state->opens, state->closes);
}

/// One start for all that are open at a time, and one end.
void a_library_comes_and_goes(void **) {
    for (int round = 0; round < 2; ++round) {
        const since before;
        const DAT_IA_HANDLE one = opened("good"), other = opened("good");
        before.are(1, 0, 2, 0);
        closed(one);
        before.are(1, 0, 2, 1);
        closed(other);
        before.are(1, 1, 2, 2);
    }
    assert_false(is_loaded(COHERDMA_TEST_OURS));
    const DAT_IA_HANDLE ia = opened("unloaded");
    assert_true(is_loaded(COHERDMA_TEST_OURS));
    closed(ia);
    assert_false(is_loaded(COHERDMA_TEST_OURS));
}

void thread_safe_or_not_are_two(void **) {
    const since before;
    const DAT_IA_HANDLE one = opened("both", DAT_FALSE), other = opened("both", DAT_TRUE);
    before.are(2, 0, 2, 0);
    closed(one);
    before.are(2, 1, 2, 1);
    assert_int_equal(address_of(other) != nullptr, 1);
    DAT_IA_ATTR attributes;
    assert_int_equal(dat_ia_query(other, nullptr, DAT_IA_FIELD_ALL, &attributes, 0, nullptr),
                     DAT_SUCCESS);
    closed(other);
    before.are(2, 2, 2, 2);
}

/// OFED's registry would look for what the provider says of itself, and leave everything open.
void what_a_provider_says_of_its_thread_safety_is_its_own_matter(void **) {
    const since before;
    closed(opened("safe"));
    before.are(1, 1, 1, 1);
}

void an_ia_that_does_not_close_stays_open(void **) {
    const DAT_IA_HANDLE ia = opened("good");
    state->close_status = DAT_MAKE_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE);
    const since before;
    for (int round = 0; round < 2; ++round)
        assert_int_equal(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), state->close_status.load());
    assert_non_null(address_of(ia));
    before.are(0, 0, 0, 0);
    state->close_status = DAT_SUCCESS;
    closed(ia);
    before.are(0, 1, 0, 1);
}

void an_ia_that_does_not_open(void **) {
    const since before;
    DAT_IA_HANDLE ia = reinterpret_cast<DAT_IA_HANDLE>(77);
    assert_int_equal(open_ia("refuses", ia),
                     DAT_MAKE_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    before.are(1, 1, 0, 0);
    for (const char *each : {"null", "odd"})
        assert_int_equal(open_ia(each, ia), DAT_MAKE_ERROR(DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE));
    before.are(3, 3, 2, 0);
    assert_ptr_equal(ia, reinterpret_cast<void *>(77));
}

void a_provider_that_does_not_take_itself_off_the_list(void **) {
    const since before;
    for (int round = 0; round < 2; ++round)
        closed(opened("keeps"));
    before.are(2, 2, 2, 2);
}

/// A library may open others while it begins. Itself it cannot: it is not there yet.
void opens_within_opens(void **) {
    closed(opened("outer"));
    assert_int_equal(state->nested_status, DAT_SUCCESS);
    closed(opened("itself"));
    assert_int_equal(state->nested_status, NO_NAME);
}

/// Memory of an IA that is closed may become another's before dat_ia_close has returned.
void an_address_that_is_given_again(void **) {
    const DAT_IA_HANDLE first = opened("again");
    const DAT_IA_HANDLE address = address_of(first);
    closed(first);
    const DAT_IA_HANDLE second = state->opened_again;
    assert_non_null(second);
    assert_ptr_not_equal(second, first);
    assert_ptr_equal(address_of(second), address);
    assert_ptr_equal(address_of(address), second);
    DAT_IA_HANDLE none = DAT_HANDLE_NULL;
    assert_int_equal(dats_get_ia_handle(first, &none), NO_IA);
    assert_ptr_equal(opened("good"), first); // which is free again
    closed(first);
    closed(second);
}

void registered_by_the_program(void **) {
    const DAT_IA_HANDLE helper = opened("good");
    const DAT_PROVIDER *provider = state->provider("good");
    DAT_PROVIDER_INFO info = {"own", MAJOR, MINOR, DAT_FALSE};
    assert_int_equal(dat_registry_add_provider(nullptr, &info), bad_argument(DAT_INVALID_ARG1));
    assert_int_equal(dat_registry_add_provider(provider, nullptr), bad_argument(DAT_INVALID_ARG2));
    assert_int_equal(dat_registry_remove_provider(nullptr, &info), bad_argument(DAT_INVALID_ARG1));
    assert_int_equal(dat_registry_remove_provider(provider, nullptr),
                     bad_argument(DAT_INVALID_ARG2));
    DAT_PROVIDER_INFO endless;
    std::memset(&endless, 'x', sizeof endless);
    assert_int_equal(dat_registry_add_provider(provider, &endless), bad_argument(DAT_INVALID_ARG2));
    const DAT_PROVIDER_INFO other = {"own", OTHER_MAJOR, OTHER_MINOR, DAT_FALSE};
    assert_int_equal(dat_registry_add_provider(provider, &other), bad_argument(DAT_INVALID_ARG2));
    assert_int_equal(dat_registry_remove_provider(provider, &info), NO_NAME);
    assert_int_equal(dat_registry_add_provider(provider, &info), DAT_SUCCESS);
    assert_int_equal(dat_registry_add_provider(provider, &info),
                     DAT_MAKE_ERROR(DAT_PROVIDER_ALREADY_REGISTERED, DAT_NO_SUBTYPE));
    assert_int_equal(open_version("own", OTHER_MAJOR, OTHER_MINOR, DAT_FALSE),
                     DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND));
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open_ia("own", ia), // the stub does not know the name
                     DAT_MAKE_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    info.is_thread_safe = DAT_TRUE;
    assert_int_equal(dat_registry_remove_provider(provider, &info), NO_NAME);
    info.is_thread_safe = DAT_FALSE;
    assert_int_equal(dat_registry_remove_provider(provider, &info), DAT_SUCCESS);
    assert_int_equal(dat_registry_remove_provider(provider, &info), NO_NAME);
    // Not while it is open.
    std::strcpy(info.ia_name, "good");
    assert_int_equal(dat_registry_remove_provider(provider, &info),
                     DAT_MAKE_ERROR(DAT_PROVIDER_IN_USE, DAT_NO_SUBTYPE));
    closed(helper);
}

void lists(void **) {
    std::array<DAT_PROVIDER_INFO, 64> infos = {};
    std::array<DAT_PROVIDER_INFO *, 64> pointers = {};
    for (std::size_t place = 0; place < infos.size(); ++place)
        pointers[place] = &infos[place];
    DAT_COUNT count = 0;
    assert_int_equal(dat_registry_list_providers(64, nullptr, pointers.data()),
                     bad_argument(DAT_INVALID_ARG2));
    assert_int_equal(dat_registry_list_providers(0, &count, nullptr),
                     bad_argument(DAT_INVALID_ARG1));
    const DAT_COUNT all = count;
    assert_int_equal(dat_registry_list_providers(64, &count, pointers.data()), DAT_SUCCESS);
    assert_int_equal(count, all);
    const auto is = [&](int place, const char *name, DAT_UINT32 major, DAT_UINT32 minor,
                        DAT_BOOLEAN safe) {
        const DAT_PROVIDER_INFO &one = infos[static_cast<std::size_t>(place)];
        assert_string_equal(one.ia_name, name);
        assert_true(one.dapl_version_major == major && one.dapl_version_minor == minor &&
                    one.is_thread_safe == safe);
    };
    // libdat2 lists those of 1.2, too, as OFED's does.
    const int others = MAJOR == 2 ? 1 : 0;
    is(0, "good", MAJOR, MINOR, DAT_FALSE);
    if (others)
        is(1, "other version", OTHER_MAJOR, OTHER_MINOR, DAT_FALSE);
    is(others + 1, "both", MAJOR, MINOR, DAT_FALSE);
    is(others + 2, "both", MAJOR, MINOR, DAT_TRUE);
    const auto times = std::count_if(infos.begin(), infos.end(), [](const auto &each) {
        return std::strcmp(each.ia_name, "third") == 0;
    });
    assert_int_equal(times, 1); // it has three records
    infos = {};
    assert_int_equal(dat_registry_list_providers(2, &count, pointers.data()), DAT_SUCCESS);
    assert_int_equal(count, 2);
    if (others)
        is(1, "other version", OTHER_MAJOR, OTHER_MINOR, DAT_FALSE);
    else
        is(1, "both", MAJOR, MINOR, DAT_FALSE);
    assert_string_equal(infos[2].ia_name, "");
    pointers[1] = nullptr;
    assert_int_equal(dat_registry_list_providers(64, &count, pointers.data()),
                     bad_argument(DAT_INVALID_ARG3));
    assert_int_equal(dat_registry_list_providers(64, &count, nullptr),
                     bad_argument(DAT_INVALID_ARG3));
    assert_int_equal(dat_registry_list_providers(-1, &count, pointers.data()),
                     bad_argument(DAT_INVALID_ARG1));
}

#ifndef COHERDMA_DAT1
DAT_HA_RELATIONSHIP related(const char *one, const char *other) {
    std::string first = one, second = other;
    auto answer = static_cast<DAT_HA_RELATIONSHIP>(77);
    assert_int_equal(dat_registry_providers_related(first.data(), second.data(), &answer),
                     DAT_SUCCESS);
    return answer;
}

void relations(void **) {
    char good[] = "good", nobody[] = "nobody";
    DAT_HA_RELATIONSHIP answer;
    const auto ask = dat_registry_providers_related;
    assert_int_equal(ask(nullptr, good, &answer), bad_argument(DAT_INVALID_ARG1));
    assert_int_equal(ask(good, nullptr, &answer), bad_argument(DAT_INVALID_ARG2));
    assert_int_equal(ask(good, good, nullptr), bad_argument(DAT_INVALID_ARG3));
    assert_int_equal(ask(good, nobody, &answer), NO_NAME);
    assert_int_equal(ask(nobody, good, &answer), NO_NAME);
    assert_int_equal(related("alike", "other"), DAT_HA_UNKNOWN); // nobody is there to ask
    const DAT_IA_HANDLE alike = opened("alike"), plain = opened("good");
    assert_int_equal(related("alike", "other"), DAT_HA_TRUE); // one is enough
    assert_int_equal(related("other", "alike"), DAT_HA_TRUE);
    assert_int_equal(related("alike", "good"), DAT_HA_TRUE); // the other does not know
    const DAT_IA_HANDLE other = opened("other");
    assert_int_equal(related("alike", "other"), DAT_HA_CONFLICTING);
    assert_int_equal(related("other", "other"), DAT_HA_FALSE);
    assert_int_equal(related("good", "good"), DAT_HA_UNKNOWN);
    for (const DAT_IA_HANDLE each : {alike, plain, other})
        closed(each);
}
#endif

int set_up(void **) {
    use_conf(record("good", "x") +
             record("\"other version\"", "x", COHERDMA_TEST_STUB, "nonthreadsafe", OTHER_API) +
             record("both", "x") + record("both", "x", COHERDMA_TEST_STUB, "threadsafe") +
             record("missing", "x", "/nowhere/lib.so") + record("silent", "silent") +
             record("empty", "x", "\"\"") + record("second", "the first", "/nowhere/lib.so") +
             record("second", "the second") + record("third", "the first", "/nowhere/lib.so") +
             record("third", "the second", "libm.so.6") + record("third", "the third") +
             record("unwilling", "silent") + record("unwilling", "willing") +
             record("unloaded", "x", COHERDMA_TEST_OURS) + record("safe", "safe") +
             record("refuses", "refuses") + record("null", "null") + record("odd", "odd") +
             record("keeps", "keeps") + record("outer", "nested=good") +
             record("itself", "nested=itself") + record("alike", "alike") +
             record("other", "other") + record("again", "again"));
    state = &stub_of();
    return 0;
}

} // namespace

int main() {
    setenv("COHERDMA_DAT_LIVE", "0", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(names_that_cannot_be_opened),
        cmocka_unit_test(the_first_library_that_loads_is_used),
        cmocka_unit_test(integers),
        cmocka_unit_test(until_there_are_no_more),
        cmocka_unit_test(a_library_comes_and_goes),
        cmocka_unit_test(thread_safe_or_not_are_two),
        cmocka_unit_test(what_a_provider_says_of_its_thread_safety_is_its_own_matter),
        cmocka_unit_test(an_ia_that_does_not_close_stays_open),
        cmocka_unit_test(an_ia_that_does_not_open),
        cmocka_unit_test(a_provider_that_does_not_take_itself_off_the_list),
        cmocka_unit_test(opens_within_opens),
        cmocka_unit_test(an_address_that_is_given_again),
        cmocka_unit_test(registered_by_the_program),
        cmocka_unit_test(lists),
#ifndef COHERDMA_DAT1
        cmocka_unit_test(relations),
#endif
    };
    return cmocka_run_group_tests(tests, set_up, nullptr);
}

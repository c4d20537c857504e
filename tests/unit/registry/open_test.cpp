// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Open and close of IAs, loading of providers, and the registry's own calls.

#include <algorithm>
#include <array>
#include <vector>

#include "registry.hpp"

using namespace registry_test;

namespace {

constexpr DAT_RETURN invalid_parameter(DAT_RETURN_SUBTYPE subtype) {
    return DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, subtype);
}

stub::state *state;

/// Counts the registry's calls of the stub provider since construction.
struct call_counts {
    struct calls {
        int inits, finis, opens, closes;
    };
    calls before = {state->inits, state->finis, state->opens, state->closes};
    void assert_calls(const calls &expected) const {
        assert_int_equal(state->inits - before.inits, expected.inits);
        assert_int_equal(state->finis - before.finis, expected.finis);
        assert_int_equal(state->opens - before.opens, expected.opens);
        assert_int_equal(state->closes - before.closes, expected.closes);
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

void invalid_name_or_version_fails_open(void **) {
    const call_counts counts;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    char good[] = "good";
    assert_int_equal(dat_ia_openv(nullptr, 8, &evd, &ia, MAJOR, MINOR, DAT_FALSE),
                     invalid_parameter(DAT_INVALID_ARG1));
    assert_int_equal(dat_ia_openv(good, 8, &evd, nullptr, MAJOR, MINOR, DAT_FALSE), INVALID_IA);
    assert_int_equal(open_ia(std::string(256, 'x').c_str(), ia),
                     invalid_parameter(DAT_INVALID_ARG1));
    assert_int_equal(open_ia(std::string(255, 'x').c_str(), ia), NOT_REGISTERED);
    for (const char *name : {"", "Good", "goo", "good ", "missing", "silent", "empty"})
        assert_int_equal(open_ia(name, ia), NOT_REGISTERED);
    const auto not_found = [](DAT_RETURN_SUBTYPE subtype) {
        return DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, subtype);
    };
    assert_int_equal(open_version("good", MAJOR, MINOR, DAT_TRUE),
                     not_found(DAT_THREAD_SAFETY_NOT_FOUND));
    assert_int_equal(open_version("good", MAJOR, MINOR + 1, DAT_FALSE),
                     not_found(DAT_MINOR_NOT_FOUND));
    assert_int_equal(open_version("good", OTHER_MAJOR, OTHER_MINOR, DAT_FALSE),
                     not_found(DAT_MAJOR_NOT_FOUND));
    assert_int_equal(open_version("other version", MAJOR, MINOR, DAT_FALSE),
                     not_found(DAT_MAJOR_NOT_FOUND));
    // An entry of the other registry is never opened.
    assert_int_equal(open_version("other version", OTHER_MAJOR, OTHER_MINOR, DAT_FALSE),
                     not_found(DAT_MAJOR_NOT_FOUND));
    assert_null(ia);
    counts.assert_calls(
        {.inits = 1, .finis = 0, .opens = 0, .closes = 0}); // only "silent" was loaded
}

/// "second" and "third" have several lines in dat.conf: the stub is the first library of them that
/// is a provider.
void first_loadable_library_used(void **) {
    close_ia_ok(open_ia_ok("second"));
    assert_string_equal(state->instance, "second");
    close_ia_ok(open_ia_ok("third"));
    assert_string_equal(state->instance, "third");
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    // The library loads but registers nothing: no other library is tried.
    assert_int_equal(open_ia("unwilling", ia), NOT_REGISTERED);
    assert_string_equal(state->instance, "silent");
}

constexpr std::uintptr_t MAX_IA_HANDLE = 4095;

std::uintptr_t to_number(DAT_IA_HANDLE ia) {
    return reinterpret_cast<std::uintptr_t>(ia);
}
std::uintptr_t next_number(DAT_IA_HANDLE ia) {
    return to_number(ia) % MAX_IA_HANDLE + 1;
}

void ia_is_closed_by_either_handle(void **) {
    const DAT_IA_HANDLE first = open_ia_ok("good"), second = open_ia_ok("good");
    assert_ptr_not_equal(convert_handle(second), second);
    assert_int_equal(dat_ia_close(convert_handle(second), DAT_CLOSE_ABRUPT_FLAG), DAT_SUCCESS);
    assert_int_equal(dat_ia_close(second, DAT_CLOSE_ABRUPT_FLAG), INVALID_IA);
    close_ia_ok(first);
    assert_int_equal(dat_ia_close(first, DAT_CLOSE_ABRUPT_FLAG), INVALID_IA);
    assert_int_equal(dat_ia_close(DAT_HANDLE_NULL, DAT_CLOSE_ABRUPT_FLAG), INVALID_IA);
}

/// A stale handle names another IA only after all others were used.
void ia_handles_are_integers_in_turn(void **) {
    const DAT_IA_HANDLE open = open_ia_ok("good"), closed = open_ia_ok("good");
    assert_int_equal(to_number(closed), next_number(open));
    close_ia_ok(closed);
    DAT_IA_HANDLE previous = closed;
    for (std::uintptr_t i = 0; i < MAX_IA_HANDLE - 2; ++i) { // all but these two
        const DAT_IA_HANDLE ia = open_ia_ok("good");
        assert_int_equal(to_number(ia), next_number(previous));
        DAT_IA_HANDLE converted = DAT_HANDLE_NULL;
        assert_int_equal(dats_get_ia_handle(closed, &converted), INVALID_IA);
        close_ia_ok(ia);
        previous = ia;
    }
    const DAT_IA_HANDLE reused = open_ia_ok("good"); // the index of the open IA is left out
    assert_ptr_equal(reused, closed);
    close_ia_ok(reused);
    close_ia_ok(open);
}

/// IA handles are the numbers 1 to 4095.
void open_fails_after_4095_ias(void **) {
    const call_counts counts;
    std::vector<DAT_IA_HANDLE> ias;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_RETURN status = DAT_SUCCESS;
    while ((status = open_ia("good", ia)) == DAT_SUCCESS)
        ias.push_back(ia);
    assert_int_equal(status, DAT_MAKE_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    assert_int_equal(ias.size(), 4095);
    counts.assert_calls({.inits = 1,
                         .finis = 0,
                         .opens = 4096,
                         .closes = 1}); // the provider's last IA has no index and is closed
    for (const DAT_IA_HANDLE handle : ias)
        close_ia_ok(handle);
    counts.assert_calls({.inits = 1, .finis = 1, .opens = 4096, .closes = 4096});
}

/// One init and one fini, however many IAs are open.
void library_loaded_while_ias_are_open(void **) {
    for (int i = 0; i < 2; ++i) {
        const call_counts counts;
        const DAT_IA_HANDLE first = open_ia_ok("good"), second = open_ia_ok("good");
        counts.assert_calls({.inits = 1, .finis = 0, .opens = 2, .closes = 0});
        close_ia_ok(first);
        counts.assert_calls({.inits = 1, .finis = 0, .opens = 2, .closes = 1});
        close_ia_ok(second);
        counts.assert_calls({.inits = 1, .finis = 1, .opens = 2, .closes = 2});
    }
    assert_false(is_loaded(COHERDMA_TEST_COHERDMA_PROVIDER));
    const DAT_IA_HANDLE ia = open_ia_ok("unloaded");
    assert_true(is_loaded(COHERDMA_TEST_COHERDMA_PROVIDER));
    close_ia_ok(ia);
    assert_false(is_loaded(COHERDMA_TEST_COHERDMA_PROVIDER));
}

void thread_safe_entry_has_separate_provider(void **) {
    const call_counts counts;
    const DAT_IA_HANDLE first = open_ia_ok("both", DAT_FALSE),
                        second = open_ia_ok("both", DAT_TRUE);
    counts.assert_calls({.inits = 2, .finis = 0, .opens = 2, .closes = 0});
    close_ia_ok(first);
    counts.assert_calls({.inits = 2, .finis = 1, .opens = 2, .closes = 1});
    assert_int_equal(convert_handle(second) != nullptr, 1);
    DAT_IA_ATTR attributes;
    assert_int_equal(dat_ia_query(second, nullptr, DAT_IA_FIELD_ALL, &attributes, 0, nullptr),
                     DAT_SUCCESS);
    close_ia_ok(second);
    counts.assert_calls({.inits = 2, .finis = 2, .opens = 2, .closes = 2});
}

/// The entry in dat.conf has the thread safety.
void thread_safety_of_provider_attr_ignored(void **) {
    const call_counts counts;
    close_ia_ok(open_ia_ok("safe"));
    counts.assert_calls({.inits = 1, .finis = 1, .opens = 1, .closes = 1});
}

void failed_close_keeps_ia_open(void **) {
    const DAT_IA_HANDLE ia = open_ia_ok("good");
    state->close_status = DAT_MAKE_ERROR(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE);
    const call_counts counts;
    for (int i = 0; i < 2; ++i)
        assert_int_equal(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG), state->close_status.load());
    assert_non_null(convert_handle(ia));
    counts.assert_calls({.inits = 0, .finis = 0, .opens = 0, .closes = 0});
    state->close_status = DAT_SUCCESS;
    close_ia_ok(ia);
    counts.assert_calls({.inits = 0, .finis = 1, .opens = 0, .closes = 1});
}

/// The stub refuses to open the first IA, and returns handles for the others that are not valid.
void failed_open_releases_provider(void **) {
    const call_counts counts;
    DAT_IA_HANDLE ia = reinterpret_cast<DAT_IA_HANDLE>(77);
    assert_int_equal(open_ia("refuses", ia),
                     DAT_MAKE_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    counts.assert_calls({.inits = 1, .finis = 1, .opens = 0, .closes = 0});
    for (const char *name : {"null", "odd"})
        assert_int_equal(open_ia(name, ia), DAT_MAKE_ERROR(DAT_INTERNAL_ERROR, DAT_NO_SUBTYPE));
    counts.assert_calls({.inits = 3, .finis = 3, .opens = 2, .closes = 0});
    assert_ptr_equal(ia, reinterpret_cast<void *>(77));
}

void provider_that_stays_registered_reloaded(void **) {
    const call_counts counts;
    for (int i = 0; i < 2; ++i)
        close_ia_ok(open_ia_ok("keeps"));
    counts.assert_calls({.inits = 2, .finis = 2, .opens = 2, .closes = 2});
}

/// A provider's init may open IAs of other providers, but not its own, which is not registered yet.
void provider_init_may_open_other_ia(void **) {
    close_ia_ok(open_ia_ok("outer"));
    assert_int_equal(state->nested_status, DAT_SUCCESS);
    close_ia_ok(open_ia_ok("itself"));
    assert_int_equal(state->nested_status, NOT_REGISTERED);
}

/// The memory of a closed IA may be reused before dat_ia_close returns.
void reused_address_gets_new_ia_handle(void **) {
    const DAT_IA_HANDLE first = open_ia_ok("again");
    const DAT_IA_HANDLE provider_ia = convert_handle(first);
    close_ia_ok(first);
    const DAT_IA_HANDLE second = state->reopened_ia;
    assert_non_null(second);
    assert_ptr_not_equal(second, first);
    assert_ptr_equal(convert_handle(second), provider_ia);
    assert_ptr_equal(convert_handle(provider_ia), second);
    DAT_IA_HANDLE converted = DAT_HANDLE_NULL;
    assert_int_equal(dats_get_ia_handle(first, &converted), INVALID_IA);
    close_ia_ok(second);
}

void program_may_register_provider(void **) {
    const DAT_IA_HANDLE ia_of_stub = open_ia_ok("good");
    const DAT_PROVIDER *provider = state->find_table("good");
    DAT_PROVIDER_INFO info = {"added", MAJOR, MINOR, DAT_FALSE};
    assert_int_equal(dat_registry_add_provider(nullptr, &info),
                     invalid_parameter(DAT_INVALID_ARG1));
    assert_int_equal(dat_registry_add_provider(provider, nullptr),
                     invalid_parameter(DAT_INVALID_ARG2));
    assert_int_equal(dat_registry_remove_provider(nullptr, &info),
                     invalid_parameter(DAT_INVALID_ARG1));
    assert_int_equal(dat_registry_remove_provider(provider, nullptr),
                     invalid_parameter(DAT_INVALID_ARG2));
    DAT_PROVIDER_INFO unterminated;
    std::memset(&unterminated, 'x', sizeof unterminated);
    assert_int_equal(dat_registry_add_provider(provider, &unterminated),
                     invalid_parameter(DAT_INVALID_ARG2));
    const DAT_PROVIDER_INFO other_version = {"added", OTHER_MAJOR, OTHER_MINOR, DAT_FALSE};
    assert_int_equal(dat_registry_add_provider(provider, &other_version),
                     invalid_parameter(DAT_INVALID_ARG2));
    assert_int_equal(dat_registry_remove_provider(provider, &info), NOT_REGISTERED);
    assert_int_equal(dat_registry_add_provider(provider, &info), DAT_SUCCESS);
    assert_int_equal(dat_registry_add_provider(provider, &info),
                     DAT_MAKE_ERROR(DAT_PROVIDER_ALREADY_REGISTERED, DAT_NO_SUBTYPE));
    assert_int_equal(open_version("added", OTHER_MAJOR, OTHER_MINOR, DAT_FALSE),
                     DAT_MAKE_ERROR(DAT_PROVIDER_NOT_FOUND, DAT_MAJOR_NOT_FOUND));
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    assert_int_equal(open_ia("added", ia), // the stub rejects the name
                     DAT_MAKE_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
    info.is_thread_safe = DAT_TRUE;
    assert_int_equal(dat_registry_remove_provider(provider, &info), NOT_REGISTERED);
    info.is_thread_safe = DAT_FALSE;
    assert_int_equal(dat_registry_remove_provider(provider, &info), DAT_SUCCESS);
    assert_int_equal(dat_registry_remove_provider(provider, &info), NOT_REGISTERED);
    // An open provider cannot be removed.
    std::strcpy(info.ia_name, "good");
    assert_int_equal(dat_registry_remove_provider(provider, &info),
                     DAT_MAKE_ERROR(DAT_PROVIDER_IN_USE, DAT_NO_SUBTYPE));
    close_ia_ok(ia_of_stub);
}

void list_providers_returns_all_entries(void **) {
    std::array<DAT_PROVIDER_INFO, 64> infos = {};
    std::array<DAT_PROVIDER_INFO *, 64> pointers = {};
    for (std::size_t i = 0; i < infos.size(); ++i)
        pointers[i] = &infos[i];
    DAT_COUNT count = 0;
    assert_int_equal(dat_registry_list_providers(64, nullptr, pointers.data()),
                     invalid_parameter(DAT_INVALID_ARG2));
    assert_int_equal(dat_registry_list_providers(0, &count, nullptr),
                     invalid_parameter(DAT_INVALID_ARG1));
    const DAT_COUNT num_entries = count;
    assert_int_equal(dat_registry_list_providers(64, &count, pointers.data()), DAT_SUCCESS);
    assert_int_equal(count, num_entries);
    const auto assert_entry = [&](int index, const char *name, DAT_UINT32 major, DAT_UINT32 minor,
                                  DAT_BOOLEAN thread_safe) {
        const DAT_PROVIDER_INFO &info = infos[static_cast<std::size_t>(index)];
        assert_string_equal(info.ia_name, name);
        assert_true(info.dapl_version_major == major && info.dapl_version_minor == minor &&
                    info.is_thread_safe == thread_safe);
    };
    // libdat2 also lists entries of 1.2, as OFED's does.
    const int num_other_version = MAJOR == 2 ? 1 : 0;
    assert_entry(0, "good", MAJOR, MINOR, DAT_FALSE);
    if (num_other_version)
        assert_entry(1, "other version", OTHER_MAJOR, OTHER_MINOR, DAT_FALSE);
    assert_entry(num_other_version + 1, "both", MAJOR, MINOR, DAT_FALSE);
    assert_entry(num_other_version + 2, "both", MAJOR, MINOR, DAT_TRUE);
    const auto num_third = std::count_if(infos.begin(), infos.end(), [](const auto &info) {
        return std::strcmp(info.ia_name, "third") == 0;
    });
    assert_int_equal(num_third, 1); // one entry for three lines
    infos = {};
    assert_int_equal(dat_registry_list_providers(2, &count, pointers.data()), DAT_SUCCESS);
    assert_int_equal(count, 2);
    if (num_other_version)
        assert_entry(1, "other version", OTHER_MAJOR, OTHER_MINOR, DAT_FALSE);
    else
        assert_entry(1, "both", MAJOR, MINOR, DAT_FALSE);
    assert_string_equal(infos[2].ia_name, "");
    pointers[1] = nullptr;
    assert_int_equal(dat_registry_list_providers(64, &count, pointers.data()),
                     invalid_parameter(DAT_INVALID_ARG3));
    assert_int_equal(dat_registry_list_providers(64, &count, nullptr),
                     invalid_parameter(DAT_INVALID_ARG3));
    assert_int_equal(dat_registry_list_providers(-1, &count, pointers.data()),
                     invalid_parameter(DAT_INVALID_ARG1));
}

#ifndef COHERDMA_DAT1
DAT_HA_RELATIONSHIP query_related(std::string first, std::string second) {
    auto relationship = static_cast<DAT_HA_RELATIONSHIP>(77);
    assert_int_equal(dat_registry_providers_related(first.data(), second.data(), &relationship),
                     DAT_SUCCESS);
    return relationship;
}

/// The registry asks the provider of each open IA of the two names. The stub answers true for
/// "alike", false for "other", and has no answer for "good".
void providers_related_asks_open_ias(void **) {
    char good[] = "good", unknown[] = "unknown";
    DAT_HA_RELATIONSHIP relationship;
    const auto providers_related = dat_registry_providers_related;
    assert_int_equal(providers_related(nullptr, good, &relationship),
                     invalid_parameter(DAT_INVALID_ARG1));
    assert_int_equal(providers_related(good, nullptr, &relationship),
                     invalid_parameter(DAT_INVALID_ARG2));
    assert_int_equal(providers_related(good, good, nullptr), invalid_parameter(DAT_INVALID_ARG3));
    assert_int_equal(providers_related(good, unknown, &relationship), NOT_REGISTERED);
    assert_int_equal(providers_related(unknown, good, &relationship), NOT_REGISTERED);
    assert_int_equal(query_related("alike", "other"), DAT_HA_UNKNOWN); // no IA is open
    const DAT_IA_HANDLE alike_ia = open_ia_ok("alike"), good_ia = open_ia_ok("good");
    assert_int_equal(query_related("alike", "other"), DAT_HA_TRUE); // one answer suffices
    assert_int_equal(query_related("other", "alike"), DAT_HA_TRUE);
    assert_int_equal(query_related("alike", "good"), DAT_HA_TRUE); // "good" has no answer
    const DAT_IA_HANDLE other_ia = open_ia_ok("other");
    assert_int_equal(query_related("alike", "other"), DAT_HA_CONFLICTING);
    assert_int_equal(query_related("other", "other"), DAT_HA_FALSE);
    assert_int_equal(query_related("good", "good"), DAT_HA_UNKNOWN);
    for (const DAT_IA_HANDLE ia : {alike_ia, good_ia, other_ia})
        close_ia_ok(ia);
}
#endif

/// The instance data is the stub's option, see stub_provider.hpp; "x" is none.
int setup(void **) {
    use_conf(conf_line("good", "x") +
             conf_line("\"other version\"", "x", COHERDMA_TEST_STUB, "nonthreadsafe", OTHER_API) +
             conf_line("both", "x") + conf_line("both", "x", COHERDMA_TEST_STUB, "threadsafe") +
             conf_line("missing", "x", "/nonexistent/lib.so") + conf_line("silent", "silent") +
             conf_line("empty", "x", "\"\"") + conf_line("second", "first", "/nonexistent/lib.so") +
             conf_line("second", "second") + conf_line("third", "first", "/nonexistent/lib.so") +
             conf_line("third", "second", "libm.so.6") + conf_line("third", "third") +
             conf_line("unwilling", "silent") + conf_line("unwilling", "willing") +
             conf_line("unloaded", "x", COHERDMA_TEST_COHERDMA_PROVIDER) +
             conf_line("safe", "safe") + conf_line("refuses", "refuses") +
             conf_line("null", "null") + conf_line("odd", "odd") + conf_line("keeps", "keeps") +
             conf_line("outer", "nested=good") + conf_line("itself", "nested=itself") +
             conf_line("alike", "alike") + conf_line("other", "other") +
             conf_line("again", "again"));
    state = &load_stub();
    return 0;
}

} // namespace

int main() {
    setenv("COHERDMA_DAT_LIVE", "0", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(invalid_name_or_version_fails_open),
        cmocka_unit_test(first_loadable_library_used),
        cmocka_unit_test(ia_is_closed_by_either_handle),
        cmocka_unit_test(ia_handles_are_integers_in_turn),
        cmocka_unit_test(library_loaded_while_ias_are_open),
        cmocka_unit_test(thread_safe_entry_has_separate_provider),
        cmocka_unit_test(thread_safety_of_provider_attr_ignored),
        cmocka_unit_test(failed_close_keeps_ia_open),
        cmocka_unit_test(failed_open_releases_provider),
        cmocka_unit_test(provider_that_stays_registered_reloaded),
        cmocka_unit_test(provider_init_may_open_other_ia),
        cmocka_unit_test(reused_address_gets_new_ia_handle),
        cmocka_unit_test(program_may_register_provider),
        cmocka_unit_test(list_providers_returns_all_entries),
#ifndef COHERDMA_DAT1
        cmocka_unit_test(providers_related_asks_open_ias),
#endif
        // The last, so that it finds indices that another test has not freed.
        cmocka_unit_test(open_fails_after_4095_ias),
    };
    return cmocka_run_group_tests(tests, setup, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A registry forwards each call to the provider's function of the same name with the same
// arguments, and rejects every invalid handle.

#include <array>
#include <sys/mman.h>
#include <vector>

#include "calls.hpp"
#include "registry.hpp"

using namespace registry_test;

namespace {

constexpr std::size_t PAGE = 4096;

stub::state *state;
DAT_IA_HANDLE ia;

/// A value of any type, different in each call.
template <typename Argument>
Argument next_argument() {
    static unsigned char fill_byte = 1;
    Argument value;
    std::memset(&value, fill_byte, sizeof value);
    fill_byte = static_cast<unsigned char>(fill_byte + 1);
    return value;
}

/// The bytes of the arguments, as the stub records them.
struct argument_bytes {
    std::vector<unsigned char> bytes;
    template <typename Argument>
    void add(const Argument &argument) {
        const auto *begin = reinterpret_cast<const unsigned char *>(&argument);
        bytes.insert(bytes.end(), begin, begin + sizeof argument);
    }
};

/// Calls the registry's function with the handle and new arguments. *expected gets what the
/// provider must receive.
template <typename Call, typename... Arguments>
DAT_RETURN call_with(DAT_HANDLE handle, DAT_HANDLE provider_handle, argument_bytes *expected,
                     DAT_RETURN (*function)(DAT_HANDLE, Arguments...)) {
    const std::tuple<Arguments...> arguments = {next_argument<Arguments>()...};
    if (expected) {
        expected->add(provider_handle);
        std::apply([expected](const auto &...argument) { (expected->add(argument), ...); },
                   arguments);
    }
    return std::apply([&](auto... argument) { return function(handle, argument...); }, arguments);
}

template <typename Call>
DAT_RETURN call_function(DAT_HANDLE handle) {
    return call_with<Call>(handle, handle, nullptr, Call::function);
}

template <typename Function>
void for_each_call(const Function &function) {
    std::apply([&function](auto... call) { (function(call), ...); }, registry_calls::all_calls());
}

template <auto Member>
std::size_t member_offset() {
    const DAT_PROVIDER table = {};
    return static_cast<std::size_t>(reinterpret_cast<const char *>(&(table.*Member)) -
                                    reinterpret_cast<const char *>(&table));
}

template <typename Call>
constexpr bool TAKES_IA = Call::subtype == DAT_INVALID_HANDLE_IA;

/// The registry's function calls the provider's with the provider's handle and the same other
/// arguments, and returns its result.
template <typename Call>
void assert_forwarded(DAT_HANDLE handle, DAT_HANDLE provider_handle) {
    constexpr DAT_RETURN STATUS = DAT_MAKE_ERROR(DAT_ABORT, DAT_INVALID_ARG9);
    state->status = STATUS;
    state->recording = true;
    argument_bytes expected;
    const DAT_RETURN status = call_with<Call>(handle, provider_handle, &expected, Call::function);
    state->recording = false;
    state->status = DAT_SUCCESS;
    assert_int_equal(status, STATUS);
    assert_int_equal(state->member, member_offset<Call::member>());
    assert_int_equal(state->size, expected.bytes.size());
    assert_memory_equal(state->bytes, expected.bytes.data(), expected.bytes.size());
}

/// Each call twice: the second time the object's page is cached.
void calls_reach_provider(void **) {
    stub::object object;
    object.provider = state->find_table("whole");
    for_each_call([&object]<typename Call>(Call) {
        for (int i = 0; i < 2; ++i) {
            if constexpr (TAKES_IA<Call>)
                assert_forwarded<Call>(ia, convert_handle(ia));
            else
                assert_forwarded<Call>(&object, &object);
        }
    });
}

void calls_accept_provider_handle_of_ia(void **) {
    const DAT_IA_HANDLE provider_ia = convert_handle(ia);
    for_each_call([provider_ia]<typename Call>(Call) {
        if constexpr (TAKES_IA<Call> || Call::subtype == DAT_INVALID_HANDLE1)
            assert_forwarded<Call>(provider_ia, provider_ia);
    });
    assert_forwarded<std::tuple_element_t<0, registry_calls::all_calls>>(ia, provider_ia);
}

template <typename Call>
void assert_rejected(DAT_HANDLE handle, const char *description) {
    const DAT_RETURN expected = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, Call::subtype);
    if (const DAT_RETURN status = call_function<Call>(handle); status != expected)
        fail_msg("%s (%p): %#x, not %#x (function at %zu)", description, handle, status, expected,
                 member_offset<Call::member>());
}

DAT_HANDLE to_handle(std::uintptr_t address) {
    return reinterpret_cast<DAT_HANDLE>(address);
}

/// A mapped page, followed by an unmapped one.
struct mapped_page {
    mapped_page() {
        void *mapping =
            mmap(nullptr, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(mapping, MAP_FAILED);
        memory = static_cast<char *>(mapping);
        munmap(memory + PAGE, PAGE);
    }
    ~mapped_page() { munmap(memory, PAGE); }
    mapped_page(const mapped_page &) = delete;
    mapped_page &operator=(const mapped_page &) = delete;

    /// Places an object of the provider at the start of the page.
    stub::object *place_object(const char *provider) const {
        auto *object = reinterpret_cast<stub::object *>(memory);
        object->provider = state->find_table(provider);
        return object;
    }
    char *memory;
};

void invalid_handles_rejected(void **) {
    const mapped_page mapped, inaccessible;
    mprotect(inaccessible.memory, PAGE, PROT_NONE);
    std::array<unsigned long, 64> garbage = {};
    std::array<const void *, 4> words = {"text that is no provider", &words, ia,
                                         state->find_table("whole") + 1};
    stub::object object;
    object.provider = state->find_table("whole");
    auto *const object_bytes = reinterpret_cast<char *>(&object);
    assert_int_equal(dat_ep_reset(&object), DAT_SUCCESS); // caches its page
    mapped.place_object("whole");
    assert_int_equal(dat_ep_reset(mapped.memory), DAT_SUCCESS);
    const struct {
        DAT_HANDLE handle;
        const char *description;
    } cases[] = {
        {nullptr, "NULL"},
        {to_handle(1), "an integer that may be an IA handle"},
        {to_handle(99), "an integer"},
        {to_handle(4088), "an integer"},
        {to_handle(4095), "an integer"},
        {to_handle(4096), "the second page"},
        {to_handle(~std::uintptr_t{0}), "-1"},
        {to_handle(~std::uintptr_t{7}), "the last word"},
        {to_handle(std::uintptr_t{1} << 63), "not an address"},
        {to_handle(0xffffffff81000000), "a kernel address"},
        {inaccessible.memory, "PROT_NONE"},
        {mapped.memory + PAGE, "after the end of a mapping"},
        {mapped.memory + PAGE - 4, "across the end of a mapping"},
        {object_bytes + 1, "misaligned, in a cached page"},
        {object_bytes + 4, "misaligned, in a cached page"},
        {object_bytes + 8, "the middle of an object"},
        {garbage.data(), "zeros"},
        {words.data(), "first word: address of text"},
        {words.data() + 1, "first word: another address"},
        {words.data() + 2, "first word: an integer"},
        {words.data() + 3, "first word: an address in a provider's table"},
        {reinterpret_cast<DAT_HANDLE>(&invalid_handles_rejected), "code"},
    };
    for (const auto &test : cases) {
        // An integer is valid where an IA is expected.
        const bool is_ia = test.handle == ia;
        for_each_call([&test, is_ia]<typename Call>(Call) {
            if (!is_ia || (!TAKES_IA<Call> && Call::subtype != DAT_INVALID_HANDLE1))
                assert_rejected<Call>(test.handle, test.description);
        });
        if (!is_ia)
            assert_int_equal(dat_ia_close(test.handle, DAT_CLOSE_ABRUPT_FLAG), INVALID_IA);
    }
    // An object of another type is no IA.
    for_each_call([&object]<typename Call>(Call) {
        if constexpr (TAKES_IA<Call>)
            assert_rejected<Call>(&object, "an object that is no IA");
    });
    assert_int_equal(dat_ia_close(&object, DAT_CLOSE_ABRUPT_FLAG), INVALID_IA);
}

void get_ia_handle_rejects_invalid_handles(void **) {
    DAT_IA_HANDLE converted = to_handle(77);
    stub::object object;
    for (const DAT_HANDLE handle :
         {DAT_HANDLE{}, to_handle(99), to_handle(4095), to_handle(4096),
          to_handle(~std::uintptr_t{7}), static_cast<DAT_HANDLE>(&object)}) {
        assert_int_equal(dats_get_ia_handle(handle, &converted), INVALID_IA);
        assert_ptr_equal(converted, to_handle(77));
    }
    assert_int_equal(dats_get_ia_handle(ia, nullptr),
                     DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_int_equal(dats_get_ia_handle(convert_handle(ia), &converted), DAT_SUCCESS);
    assert_ptr_equal(converted, ia);
}

/// Calls of a provider without functions fail; those of others still work.
void missing_function_gives_model_not_supported(void **) {
    const DAT_IA_HANDLE incomplete_ia = open_ia_ok("gaps");
    stub::object incomplete, whole;
    incomplete.provider = state->find_table("gaps");
    whole.provider = state->find_table("whole");
    for_each_call([&](auto call) {
        using Call = decltype(call);
        const DAT_HANDLE handle = TAKES_IA<Call> ? incomplete_ia : &incomplete;
        for (int i = 0; i < 2; ++i)
            assert_int_equal(call_function<Call>(handle),
                             DAT_MAKE_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE));
        assert_forwarded<Call>(TAKES_IA<Call> ? ia : &whole,
                               TAKES_IA<Call> ? convert_handle(ia) : &whole);
    });
    close_ia_ok(incomplete_ia);
}

/// malloc may place objects of several providers in one page.
void objects_of_two_providers_in_one_page_work(void **) {
    const DAT_IA_HANDLE second_ia = open_ia_ok("second"), incomplete_ia = open_ia_ok("gaps");
    std::array<stub::object, 12> objects;
    for (std::size_t i = 0; i < objects.size(); ++i)
        objects[i].provider = state->find_table(i % 2 ? "whole" : "second");
    for_each_call([&]<typename Call>(Call) {
        if constexpr (!TAKES_IA<Call>) {
            for (auto &object : objects)
                assert_forwarded<Call>(&object, &object);
        }
    });
    close_ia_ok(incomplete_ia);
    close_ia_ok(second_ia);
    assert_int_equal(dat_ep_reset(&objects[1]), DAT_SUCCESS);
    assert_int_equal(dat_ep_reset(&objects[0]),
                     DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
}

/// More pages than the cache holds.
void more_pages_than_cache_slots_work(void **) {
    constexpr std::size_t NUM_PAGES = 5000;
    std::vector<stub::object> objects(NUM_PAGES * PAGE / sizeof(stub::object));
    const std::size_t step = PAGE / sizeof(stub::object);
    for (std::size_t i = 0; i < objects.size(); i += step)
        objects[i].provider = state->find_table("whole");
    for (int round = 0; round < 2; ++round) {
        for (std::size_t i = 0; i < objects.size(); i += step) {
            assert_int_equal(dat_ep_reset(&objects[i]), DAT_SUCCESS);
            assert_int_equal(dat_ep_reset(&objects[i + 1]),
                             DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
        }
    }
}

/// The registry remembers pages that it has read. A call that destroys an object and succeeds makes
/// it forget the object's page, which may be unmapped then; one that fails does not.
template <typename Call>
void assert_uncached() {
    const mapped_page page;
    const DAT_HANDLE handle = page.place_object("whole");
    assert_int_equal(dat_ep_reset(handle), DAT_SUCCESS);
    state->status = DAT_MAKE_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
    assert_int_equal(call_function<Call>(handle), state->status.load());
    state->status = DAT_SUCCESS;
    assert_int_equal(call_function<Call>(handle), DAT_SUCCESS);
    munmap(page.memory, PAGE);
    assert_int_equal(dat_ep_reset(handle),
                     DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
}

void freed_object_leaves_page_cache(void **) {
    int num_calls = 0;
    for_each_call([&num_calls]<typename Call>(Call) {
        constexpr std::array DESTROYING_CALLS = {
            offsetof(DAT_PROVIDER, ep_free_func),   offsetof(DAT_PROVIDER, evd_free_func),
            offsetof(DAT_PROVIDER, cno_free_func),  offsetof(DAT_PROVIDER, lmr_free_func),
            offsetof(DAT_PROVIDER, rmr_free_func),  offsetof(DAT_PROVIDER, pz_free_func),
            offsetof(DAT_PROVIDER, psp_free_func),  offsetof(DAT_PROVIDER, rsp_free_func),
            offsetof(DAT_PROVIDER, srq_free_func),  offsetof(DAT_PROVIDER, cr_accept_func),
            offsetof(DAT_PROVIDER, cr_reject_func), offsetof(DAT_PROVIDER, cr_handoff_func),
#ifndef COHERDMA_DAT1
            offsetof(DAT_PROVIDER, csp_free_func),
#endif
        };
        for (const std::size_t offset : DESTROYING_CALLS) {
            if (offset == member_offset<Call::member>()) {
                assert_uncached<Call>();
                ++num_calls;
            }
        }
    });
    assert_int_equal(num_calls, MAJOR == 2 ? 13 : 12);
}

/// The provider is unregistered; this test keeps its library loaded.
void handles_of_unloaded_provider_rejected(void **) {
    const DAT_IA_HANDLE closed_ia = open_ia_ok("second");
    stub::object object, ia_copy;
    object.provider = state->find_table("second");
    std::memcpy(&ia_copy, convert_handle(closed_ia), sizeof ia_copy);
    assert_int_equal(dat_ep_reset(&object), DAT_SUCCESS);
    close_ia_ok(closed_ia);
    for_each_call([&]<typename Call>(Call) {
        assert_rejected<Call>(&object, "an object of an unloaded provider");
        assert_rejected<Call>(&ia_copy, "an IA of an unloaded provider");
        if constexpr (TAKES_IA<Call> || Call::subtype == DAT_INVALID_HANDLE1)
            assert_rejected<Call>(closed_ia, "a closed IA");
    });
}

int setup(void **) {
    use_conf(conf_line("whole", "") + conf_line("second", "") + conf_line("gaps", "gaps"));
    state = &load_stub();
    ia = open_ia_ok("whole");
    return 0;
}

int teardown(void **) {
    close_ia_ok(ia);
    return 0;
}

} // namespace

int main() {
    setenv("COHERDMA_DAT_LIVE", "0", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(calls_reach_provider),
        cmocka_unit_test(calls_accept_provider_handle_of_ia),
        cmocka_unit_test(invalid_handles_rejected),
        cmocka_unit_test(get_ia_handle_rejects_invalid_handles),
        cmocka_unit_test(missing_function_gives_model_not_supported),
        cmocka_unit_test(objects_of_two_providers_in_one_page_work),
        cmocka_unit_test(more_pages_than_cache_slots_work),
        cmocka_unit_test(freed_object_leaves_page_cache),
        cmocka_unit_test(handles_of_unloaded_provider_rejected),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Each of a registry's calls leads to the provider's function of the same name, with all arguments
// as they came; and no value at all does harm as a handle.

#include <array>
#include <sys/mman.h>
#include <vector>

#include "registry.hpp"
#include "registry_calls.hpp"

using namespace registry_test;

namespace {

constexpr std::size_t PAGE = 4096;

stub::state *state;
DAT_IA_HANDLE ia;

/// Some argument of a type, different each time.
template <typename Argument>
Argument some() {
    static unsigned char next = 1;
    Argument value;
    std::memset(&value, next, sizeof value);
    next = static_cast<unsigned char>(next + 1);
    return value;
}

/// What was given, as the stub remembers it.
struct expected {
    std::vector<unsigned char> bytes;
    template <typename Argument>
    void add(const Argument &argument) {
        const auto *begin = reinterpret_cast<const unsigned char *>(&argument);
        bytes.insert(bytes.end(), begin, begin + sizeof argument);
    }
};

template <typename Call, typename... Rest>
DAT_RETURN call_with(DAT_HANDLE handle, DAT_HANDLE inside, expected *into,
                     DAT_RETURN (*function)(DAT_HANDLE, Rest...)) {
    const std::tuple<Rest...> rest = {some<Rest>()...};
    if (into) {
        into->add(inside);
        std::apply([into](const auto &...each) { (into->add(each), ...); }, rest);
    }
    return std::apply([&](auto... each) { return function(handle, each...); }, rest);
}

template <typename Call>
DAT_RETURN call_plainly(DAT_HANDLE handle) {
    return call_with<Call>(handle, handle, nullptr, Call::function);
}

template <typename Action>
void each_call(const Action &action) {
    std::apply([&action](auto... calls) { (action(calls), ...); }, registry_calls::all());
}

template <auto Member>
std::size_t place_of() {
    const DAT_PROVIDER none = {};
    return static_cast<std::size_t>(reinterpret_cast<const char *>(&(none.*Member)) -
                                    reinterpret_cast<const char *>(&none));
}

template <typename Call>
constexpr bool IS_OF_IA = Call::subtype == DAT_INVALID_HANDLE_IA;

template <typename Call>
void is_passed_on(DAT_HANDLE handle, DAT_HANDLE inside) {
    constexpr DAT_RETURN ANSWER = DAT_MAKE_ERROR(DAT_ABORT, DAT_INVALID_ARG9);
    state->status = ANSWER;
    state->recording = true;
    expected wanted;
    const DAT_RETURN got = call_with<Call>(handle, inside, &wanted, Call::function);
    state->recording = false;
    state->status = DAT_SUCCESS;
    assert_int_equal(got, ANSWER);
    assert_int_equal(state->member, place_of<Call::member>());
    assert_int_equal(state->size, wanted.bytes.size());
    assert_memory_equal(state->bytes, wanted.bytes.data(), wanted.bytes.size());
}

/// Twice: the second time the place is known.
void every_call_is_passed_on(void **) {
    stub::object object;
    object.provider = state->provider("whole");
    each_call([&object]<typename Call>(Call) {
        for (int round = 0; round < 2; ++round) {
            if constexpr (IS_OF_IA<Call>)
                is_passed_on<Call>(ia, address_of(ia));
            else
                is_passed_on<Call>(&object, &object);
        }
    });
}

void an_ia_has_an_address(void **) {
    const DAT_IA_HANDLE inside = address_of(ia);
    each_call([inside]<typename Call>(Call) {
        if constexpr (IS_OF_IA<Call> || Call::subtype == DAT_INVALID_HANDLE1)
            is_passed_on<Call>(inside, inside);
    });
    is_passed_on<std::tuple_element_t<0, registry_calls::all>>(ia, inside);
}

template <typename Call>
void is_refused(DAT_HANDLE handle, const char *what) {
    const DAT_RETURN wanted = DAT_MAKE_ERROR(DAT_INVALID_HANDLE, Call::subtype);
    if (const DAT_RETURN got = call_plainly<Call>(handle); got != wanted)
        fail_msg("%s (%p): %#x, not %#x (function at %zu)", what, handle, got, wanted,
                 place_of<Call::member>());
}

DAT_HANDLE at(std::uintptr_t address) {
    return reinterpret_cast<DAT_HANDLE>(address);
}

/// Memory for an object that somebody takes away.
struct page {
    page() {
        void *got =
            mmap(nullptr, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(got, MAP_FAILED);
        memory = static_cast<char *>(got);
        munmap(memory + PAGE, PAGE);
    }
    ~page() { munmap(memory, PAGE); }
    page(const page &) = delete;
    page &operator=(const page &) = delete;

    stub::object *object(const char *provider) const {
        auto *made = reinterpret_cast<stub::object *>(memory);
        made->provider = state->provider(provider);
        return made;
    }
    char *memory;
};

void no_value_does_harm(void **) {
    const page mapped, hidden;
    mprotect(hidden.memory, PAGE, PROT_NONE);
    std::array<unsigned long, 64> garbage = {};
    std::array<const void *, 4> almost = {"text that is no provider", &almost, ia,
                                          state->provider("whole") + 1};
    stub::object object;
    object.provider = state->provider("whole");
    auto *const middle = reinterpret_cast<char *>(&object);
    assert_int_equal(dat_ep_reset(&object), DAT_SUCCESS); // so that its page is known
    mapped.object("whole");
    assert_int_equal(dat_ep_reset(mapped.memory), DAT_SUCCESS);
    const struct {
        DAT_HANDLE handle;
        const char *what;
    } cases[] = {
        {nullptr, "NULL"},
        {at(1), "an integer that may be an IA"},
        {at(99), "an integer"},
        {at(4088), "an integer"},
        {at(4095), "an integer"},
        {at(4096), "the second page"},
        {at(~std::uintptr_t{0}), "-1"},
        {at(~std::uintptr_t{7}), "the last word"},
        {at(std::uintptr_t{1} << 63), "no address"},
        {at(0xffffffff81000000), "the kernel's"},
        {hidden.memory, "PROT_NONE"},
        {mapped.memory + PAGE, "behind what is mapped"},
        {mapped.memory + PAGE - 4, "across the end of it"},
        {middle + 1, "misaligned, in a known page"},
        {middle + 4, "misaligned, in a known page"},
        {middle + 8, "the middle of an object"},
        {garbage.data(), "zeros"},
        {almost.data(), "a word that is an address of text"},
        {almost.data() + 1, "a word that is an address"},
        {almost.data() + 2, "a word that is an integer"},
        {almost.data() + 3, "a word that is nearly a provider"},
        {reinterpret_cast<DAT_HANDLE>(&no_value_does_harm), "code"},
    };
    for (const auto &each : cases) {
        // An integer may be an IA, where one is looked for.
        const bool is_ia = each.handle == ia;
        each_call([&each, is_ia]<typename Call>(Call) {
            if (!is_ia || (!IS_OF_IA<Call> && Call::subtype != DAT_INVALID_HANDLE1))
                is_refused<Call>(each.handle, each.what);
        });
        if (!is_ia)
            assert_int_equal(dat_ia_close(each.handle, DAT_CLOSE_ABRUPT_FLAG), NO_IA);
    }
    // An object of another kind is no IA.
    each_call([&object]<typename Call>(Call) {
        if constexpr (IS_OF_IA<Call>)
            is_refused<Call>(&object, "an object that is no IA");
    });
    assert_int_equal(dat_ia_close(&object, DAT_CLOSE_ABRUPT_FLAG), NO_IA);
}

void translations_of_nonsense(void **) {
    DAT_IA_HANDLE other = at(77);
    stub::object object;
    for (const DAT_HANDLE each : {DAT_HANDLE{}, at(99), at(4095), at(4096), at(~std::uintptr_t{7}),
                                  static_cast<DAT_HANDLE>(&object)}) {
        assert_int_equal(dats_get_ia_handle(each, &other), NO_IA);
        assert_ptr_equal(other, at(77));
    }
    assert_int_equal(dats_get_ia_handle(ia, nullptr),
                     DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_int_equal(dats_get_ia_handle(address_of(ia), &other), DAT_SUCCESS);
    assert_ptr_equal(other, ia);
}

/// A provider that lacks functions says so by error, and lacks no others.
void gaps(void **) {
    const DAT_IA_HANDLE other = opened("holey");
    stub::object object, whole;
    object.provider = state->provider("holey");
    whole.provider = state->provider("whole");
    each_call([&](auto call) {
        using Call = decltype(call);
        const DAT_HANDLE handle = IS_OF_IA<Call> ? other : &object;
        for (int round = 0; round < 2; ++round)
            assert_int_equal(call_plainly<Call>(handle),
                             DAT_MAKE_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE));
        is_passed_on<Call>(IS_OF_IA<Call> ? ia : &whole, IS_OF_IA<Call> ? address_of(ia) : &whole);
    });
    closed(other);
}

/// Objects of several providers in one page, as malloc may place them.
void providers_side_by_side(void **) {
    const DAT_IA_HANDLE other = opened("second"), third = opened("holey");
    std::array<stub::object, 12> objects;
    for (std::size_t place = 0; place < objects.size(); ++place)
        objects[place].provider = state->provider(place % 2 ? "whole" : "second");
    each_call([&]<typename Call>(Call) {
        if constexpr (!IS_OF_IA<Call>) {
            for (auto &object : objects)
                is_passed_on<Call>(&object, &object);
        }
    });
    closed(third);
    closed(other);
    assert_int_equal(dat_ep_reset(&objects[1]), DAT_SUCCESS);
    assert_int_equal(dat_ep_reset(&objects[0]),
                     DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
}

/// More pages than are kept, so that they push each other out.
void many_pages(void **) {
    constexpr std::size_t COUNT = 5000;
    std::vector<stub::object> objects(COUNT * PAGE / sizeof(stub::object));
    const std::size_t step = PAGE / sizeof(stub::object);
    for (std::size_t place = 0; place < objects.size(); place += step)
        objects[place].provider = state->provider("whole");
    for (int round = 0; round < 2; ++round) {
        for (std::size_t place = 0; place < objects.size(); place += step) {
            assert_int_equal(dat_ep_reset(&objects[place]), DAT_SUCCESS);
            assert_int_equal(dat_ep_reset(&objects[place + 1]),
                             DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
        }
    }
}

/// Whoever frees an object may give its page back.
template <typename Call>
void is_forgotten() {
    const page taken;
    const DAT_HANDLE handle = taken.object("whole");
    assert_int_equal(dat_ep_reset(handle), DAT_SUCCESS);
    state->status = DAT_MAKE_ERROR(DAT_INVALID_STATE, DAT_NO_SUBTYPE);
    assert_int_equal(call_plainly<Call>(handle), state->status.load());
    state->status = DAT_SUCCESS;
    assert_int_equal(call_plainly<Call>(handle), DAT_SUCCESS);
    munmap(taken.memory, PAGE);
    assert_int_equal(dat_ep_reset(handle),
                     DAT_MAKE_ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_EP));
}

void what_was_freed_may_vanish(void **) {
    int freed = 0;
    each_call([&freed]<typename Call>(Call) {
        constexpr std::array LAST = {
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
        for (const std::size_t each : LAST) {
            if (each == place_of<Call::member>()) {
                is_forgotten<Call>();
                ++freed;
            }
        }
    });
    assert_int_equal(freed, MAJOR == 2 ? 13 : 12);
}

/// The library is still there, for this test has it open. Its provider is not.
void a_provider_that_is_gone(void **) {
    const DAT_IA_HANDLE other = opened("second");
    stub::object object, copy_of_ia;
    object.provider = state->provider("second");
    std::memcpy(&copy_of_ia, address_of(other), sizeof copy_of_ia);
    assert_int_equal(dat_ep_reset(&object), DAT_SUCCESS);
    closed(other);
    each_call([&]<typename Call>(Call) {
        is_refused<Call>(&object, "an object of a provider that is gone");
        is_refused<Call>(&copy_of_ia, "an IA of a provider that is gone");
        if constexpr (IS_OF_IA<Call> || Call::subtype == DAT_INVALID_HANDLE1)
            is_refused<Call>(other, "an IA that is closed");
    });
}

int set_up(void **) {
    use_conf(record("whole", "") + record("second", "") + record("holey", "gaps"));
    state = &stub_of();
    ia = opened("whole");
    return 0;
}

int tear_down(void **) {
    closed(ia);
    return 0;
}

} // namespace

int main() {
    setenv("COHERDMA_DAT_LIVE", "0", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_call_is_passed_on),
        cmocka_unit_test(an_ia_has_an_address),
        cmocka_unit_test(no_value_does_harm),
        cmocka_unit_test(translations_of_nonsense),
        cmocka_unit_test(gaps),
        cmocka_unit_test(providers_side_by_side),
        cmocka_unit_test(many_pages),
        cmocka_unit_test(what_was_freed_may_vanish),
        cmocka_unit_test(a_provider_that_is_gone),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

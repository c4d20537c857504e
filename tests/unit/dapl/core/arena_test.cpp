// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dapl/core/arena.hpp: valid handles, freed handles, and invalid addresses.

#include "dapl/core/arena.hpp"

#include <array>
#include <csetjmp>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

using namespace coherdma::dapl;

struct small : slot {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_PZ;
    explicit small(int initial)
        : value(initial) {}
    ~small() { value = -1; }
    int value;
};

struct large : slot {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_EP;
    std::array<char, 1000> bytes = {};
};

/// Only one test frees objects of this type.
struct other : slot {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_LMR;
};

const DAT_PROVIDER some_table = {};

template <class kind, class... arguments>
kind *make(arguments... args) {
    kind *const obj = create_object<kind>(args...);
    if (obj == nullptr)
        std::abort();
    return obj;
}

/// lookup() and handle_to() resolve a DAT handle; both return nothing unless the object is
/// published.
void handle_valid_only_while_published(void **) {
    small *const obj = make<small>(5);
    assert_int_equal(reinterpret_cast<std::uintptr_t>(obj) % 64, 0);
    assert_null(lookup<small>(obj).get());
    assert_null(handle_to<small>(obj).get());
    publish(obj, &some_table);
    assert_ptr_equal(lookup<small>(obj).get(), obj);
    assert_ptr_equal(handle_to<small>(obj).get(), obj);
    DAT_PROVIDER *first = nullptr;
    std::memcpy(&first, obj, sizeof first);
    assert_ptr_equal(first, &some_table);
    unpublish(obj);
    assert_null(lookup<small>(obj).get());
    assert_null(handle_to<small>(obj).get());
    destroy_object(obj);
    assert_null(lookup<small>(obj).get());
    // A registry may still read the table of a freed object.
    std::memcpy(&first, static_cast<void *>(obj), sizeof first);
    assert_ptr_equal(first, &some_table);
}

/// A consumer may pass any number as a handle: of another type, within an object, unmapped, or of a
/// copy.
void other_addresses_rejected_as_handles(void **) {
    small *const obj = make<small>(5);
    large *const large_obj = make<large>();
    publish(obj, &some_table);
    publish(large_obj, &some_table);
    assert_null(lookup<large>(obj).get());
    assert_null(lookup<small>(large_obj).get());
    assert_null(handle_to<large>(obj).get());
    assert_null(handle_to<small>(large_obj).get());
    char *const bytes = reinterpret_cast<char *>(large_obj);
    for (std::size_t offset = 1; offset != sizeof(large); ++offset) {
        assert_null(lookup<large>(bytes + offset).get());
        assert_null(handle_to<large>(bytes + offset).get());
    }
    int local = 0;
    for (const std::uintptr_t it :
         {std::uintptr_t{0}, std::uintptr_t{1}, std::uintptr_t{64}, std::uintptr_t{4096},
          ~std::uintptr_t{0}, ~std::uintptr_t{63}, std::uintptr_t{1} << 63,
          reinterpret_cast<std::uintptr_t>(&local) / 64 * 64,
          reinterpret_cast<std::uintptr_t>(bytes) + (std::uintptr_t{1} << 30)})
        assert_null(lookup<large>(reinterpret_cast<void *>(it)).get());
    // A copy does not match its tag, which contains the address.
    alignas(64) std::array<char, sizeof(large)> copy;
    std::memcpy(copy.data(), bytes, sizeof(large));
    assert_null(lookup<large>(copy.data()).get());
    assert_null(handle_to<large>(copy.data()).get());
    unpublish(obj);
    unpublish(large_obj);
    destroy_object(obj);
    destroy_object(large_obj);
}

/// An address never holds objects of two types, so that the type of a stale handle is certain.
void slots_of_types_are_distinct(void **) {
    std::set<void *> addresses;
    std::vector<small *> objects;
    for (int n = 0; n != 5000; ++n) {
        objects.push_back(make<small>(n));
        assert_true(addresses.insert(objects.back()).second);
    }
    for (small *it : objects)
        destroy_object(it);
    large *const large_obj = make<large>();
    assert_int_equal(addresses.count(large_obj), 0);
    destroy_object(large_obj);
}

/// A freed slot is reused late, so that a stale handle does not soon name a new object.
void freed_slot_reused_after_many_frees(void **) {
    const auto make_and_free = [] {
        other *const obj = make<other>();
        destroy_object(obj);
        return obj;
    };
    const other *const freed = make_and_free();
    for (std::size_t n = 0; n != object_arena::min_freed; ++n)
        assert_ptr_not_equal(make_and_free(), freed);
    assert_ptr_equal(make_and_free(), freed);
}

void concurrent_make_and_free_keeps_objects_apart(void **) {
    std::vector<std::thread> threads;
    std::atomic<unsigned> num_errors = 0;
    for (int n = 0; n != 4; ++n)
        threads.emplace_back([&num_errors, n] {
            for (int round = 0; round != 2000; ++round) {
                small *const obj = make<small>(n * 10000 + round);
                publish(obj, &some_table);
                num_errors += lookup<small>(obj).get() != obj || obj->value != n * 10000 + round;
                unpublish(obj);
                destroy_object(obj);
            }
        });
    for (std::thread &it : threads)
        it.join();
    assert_int_equal(num_errors, 0);
}

constexpr std::size_t num_slots = 10000; ///< more than the other tests use of a type

void parent_handles_invalid_in_child(void **) {
    std::set<void *> parent_addresses; // of all slots of the type
    for (std::size_t n = 0; n != 2 * num_slots; ++n) {
        small *const freed = make<small>(0);
        parent_addresses.insert(freed);
        destroy_object(freed);
    }
    small *const obj = make<small>(5);
    publish(obj, &some_table);
    const pid_t child = fork();
    if (child == 0) {
        int num_errors = 0;
        num_errors += lookup<small>(obj).get() != nullptr;
        num_errors += handle_to<small>(obj).get() != nullptr;
        small *const child_obj = make<small>(6);
        publish(child_obj, &some_table);
        num_errors += lookup<small>(child_obj).get() != child_obj;
        num_errors += parent_addresses.contains(child_obj);
        num_errors += lookup<small>(obj).get() != nullptr;
        _exit(num_errors);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ptr_equal(lookup<small>(obj).get(), obj);
    assert_int_equal(obj->value, 5);
    unpublish(obj);
    destroy_object(obj);
}

/// Under a limit of the address space, as of `ulimit -v`, handles leave most of it to the program.
void limited_address_space_is_left_to_program(void **) {
#if defined(COHERDMA_ASAN) || defined(COHERDMA_TSAN)
    print_message("# skipped: the sanitizer's shadow memory exceeds the limit\n");
    skip();
#endif
    const pid_t child = fork();
    if (child == 0) { // it has not reserved address space yet
        constexpr std::size_t limit = std::size_t{3} << 29, program_size = std::size_t{1} << 30;
        const rlimit limits = {limit, limit};
        int num_errors = setrlimit(RLIMIT_AS, &limits) != 0;
        num_errors += create_object<small>(6) == nullptr;
        num_errors += mmap(nullptr, program_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
                      MAP_FAILED;
        _exit(num_errors);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

} // namespace

int main() {
    object_arena::register_atfork();
    const CMUnitTest tests[] = {
        cmocka_unit_test(handle_valid_only_while_published),
        cmocka_unit_test(other_addresses_rejected_as_handles),
        cmocka_unit_test(slots_of_types_are_distinct),
        cmocka_unit_test(freed_slot_reused_after_many_frees),
        cmocka_unit_test(concurrent_make_and_free_keeps_objects_apart),
        cmocka_unit_test(parent_handles_invalid_in_child),
        cmocka_unit_test(limited_address_space_is_left_to_program),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

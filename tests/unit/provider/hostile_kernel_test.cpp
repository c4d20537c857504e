// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Rings that a broken kernel writes: random inputs, the same in each run. tests/fuzz searches for
// more.

#include "hostile_kernel.hpp"

#include "../cmocka.hpp"

#include <random>

namespace {

template <class kernel>
void random_rings_are_survived(void **) {
    std::mt19937 random(1); // of the standard's definition
    std::vector<unsigned char> bytes(3000);
    for (int run = 0; run < 100; ++run) {
        for (unsigned char &byte : bytes)
            byte = static_cast<unsigned char>(random());
        fake::run_hostile_program<kernel>(bytes);
    }
}

void random_rxe_rings_are_survived(void **state) {
    random_rings_are_survived<fake::rxe_kernel>(state);
}
void random_siw_rings_are_survived(void **state) {
    random_rings_are_survived<fake::siw_kernel>(state);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(random_rxe_rings_are_survived),
        cmocka_unit_test(random_siw_rings_are_survived),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

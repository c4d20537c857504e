// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// conform: does this libdat2 with this provider do what uDAPL 2.0 promises? See README.md.

#include "lib/cases.hpp"

int main(int argc, char **argv) {
    return conform::run_program(argc, argv, conform::all_cases());
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The consumer: its cases, with conform's command line.

#include "fixture.hpp"

int main(int argc, char **argv) {
    conform::case_list cases;
    for (const auto add :
         {hostile_peer::add_private_data, hostile_peer::add_over_sending,
          hostile_peer::add_half_open, hostile_peer::add_flood, hostile_peer::add_vanish})
        add(cases);
    return conform::run_program(argc, argv, cases);
}

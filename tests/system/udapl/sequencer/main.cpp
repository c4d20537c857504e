// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// sequencer: do random calls of several threads give legal results? See README.md.

#include "run.hpp"

int main(int argc, char **argv) {
    return sequencer::run_program(argc, argv, {});
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "command.hpp"

void tools::add_show(CLI::App &, int &) {}
void tools::add_explain(CLI::App &, int &) {}

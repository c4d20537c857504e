// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libFuzzer: whatever a kernel writes into rxe's rings, the driver stays within them.

#include "hostile_kernel.hpp"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *bytes, std::size_t size) {
    fake::run_hostile_program<fake::rxe_kernel>({bytes, size});
    return 0;
}

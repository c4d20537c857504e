// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
//   scale IA endpoints|cycles|regions|opens COUNT
//
// A uDAPL program with many objects. It verifies its data, and compares memory, descriptors and
// threads at the end with those after the first pass.

#include "modes.hpp"
#include "usage.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char **argv) {
    using namespace scale;
    const std::size_t count = argc == 4 ? std::strtoul(argv[3], nullptr, 10) : 0;
    if (count == 0) {
        std::fputs("usage: scale IA endpoints|cycles|regions|opens COUNT\n", stderr);
        return 2;
    }
    use_one_heap();
    const usage before = read_usage();
    if (std::strcmp(argv[2], "opens") == 0) {
        test_opens(argv[1], count);
    } else {
        const scale_ia ia(argv[1]);
        const char *const mode = argv[2];
        if (std::strcmp(mode, "endpoints") == 0)
            test_endpoints(ia, count);
        else if (std::strcmp(mode, "cycles") == 0)
            test_cycles(ia, count);
        else if (std::strcmp(mode, "regions") == 0)
            test_regions(ia, count);
        else
            fail(mode, "neither endpoints, cycles, regions nor opens");
    }
    require_threads(before.threads); // The library's thread ends with the IA.
    return 0;
}

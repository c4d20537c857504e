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

int main(int count, char **words) {
    using namespace scale;
    const std::size_t many = count == 4 ? std::strtoul(words[3], nullptr, 10) : 0;
    if (many == 0) {
        std::fputs("usage: scale IA endpoints|cycles|regions|opens COUNT\n", stderr);
        return 2;
    }
    one_heap();
    const usage before = now();
    if (std::strcmp(words[2], "opens") == 0) {
        opens(words[1], many);
    } else {
        const adapter ia(words[1]);
        const char *const what = words[2];
        if (std::strcmp(what, "endpoints") == 0)
            endpoints(ia, many);
        else if (std::strcmp(what, "cycles") == 0)
            cycles(ia, many);
        else if (std::strcmp(what, "regions") == 0)
            regions(ia, many);
        else
            end_with(what, "neither endpoints, cycles, regions nor opens");
    }
    need_threads(before.threads); // The library's thread ends with the IA.
    return 0;
}

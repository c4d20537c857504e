// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A finding to be told.
#pragma once

#include "emulation.hpp"

namespace emulation_test {

inline finding some(kind is = kind::UNSYNCED_WRITE) {
    finding one;
    one.is = is;
    one.in.number = 3;
    one.in.where = {0x7f0000001000, 0x7f0000002000};
    one.in.rkey = 0x1234;
    one.in.device = "rxe0";
    one.where = {0x7f0000001080, 0x7f0000001100};
    one.first = 0x7f0000001082;
    one.program = {'a', 'b', 0};
    one.device = {0, 1, 2};
    one.request.words = "RDMA Write of 64 bytes, request 7, of process 123 (rping)";
    one.request.there = {"main (/usr/bin/rping+0x1234)", "?? (/lib/libc.so.6+0x5)"};
    return one;
}

inline std::size_t times(const std::string &all, const std::string &what) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = all.find(what, at)) != std::string::npos; ++at)
        ++count;
    return count;
}

} // namespace emulation_test

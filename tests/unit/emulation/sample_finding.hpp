// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A finding to report.
#pragma once

#include "cache_fixture.hpp"
#include "core/findings/format.hpp"

namespace emulation_test {

inline finding sample_finding(finding_kind kind = finding_kind::UNSYNCED_WRITE) {
    finding sample;
    sample.kind = kind;
    sample.mr.number = 3;
    sample.mr.range = {0x7f0000001000, 0x7f0000002000};
    sample.mr.rkey = 0x1234;
    sample.mr.device_name = "rxe0";
    sample.range = {0x7f0000001080, 0x7f0000001100};
    sample.line_size = 64;
    sample.first_diff = 0x7f0000001082;
    sample.program_bytes = {'a', 'b', 0};
    sample.device_bytes = {0, 1, 2};
    sample.after.text = "the registration";
    sample.before.text = "the peer's RDMA Write";
    sample.request.text = "RDMA Write of 64 bytes, request 7, of process 123 (rping)";
    sample.request.peer_stack = {"main (/usr/bin/rping+0x1234)", "?? (/lib/libc.so.6+0x5)"};
    return sample;
}

inline advice advice_for(const finding &sample) {
    source_files files;
    return make_advice(sample, files);
}
inline std::string as_text(const finding &sample) {
    return coherdma::emulation::as_text(sample, advice_for(sample));
}
inline std::string as_json(const finding &sample, const report_status &status = {}) {
    return coherdma::emulation::as_json(sample, advice_for(sample), status);
}

inline std::size_t count_of(const std::string &text, const std::string &part) {
    std::size_t count = 0;
    for (std::size_t pos = 0; (pos = text.find(part, pos)) != std::string::npos; ++pos)
        ++count;
    return count;
}

} // namespace emulation_test

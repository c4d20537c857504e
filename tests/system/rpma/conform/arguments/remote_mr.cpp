// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_mr_remote_*(), with descriptors made by hand. A descriptor has 21 bytes, little-endian:
// address (8), size (8), rkey (4), usage (1).

#include "../lib/descriptor.hpp"
#include "../lib/invalid.hpp"
#include "../lib/run.hpp"

namespace conform {

namespace {

constexpr int all_usages = 0xff;
using output = rpma_mr_remote *;

void expect_remote(const void *desc, std::size_t desc_size, std::uint64_t size, int flush_type) {
    rpma_mr_remote *mr = nullptr;
    if (!expect_return(rpma_mr_remote_from_descriptor(desc, desc_size, &mr), 0) || !mr)
        return;
    std::size_t got_size = 0;
    int got_type = -1;
    expect_return(rpma_mr_remote_get_size(mr, &got_size), 0);
    expect_eq(got_size, size, "the size");
    expect_return(rpma_mr_remote_get_flush_type(mr, &got_type), 0);
    expect_eq(got_type, flush_type, "the flush type");
    expect_return(rpma_mr_remote_delete(&mr), 0);
    expect_true(mr == nullptr, "the pointer is not NULL");
}

} // namespace

void add_remote_mr(case_list &cases) {
    add_case(cases, "remote_mr.size", [] {
        for (const std::uint64_t size :
             {std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{1} << 40, UINT64_MAX - 0x1000}) {
            const descriptor desc = make_descriptor(0x1000, size, 7, RPMA_MR_USAGE_READ_SRC);
            expect_remote(desc.data(), desc.size(), size, 0);
        }
    });
    add_case(cases, "remote_mr.byte_order", [] {
        const descriptor desc{0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
        expect_remote(desc.data(), desc.size(), 0x201, 0);
    });
    // Those of the usage, and no other.
    add_case(cases, "remote_mr.flush_type", [] {
        for (int usage = 1; usage <= all_usages; ++usage) {
            const scoped_trace trace(concat("usage ", usage));
            const descriptor desc = make_descriptor(0x1000, 8, 7, usage);
            expect_remote(desc.data(), desc.size(), 8,
                          usage & (RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
                                   RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT));
        }
    });
    add_case(cases, "remote_mr.truncated", [] {
        const descriptor desc = make_descriptor(0x1000, 8, 7, all_usages);
        for (std::size_t size = 0; size < desc.size(); ++size) {
            const scoped_trace trace(concat(size, " bytes"));
            expect_fails<output>(
                [&](output *out) { return rpma_mr_remote_from_descriptor(desc.data(), size, out); },
                RPMA_E_INVAL);
        }
    });
    add_case(cases, "remote_mr.longer", [] {
        const descriptor desc = make_descriptor(0x1000, 8, 7, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
        char bytes[100] = {};
        std::memcpy(bytes, desc.data(), desc.size());
        for (const std::size_t size : {desc.size() + 1, sizeof bytes})
            expect_remote(bytes, size, 8, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT);
    });
    add_case(cases, "remote_mr.unaligned", [] {
        const descriptor desc = make_descriptor(0x1000, 8, 7, RPMA_MR_USAGE_READ_SRC);
        alignas(8) char bytes[descriptor().size() + 8];
        for (std::size_t shift = 0; shift < 8; ++shift) {
            std::memcpy(bytes + shift, desc.data(), desc.size());
            expect_remote(bytes + shift, desc.size(), 8, 0);
        }
    });
    add_case(cases, "remote_mr.empty", [] {
        const descriptor desc = make_descriptor(0x1000, 0, 7, RPMA_MR_USAGE_READ_SRC);
        expect_fails<output>(
            [&](output *out) {
                return rpma_mr_remote_from_descriptor(desc.data(), desc.size(), out);
            },
            RPMA_E_NOSUPP);
    });
    // It ends beyond the last address.
    add_case(cases, "remote_mr.wraps", [] {
        const descriptor desc = make_descriptor(0x1000, UINT64_MAX, 7, RPMA_MR_USAGE_READ_SRC);
        expect_fails<output>(
            [&](output *out) {
                return rpma_mr_remote_from_descriptor(desc.data(), desc.size(), out);
            },
            RPMA_E_NOSUPP);
    });
    // No MR is registered without a usage. The original's page says RPMA_E_NOSUPP.
    add_case(cases, "remote_mr.no_usage", [] {
        const descriptor desc = make_descriptor(0x1000, 8, 7, 0);
        expect_fails<output>(
            [&](output *out) {
                return rpma_mr_remote_from_descriptor(desc.data(), desc.size(), out);
            },
            RPMA_E_INVAL);
    });
    add_case(cases, "remote_mr.null", [] {
        const descriptor desc = make_descriptor(0x1000, 8, 7, 1);
        expect_fails<output>(
            [&](output *out) { return rpma_mr_remote_from_descriptor(nullptr, desc.size(), out); },
            RPMA_E_INVAL);
        expect_return(rpma_mr_remote_from_descriptor(desc.data(), desc.size(), nullptr),
                      RPMA_E_INVAL);
        expect_return(rpma_mr_remote_from_descriptor(nullptr, 0, nullptr), RPMA_E_INVAL);
    });
}

} // namespace conform

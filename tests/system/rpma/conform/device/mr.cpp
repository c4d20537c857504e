// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_mr_*() of local MRs; rpma_mr_advise() is in advise.cpp.

#include "../lib/device.hpp"
#include "../lib/invalid.hpp"

#include <bit>
#include <sys/mman.h>
#include <unistd.h>

namespace conform {

namespace {

constexpr int all_usages = 0xff;
using output = rpma_mr_local *;

void expect_described(test_mr &mr, std::size_t size, int usage) {
    void *ptr = nullptr;
    std::size_t got_size = 0;
    int flush_type = -1;
    expect_return(rpma_mr_get_ptr(mr.get(), &ptr), 0);
    expect_true(ptr == mr.data(), "the pointer is another");
    expect_return(rpma_mr_get_size(mr.get(), &got_size), 0);
    expect_eq(got_size, size, "the size");
    expect_return(rpma_mr_remote_get_size(mr.remote(), &got_size), 0);
    expect_eq(got_size, size, "the remote size");
    expect_return(rpma_mr_remote_get_flush_type(mr.remote(), &flush_type), 0);
    expect_eq(flush_type,
              usage & (RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT),
              "the flush type");
    const descriptor desc = mr.desc();
    std::uint32_t rkey = 0;
    for (std::size_t i = 0; i != sizeof rkey; ++i)
        rkey |= static_cast<std::uint32_t>(desc[16 + i]) << 8 * i;
    expect_true(desc ==
                    make_descriptor(std::bit_cast<std::uintptr_t>(mr.data()), size, rkey, usage),
                "the descriptor is another");
}

} // namespace

void add_mr(case_list &cases) {
    add_case(cases, "mr.usage", [] {
        const test_peer peer;
        for (int usage = 1; usage <= all_usages; usage <<= 1) {
            const scoped_trace trace(concat("usage ", usage));
            test_mr mr(peer, usage);
            expect_described(mr, test_mr::default_size, usage);
        }
        test_mr mr(peer, all_usages);
        expect_described(mr, test_mr::default_size, all_usages);
    });
    add_case(cases, "mr.size", [] {
        const test_peer peer;
        for (const std::size_t size : {1u, 7u, 8u, 4095u, 4097u, 100000u, 1u << 20}) {
            const scoped_trace trace(concat(size, " bytes"));
            test_mr mr(peer, RPMA_MR_USAGE_WRITE_DST, size);
            expect_described(mr, size, RPMA_MR_USAGE_WRITE_DST);
        }
    });
    add_case(cases, "mr.lifetime", [] {
        const test_peer peer;
        static char memory[64];
        rpma_mr_local *mr = nullptr;
        require_ok(rpma_mr_reg(peer.get(), memory, sizeof memory, RPMA_MR_USAGE_RECV, &mr));
        expect_return(rpma_mr_dereg(&mr), 0);
        expect_true(mr == nullptr, "the pointer is not NULL");
        expect_return(rpma_mr_dereg(&mr), 0);
    });
    add_case(cases, "mr.same_memory_twice", [] {
        const test_peer peer;
        static char memory[4096];
        mr_handle mr, other;
        require_ok(rpma_mr_reg(peer.get(), memory, sizeof memory, all_usages, mr.out()));
        require_ok(rpma_mr_reg(peer.get(), memory + 10, 100, RPMA_MR_USAGE_SEND, other.out()));
        void *ptr = nullptr;
        expect_return(rpma_mr_get_ptr(other.get(), &ptr), 0);
        expect_true(ptr == memory + 10, "the pointer is another");
    });
    add_case(cases, "mr.invalid_usage", [] {
        const test_peer peer;
        static char memory[64];
        for (const int usage : {0, 1 << 8, all_usages + 1 + 1, 1 << 30, -1})
            expect_fails<output>(
                [&](output *out) {
                    return rpma_mr_reg(peer.get(), memory, sizeof memory, usage, out);
                },
                RPMA_E_INVAL);
    });
    add_case(cases, "mr.unmapped_memory", [] {
        const test_peer peer;
        const auto page_size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        void *memory = mmap(nullptr, page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(memory != MAP_FAILED && munmap(memory, page_size) == 0, "mmap");
        expect_fails<output>(
            [&](output *out) {
                return rpma_mr_reg(peer.get(), memory, page_size, RPMA_MR_USAGE_WRITE_DST, out);
            },
            RPMA_E_PROVIDER);
    });
    // Sending needs no access to write.
    add_case(cases, "mr.read_only_memory", [] {
        const test_peer peer;
        const auto page_size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        void *memory = mmap(nullptr, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(memory != MAP_FAILED, "mmap");
        mr_handle mr;
        expect_return(rpma_mr_reg(peer.get(), memory, page_size,
                                  RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_READ_SRC, mr.out()),
                      0);
        expect_fails<output>(
            [&](output *out) {
                return rpma_mr_reg(peer.get(), memory, page_size, RPMA_MR_USAGE_WRITE_DST, out);
            },
            RPMA_E_PROVIDER);
    });
    add_case(cases, "mr.null_output", [] {
        const test_peer peer;
        test_mr mr(peer, RPMA_MR_USAGE_SEND);
        expect_return(rpma_mr_get_ptr(mr.get(), nullptr), RPMA_E_INVAL);
        expect_return(rpma_mr_get_size(mr.get(), nullptr), RPMA_E_INVAL);
        expect_return(rpma_mr_get_descriptor(mr.get(), nullptr), RPMA_E_INVAL);
        expect_return(rpma_mr_get_descriptor_size(mr.get(), nullptr), RPMA_E_INVAL);
        expect_return(rpma_mr_reg(peer.get(), mr.data(), 8, RPMA_MR_USAGE_SEND, nullptr),
                      RPMA_E_INVAL);
    });
}

} // namespace conform

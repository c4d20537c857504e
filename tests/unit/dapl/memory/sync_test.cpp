// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_lmr_sync_rdma_read and _write: the segments passed to libcoherdma.

#include "fake/two_eps.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace fake;

namespace {

void sync_read_and_write_passed_to_libcoherdma(void **) {
    ia_fixture ia;
    memory buffer(ia);
    const DAT_LMR_TRIPLET segments[] = {buffer.lmr_triplet(0, 64), buffer.lmr_triplet(128, 3968)};
    assert_success(dat().lmr_sync_rdma_read_func(ia.handle, segments, 2));
    assert_success(dat().lmr_sync_rdma_write_func(ia.handle, segments, 1));
    assert_int_equal(get_fabric().syncs.size(), 2);
    assert_false(get_fabric().syncs[0].is_write);
    assert_int_equal(get_fabric().syncs[0].ranges.size(), 2);
    assert_int_equal(get_fabric().syncs[0].ranges[1].addr, buffer.registered_address + 128);
    assert_int_equal(get_fabric().syncs[0].ranges[1].length, 3968);
    assert_true(get_fabric().syncs[1].is_write);
    assert_int_equal(get_fabric().syncs[1].ranges.size(), 1);
}

void sync_of_no_segments_succeeds(void **) {
    ia_fixture ia;
    assert_success(dat().lmr_sync_rdma_read_func(ia.handle, nullptr, 0));
    assert_success(dat().lmr_sync_rdma_write_func(ia.handle, nullptr, 0));
    assert_true(get_fabric().syncs.empty());
}

// A segment without bytes: its context must be valid, its address is ignored.
void sync_of_empty_segment_needs_valid_context(void **) {
    ia_fixture ia, other_ia;
    memory buffer(ia), lmr_of_other_ia(other_ia);
    memory zero_based(ia, 4096, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB);
    for (const auto sync : {dat().lmr_sync_rdma_read_func, dat().lmr_sync_rdma_write_func}) {
        for (const memory *it : {&buffer, &zero_based}) {
            const DAT_LMR_TRIPLET anywhere = {1, 0, it->lmr_context};
            assert_success(sync(ia.handle, &anywhere, 1));
        }
        get_fabric().syncs.clear();
        for (const DAT_LMR_CONTEXT context : {0U, 0x666U, lmr_of_other_ia.lmr_context}) {
            const DAT_LMR_TRIPLET list[] = {buffer.lmr_triplet(0, 64),
                                            {buffer.registered_address, 0, context}};
            assert_int_equal(sync(ia.handle, list, 2), invalid_parameter(2));
            assert_int_equal(sync(ia.handle, list + 1, 1), invalid_parameter(2));
        }
        assert_true(get_fabric().syncs.empty());
    }
}

void sync_translates_zero_based_addresses(void **) {
    ia_fixture ia;
    memory buffer(ia, 4096, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB);
    memory other_buffer(ia);
    std::vector<DAT_LMR_TRIPLET> segments;
    for (std::size_t i = 0; i != 100; ++i)
        segments.push_back(i % 2 == 0 ? buffer.lmr_triplet(i, 8) : other_buffer.lmr_triplet(i, 8));
    assert_success(dat().lmr_sync_rdma_write_func(ia.handle, segments.data(), segments.size()));
    assert_int_equal(get_fabric().syncs.size(), 1); // one call, one pair of fences
    const std::vector<coherdma_range> &ranges = get_fabric().syncs[0].ranges;
    assert_int_equal(ranges.size(), 100);
    for (std::size_t i = 0; i != 100; ++i) {
        const memory &expected = i % 2 == 0 ? buffer : other_buffer;
        assert_int_equal(ranges[i].addr,
                         reinterpret_cast<std::uintptr_t>(expected.bytes.data()) + i);
    }
}

/// Without memory for as many ranges, and without reading beyond the list.
void wrong_number_of_segments_rejected(void **) {
    ia_fixture ia;
    memory buffer(ia);
    DAT_LMR_TRIPLET segment = buffer.lmr_triplet(0, 8);
    segment.lmr_context = 0x666;
    for (const unsigned bits : {32U, 36U, 59U, 63U})
        assert_int_equal(
            dat().lmr_sync_rdma_write_func(ia.handle, &segment, (DAT_VLEN{1} << bits) + 1),
            invalid_parameter(2));
    assert_int_equal(dat().lmr_sync_rdma_read_func(ia.handle, &segment, ~DAT_VLEN{0}),
                     invalid_parameter(2));
}

void sync_of_freed_lmr_rejected(void **) {
    ia_fixture ia;
    get_fabric().reuse_keys = true;
    memory buffer(ia);
    const DAT_LMR_TRIPLET segment = buffer.lmr_triplet(0, 64);
    assert_success(dat().lmr_sync_rdma_write_func(ia.handle, &segment, 1));
    buffer.free();
    assert_int_equal(dat().lmr_sync_rdma_write_func(ia.handle, &segment, 1), invalid_parameter(2));
    memory new_buffer(ia); // has the same key
    assert_int_equal(new_buffer.lmr_context, segment.lmr_context);
    const DAT_LMR_TRIPLET new_segment = new_buffer.lmr_triplet(0, 64);
    assert_success(dat().lmr_sync_rdma_write_func(ia.handle, &new_segment, 1));
    assert_int_equal(get_fabric().syncs.back().ranges[0].addr, new_buffer.registered_address);
}

void sync_of_lmr_of_other_ia_rejected(void **) {
    ia_fixture ia, other_ia;
    memory buffer(other_ia);
    const DAT_LMR_TRIPLET segment = buffer.lmr_triplet(0, 64);
    assert_int_equal(dat().lmr_sync_rdma_write_func(ia.handle, &segment, 1), invalid_parameter(2));
    assert_true(get_fabric().syncs.empty());
}

void sync_with_one_bad_segment_does_nothing(void **) {
    ia_fixture ia;
    memory buffer(ia);
    memory zero_based(ia, 4096, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB);
    const DAT_LMR_TRIPLET wrong[] = {
        {1, 1, 1}, buffer.lmr_triplet(4000, 97), zero_based.lmr_triplet(0, 4097)};
    for (const memory *it : {&buffer, &zero_based})
        for (const DAT_LMR_TRIPLET &bad : wrong)
            for (const std::size_t count : {3U, 200U}) {
                std::vector<DAT_LMR_TRIPLET> list(count, it->lmr_triplet(0, 64));
                list.back() = bad;
                assert_int_equal(dat().lmr_sync_rdma_read_func(ia.handle, list.data(), count),
                                 invalid_parameter(2));
                assert_int_equal(dat().lmr_sync_rdma_write_func(ia.handle, list.data(), count),
                                 invalid_parameter(2));
            }
    assert_true(get_fabric().syncs.empty());
}

/// By the context; one byte more than the LMR is rejected.
void sync_finds_each_of_1000_lmrs(void **) {
    ia_fixture ia;
    std::vector<std::unique_ptr<memory>> buffers;
    for (int i = 0; i != 1000; ++i)
        buffers.push_back(std::make_unique<memory>(ia, 64));
    for (const auto &it : buffers) {
        const DAT_LMR_TRIPLET segment = it->lmr_triplet(0, 64), beyond = it->lmr_triplet(0, 65);
        assert_success(dat().lmr_sync_rdma_write_func(ia.handle, &segment, 1));
        assert_int_equal(dat().lmr_sync_rdma_write_func(ia.handle, &beyond, 1),
                         invalid_parameter(2));
    }
    for (const auto &it : buffers)
        it->free();
}

/// The Provider attribute says whether the device needs syncs.
void lmr_sync_req_follows_device(void **) {
    for (const std::uint32_t sync_required : {0U, 3U}) {
        reset_fabric(nullptr);
        get_fabric().sync_required = sync_required;
        ia_fixture ia;
        DAT_PROVIDER_ATTR attr = {};
        assert_success(
            dat().ia_query_func(ia.handle, nullptr, 0, nullptr, DAT_PROVIDER_FIELD_ALL, &attr));
        assert_int_equal(attr.lmr_sync_req, sync_required != 0 ? DAT_TRUE : DAT_FALSE);
        assert_int_equal(attr.optimal_buffer_alignment, 4096);
    }
}

// COHERDMA_CHECK: libcoherdma finds that memory is not mapped, or cannot find out.
void sync_errors_of_libcoherdma_returned(void **) {
    ia_fixture ia;
    memory buffer(ia);
    const DAT_LMR_TRIPLET segment = buffer.lmr_triplet(0, 64);
    get_fabric().injected.fail("coherdma_sync_after_write", EFAULT);
    assert_int_equal(dat().lmr_sync_rdma_write_func(ia.handle, &segment, 1), invalid_parameter(2));
    get_fabric().injected.fail("coherdma_sync_after_write", EMFILE);
    assert_int_equal(dat().lmr_sync_rdma_write_func(ia.handle, &segment, 1),
                     dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
}

/// A page of the program that another thread provides when it is read.
namespace page_on_demand {

std::atomic<bool> is_wanted, is_there;

void wait_for_page(int) {
    is_wanted = true;
    while (!is_there)
        usleep(1000);
}

} // namespace page_on_demand

/// To read a segment may wait for a thread, as with userfaultfd, and that thread for an LMR.
void segments_are_read_without_a_lock(void **) {
    ia_fixture ia;
    memory buffer(ia);
    const auto page_size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    void *mapping = mmap(nullptr, 2 * page_size, PROT_READ | PROT_WRITE, anonymous, -1, 0);
    assert_ptr_not_equal(mapping, MAP_FAILED);
    auto *const pages = static_cast<std::byte *>(mapping);
    // Its address is on the page that is missing, its length and context are on the next.
    void *segment = pages + page_size - offsetof(DAT_LMR_TRIPLET, segment_length);
    const DAT_LMR_TRIPLET triplet = buffer.lmr_triplet(0, 64);
    std::memcpy(segment, &triplet, sizeof triplet);
    struct sigaction on_fault = {}, before;
    on_fault.sa_handler = page_on_demand::wait_for_page;
    assert_int_equal(sigaction(SIGSEGV, &on_fault, &before), 0);
    assert_int_equal(mprotect(pages, page_size, PROT_NONE), 0);
    std::thread provides_page([&] {
        while (!page_on_demand::is_wanted)
            usleep(1000);
        memory(ia).free();
        mprotect(pages, page_size, PROT_READ | PROT_WRITE);
        page_on_demand::is_there = true;
    });
    const DAT_RETURN result =
        dat().lmr_sync_rdma_write_func(ia.handle, static_cast<const DAT_LMR_TRIPLET *>(segment), 1);
    provides_page.join();
    sigaction(SIGSEGV, &before, nullptr);
    munmap(mapping, 2 * page_size);
    assert_success(result);
    assert_int_equal(get_fabric().syncs[0].ranges[0].length, 64);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(sync_read_and_write_passed_to_libcoherdma),
        TEST(sync_of_no_segments_succeeds),
        TEST(sync_of_empty_segment_needs_valid_context),
        TEST(sync_translates_zero_based_addresses),
        TEST(wrong_number_of_segments_rejected),
        TEST(sync_of_freed_lmr_rejected),
        TEST(sync_of_lmr_of_other_ia_rejected),
        TEST(sync_with_one_bad_segment_does_nothing),
        TEST(sync_finds_each_of_1000_lmrs),
        TEST(lmr_sync_req_follows_device),
        TEST(sync_errors_of_libcoherdma_returned),
        TEST(segments_are_read_without_a_lock),
    };
    return run_cases(tests);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// On a device that is not coherent, the Provider syncs the local memory of DTOs: before each post,
// and before each completion of a DTO that the device writes; and an LMR before it is deregistered,
// also by the end of the process.

#include "fake/two_eps.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <cstdlib>
#include <dat2/dat_ib_extensions.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace fake;

namespace {

constexpr DAT_COMPLETION_FLAGS default_flags = DAT_COMPLETION_DEFAULT_FLAG;
/// Longer than inline data.
constexpr std::uint32_t length = 2048;

/// A base of fixtures, before the IA is opened.
struct device_without_coherency {
    device_without_coherency() { get_fabric().sync_required = 1; }
};

std::vector<recorded_local_sync> take_syncs() {
    return std::exchange(get_fabric().local_syncs, {});
}

void assert_sync(const recorded_local_sync &sync, bool for_cpu, std::uint32_t direction,
                 std::uint64_t addr, std::uint32_t bytes) {
    assert_int_equal(sync.for_cpu, for_cpu);
    assert_int_equal(sync.direction, direction);
    assert_int_equal(sync.ranges.size(), 1);
    assert_int_equal(sync.ranges[0].addr, addr);
    assert_int_equal(sync.ranges[0].length, bytes);
    assert_false(sync.checks_memory);
}

std::uint64_t address_of(const memory &buffer) {
    return reinterpret_cast<std::uintptr_t>(buffer.bytes.data());
}

struct eps_fixture : device_without_coherency, connected_eps {
    eps_fixture()
        : connected_eps("roce") {
        take_syncs();
    }
    DAT_RETURN post_write(DAT_DTO_COOKIE user_cookie, std::uint32_t bytes) const {
        DAT_LMR_TRIPLET iov = active_memory.lmr_triplet(0, bytes);
        const DAT_RMR_TRIPLET remote = passive_memory.rmr_triplet(0, bytes);
        return dat().ep_post_rdma_write_func(active.handle, 1, &iov, user_cookie, &remote,
                                             default_flags);
    }
    DAT_RETURN post_read(DAT_DTO_COOKIE user_cookie, std::uint64_t offset,
                         DAT_COMPLETION_FLAGS flags = default_flags) const {
        DAT_LMR_TRIPLET iov = active_memory.lmr_triplet(offset, 64);
        const DAT_RMR_TRIPLET remote = passive_memory.rmr_triplet(0, 64);
        return dat().ep_post_rdma_read_func(active.handle, 1, &iov, user_cookie, &remote, flags);
    }
    /// The next completion of the active EP was handed over.
    void assert_active(DAT_DTO_COOKIE user_cookie, DAT_VLEN bytes) const {
        assert_completion(active.request_evd, user_cookie, DAT_DTO_SUCCESS, bytes);
    }
};

void sources_written_back_before_post(void **) {
    eps_fixture eps;
    assert_success(eps.post_write(cookie(1), length));
    const auto syncs = take_syncs();
    assert_int_equal(syncs.size(), 1);
    assert_sync(syncs[0], false, COHERDMA_TO_DEVICE, address_of(eps.active_memory), length);
    eps.assert_active(cookie(1), length);
    assert_true(take_syncs().empty()); // the device has changed nothing
}

void inline_data_not_synced(void **) {
    eps_fixture eps;
    assert_success(eps.post_write(cookie(1), 8));
    eps.assert_active(cookie(1), 8);
    assert_true(take_syncs().empty());
}

void receive_synced_before_post_and_before_completion(void **) {
    eps_fixture eps;
    assert_success(eps.post_recv(length, cookie(1)));
    auto syncs = take_syncs();
    assert_int_equal(syncs.size(), 1);
    assert_sync(syncs[0], false, COHERDMA_FROM_DEVICE, address_of(eps.passive_memory), length);
    assert_success(eps.post_send(100, cookie(2)));
    eps.assert_active(cookie(2), 100);
    take_syncs();
    assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_SUCCESS, 100);
    syncs = take_syncs();
    assert_int_equal(syncs.size(), 1); // only what has arrived
    assert_sync(syncs[0], true, COHERDMA_FROM_DEVICE, address_of(eps.passive_memory), 100);
}

void rdma_read_synced_before_post_and_before_completion(void **) {
    eps_fixture eps;
    assert_success(eps.post_read(cookie(1), 128));
    auto syncs = take_syncs();
    assert_int_equal(syncs.size(), 1);
    assert_sync(syncs[0], false, COHERDMA_FROM_DEVICE, address_of(eps.active_memory) + 128, 64);
    eps.assert_active(cookie(1), 64);
    syncs = take_syncs();
    assert_int_equal(syncs.size(), 1);
    assert_sync(syncs[0], true, COHERDMA_FROM_DEVICE, address_of(eps.active_memory) + 128, 64);
}

void unsignaled_rdma_reads_synced_with_later_completion(void **) {
    eps_fixture eps;
    for (const std::uint64_t id : {1UL, 2UL})
        assert_success(eps.post_read(cookie(id), id * 64, DAT_COMPLETION_SUPPRESS_FLAG));
    assert_success(eps.post_write(cookie(3), 8));
    take_syncs();
    eps.assert_active(cookie(3), 8);
    const auto syncs = take_syncs();
    assert_int_equal(syncs.size(), 2);
    for (const std::uint64_t id : {1UL, 2UL})
        assert_sync(syncs[id - 1], true, COHERDMA_FROM_DEVICE,
                    address_of(eps.active_memory) + id * 64, 64);
}

void atomic_result_synced_before_completion(void **) {
    eps_fixture eps;
    DAT_LMR_TRIPLET iov = eps.active_memory.lmr_triplet(64, 8);
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(0, 8);
    assert_success(
        dat_ib_post_fetch_and_add(eps.active.handle, 1, &iov, cookie(1), &remote, default_flags));
    wait_event(eps.active.request_evd, static_cast<DAT_EVENT_NUMBER>(DAT_IB_DTO_EVENT));
    const auto syncs = take_syncs();
    assert_int_equal(syncs.size(), 2);
    assert_sync(syncs[0], false, COHERDMA_FROM_DEVICE, address_of(eps.active_memory) + 64, 8);
    assert_sync(syncs[1], true, COHERDMA_FROM_DEVICE, address_of(eps.active_memory) + 64, 8);
    wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN); // the fake permits no atomics
}

/// The device may have written a part of them.
void flushed_receives_synced_whole(void **) {
    eps_fixture eps;
    assert_success(eps.post_recv(length, cookie(1)));
    take_syncs();
    disconnect(eps.active, eps.passive);
    assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_ERR_FLUSHED);
    const auto syncs = take_syncs();
    assert_int_equal(syncs.size(), 1);
    assert_sync(syncs[0], true, COHERDMA_FROM_DEVICE, address_of(eps.passive_memory), length);
}

/// Its memory may be unmapped.
void freed_lmr_not_synced_at_completion(void **) {
    eps_fixture eps;
    memory buffer(eps.ia);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
    assert_success(dat().ep_post_recv_func(eps.passive.handle, 1, &iov, cookie(1), default_flags));
    buffer.free();
    take_syncs();
    disconnect(eps.active, eps.passive);
    assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_ERR_FLUSHED);
    assert_true(take_syncs().empty());
}

void segments_outside_lmrs_not_synced(void **) {
    eps_fixture eps;
    DAT_LMR_TRIPLET iov[] = {eps.active_memory.lmr_triplet(0, 1024),
                             eps.active_memory.lmr_triplet(0, 1024)};
    iov[0].virtual_address -= 8;
    dat().ep_post_send_func(eps.active.handle, 2, iov, cookie(1), default_flags);
    const auto syncs = take_syncs();
    assert_int_equal(syncs.size(), 1);
    assert_sync(syncs[0], false, COHERDMA_TO_DEVICE, address_of(eps.active_memory), 1024);
    wait_event(eps.active.request_evd, DAT_DTO_COMPLETION_EVENT); // an error
    wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
}

void zero_based_address_translated(void **) {
    eps_fixture eps;
    memory buffer(eps.ia, 4096, DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_ZB);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(16, 64);
    assert_success(dat().ep_post_recv_func(eps.passive.handle, 1, &iov, cookie(1), default_flags));
    const auto syncs = take_syncs();
    assert_int_equal(syncs.size(), 1);
    assert_sync(syncs[0], false, COHERDMA_FROM_DEVICE, address_of(buffer) + 16, 64);
}

void several_segments_synced_in_one_call(void **) {
    eps_fixture eps;
    DAT_LMR_TRIPLET iov[] = {eps.passive_memory.lmr_triplet(0, 64),
                             eps.passive_memory.lmr_triplet(256, 64)};
    assert_success(dat().ep_post_recv_func(eps.passive.handle, 2, iov, cookie(1), default_flags));
    auto syncs = take_syncs();
    assert_int_equal(syncs.size(), 1);
    assert_int_equal(syncs[0].ranges.size(), 2);
    assert_success(eps.post_send(100, cookie(2)));
    take_syncs();
    assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_SUCCESS, 100);
    syncs = take_syncs();
    assert_int_equal(syncs.size(), 1);
    assert_int_equal(syncs[0].ranges.size(), 2);
    assert_int_equal(syncs[0].ranges[0].length, 64);
    assert_int_equal(syncs[0].ranges[1].length, 36);
}

void srq_receive_synced_before_post_and_before_completion(void **) {
    const device_without_coherency device;
    ia_fixture ia;
    DAT_SRQ_HANDLE const srq = ia.create_srq(8);
    ep_fixture active(ia), passive(ia, nullptr, srq);
    memory buffer(ia);
    connect(active, passive);
    take_syncs();                                // of the test before
    for (std::uint64_t id = 0; id != 40; ++id) { // uses each cookie several times
        DAT_LMR_TRIPLET recv = buffer.lmr_triplet(id * 64, 64);
        assert_success(dat().srq_post_recv_func(srq, 1, &recv, cookie(id)));
        auto syncs = take_syncs();
        assert_int_equal(syncs.size(), 1);
        assert_sync(syncs[0], false, COHERDMA_FROM_DEVICE, address_of(buffer) + id * 64, 64);
        DAT_LMR_TRIPLET send = buffer.lmr_triplet(4000, 48);
        assert_success(dat().ep_post_send_func(active.handle, 1, &send, cookie(id), default_flags));
        assert_completion(active.request_evd, cookie(id), DAT_DTO_SUCCESS, 48);
        take_syncs();
        assert_completion(passive.recv_evd, cookie(id), DAT_DTO_SUCCESS, 48);
        syncs = take_syncs();
        assert_int_equal(syncs.size(), 1);
        assert_sync(syncs[0], true, COHERDMA_FROM_DEVICE, address_of(buffer) + id * 64, 48);
    }
    disconnect(active, passive);
    passive.free();
    assert_success(dat().srq_free_func(srq));
}

/// The queues have the same limits as those of a coherent device.
void queues_hold_as_many_dtos(void **) {
    eps_fixture eps;
    DAT_EP_PARAM param;
    assert_success(dat().ep_query_func(eps.active.handle, DAT_EP_FIELD_ALL, &param));
    for (int round = 0; round != 3; ++round) {
        DAT_COUNT count = 0;
        while (eps.post_read(cookie(static_cast<std::uint64_t>(count)), 0) == DAT_SUCCESS)
            ++count;
        assert_int_equal(count, param.ep_attr.max_request_dtos);
        for (DAT_COUNT i = 0; i != count; ++i)
            eps.assert_active(cookie(static_cast<std::uint64_t>(i)), 64);
    }
    DAT_COUNT count = 0;
    while (eps.post_recv(64, cookie(static_cast<std::uint64_t>(count))) == DAT_SUCCESS)
        ++count;
    assert_int_equal(count, param.ep_attr.max_recv_dtos);
}

/// Linux before 7.0 drops dirty lines of its pages then. free_lmr(ia, buffer) has it deregistered.
void assert_pages_written_back(void (*free_lmr)(ia_fixture &, memory &)) {
    const device_without_coherency device;
    ia_fixture ia;
    memory buffer(ia);
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t addr = address_of(buffer), begin = addr / page * page;
    const std::uint64_t end = (addr + buffer.bytes.size() + page - 1) / page * page;
    take_syncs(); // of the test before, whose EPs were freed after the fabric was reset
    std::size_t num_syncs_before = 0;
    get_fabric().during_dereg_mr = [&] {
        num_syncs_before = get_fabric().local_syncs.size();
    };
    free_lmr(ia, buffer);
    get_fabric().during_dereg_mr = nullptr;
    const auto syncs = take_syncs();
    assert_int_equal(num_syncs_before, 1);
    assert_int_equal(syncs.size(), 1);
    assert_false(syncs[0].for_cpu);
    assert_int_equal(syncs[0].direction, COHERDMA_TO_DEVICE);
    assert_int_equal(syncs[0].ranges.at(0).addr, begin);
    assert_int_equal(syncs[0].ranges[0].length, end - begin);
    assert_true(syncs[0].checks_memory); // it may be unmapped
}

/// The consumer has unmapped one page of the LMR: the others are written back nevertheless.
void pages_that_are_still_mapped_are_written_back(void **) {
    const device_without_coherency device;
    ia_fixture ia;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    auto *const begin = static_cast<char *>(
        mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    assert_ptr_not_equal(begin, MAP_FAILED);
    DAT_REGION_DESCRIPTION region;
    region.for_va = begin;
    DAT_LMR_HANDLE lmr = DAT_HANDLE_NULL;
    DAT_LMR_CONTEXT lkey = 0;
    DAT_VLEN registered_size = 0;
    DAT_VADDR registered_address = 0;
    assert_success(dat().lmr_create_func(ia.handle, DAT_MEM_TYPE_VIRTUAL, region, 3 * page, ia.pz,
                                         DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &lmr, &lkey,
                                         nullptr, &registered_size, &registered_address));
    munmap(begin + page, page);
    take_syncs();
    get_fabric().injected.fail("coherdma_sync_for_device", EFAULT);
    assert_success(dat().lmr_free_func(lmr));
    const auto syncs = take_syncs();
    assert_int_equal(syncs.size(), 2);
    for (const std::size_t i : {0U, 1U}) {
        assert_int_equal(syncs[i].direction, COHERDMA_TO_DEVICE);
        assert_ptr_equal(syncs[i].ranges.at(0).addr, begin + 2 * i * page);
        assert_int_equal(syncs[i].ranges[0].length, page);
        assert_true(syncs[i].checks_memory);
    }
    munmap(begin, page);
    munmap(begin + 2 * page, page);
}

void lmr_free_writes_pages_back(void **) {
    assert_pages_written_back([](ia_fixture &, memory &buffer) { buffer.free(); });
}

void abrupt_close_writes_pages_back(void **) {
    assert_pages_written_back([](ia_fixture &ia, memory &) { ia.close(); });
}

int exit_result_fd = -1; ///< gets the number of syncs at exit; -1: not the process of the test
std::uint64_t exit_addr = 0;

/// Handler of atexit() that is called after the Provider's: its own was registered earlier.
void send_syncs_at_exit() {
    if (exit_result_fd < 0)
        return;
    int num_syncs = 0;
    for (const recorded_local_sync &sync : take_syncs())
        num_syncs += sync.direction == COHERDMA_TO_DEVICE && sync.checks_memory &&
                     exit_addr - reinterpret_cast<std::uintptr_t>(sync.ranges.at(0).addr) <
                         sync.ranges[0].length;
    _exit(write(exit_result_fd, &num_syncs, sizeof num_syncs) == sizeof num_syncs ? 0 : 1);
}

/// The number of syncs of exit_addr during exit() of a child, after work() in it.
template <class function>
int syncs_at_exit_of_child(function &&work) {
    int pipe_fds[2], result = -1;
    assert_int_equal(pipe(pipe_fds), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(120);
        work();
        take_syncs();
        exit_result_fd = pipe_fds[1];
        std::exit(0);
    }
    close(pipe_fds[1]);
    assert_int_equal(read(pipe_fds[0], &result, sizeof result), sizeof result);
    close(pipe_fds[0]);
    while (waitpid(child, nullptr, 0) != child)
        assert_int_equal(errno, EINTR);
    return result;
}

void exit_writes_pages_of_open_ia_back(void **) {
#ifdef COHERDMA_TSAN
    print_message("# skipped: ThreadSanitizer does not support threads in a forked child\n");
    skip();
#endif
    const int num_syncs = syncs_at_exit_of_child([] {
        const device_without_coherency device;
        static const ia_fixture *const ia = new ia_fixture; // never closed
        static const memory *const buffer = new memory(*ia);
        exit_addr = address_of(*buffer);
    });
    assert_int_equal(num_syncs, 1);
}

void exit_of_forked_child_writes_nothing_back(void **) {
    const device_without_coherency device;
    ia_fixture ia;
    memory buffer(ia);
    exit_addr = address_of(buffer);
    assert_int_equal(syncs_at_exit_of_child([] {}), 0);
    buffer.free();
    take_syncs();
}

void coherent_device_never_synced(void **) {
    {
        connected_eps eps;
        assert_success(eps.post_recv(length, cookie(1)));
        assert_success(eps.post_send(length, cookie(2)));
        assert_completion(eps.active.request_evd, cookie(2), DAT_DTO_SUCCESS, length);
        assert_completion(eps.passive.recv_evd, cookie(1), DAT_DTO_SUCCESS, length);
    }
    assert_true(take_syncs().empty());
}

} // namespace

int main() {
    get_fabric(); // destroyed after the handler is called
    if (std::atexit(send_syncs_at_exit) != 0)
        return 1;
    const CMUnitTest tests[] = {
        TEST(sources_written_back_before_post),
        TEST(inline_data_not_synced),
        TEST(receive_synced_before_post_and_before_completion),
        TEST(rdma_read_synced_before_post_and_before_completion),
        TEST(unsignaled_rdma_reads_synced_with_later_completion),
        TEST(atomic_result_synced_before_completion),
        TEST(flushed_receives_synced_whole),
        TEST(freed_lmr_not_synced_at_completion),
        TEST(segments_outside_lmrs_not_synced),
        TEST(zero_based_address_translated),
        TEST(several_segments_synced_in_one_call),
        TEST(srq_receive_synced_before_post_and_before_completion),
        TEST(queues_hold_as_many_dtos),
        TEST(pages_that_are_still_mapped_are_written_back),
        TEST(lmr_free_writes_pages_back),
        TEST(abrupt_close_writes_pages_back),
        TEST(exit_writes_pages_of_open_ia_back),
        TEST(exit_of_forked_child_writes_nothing_back),
        TEST(coherent_device_never_synced),
    };
    return run_cases(tests);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "stage.hpp"

#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace omissions {
namespace {

constexpr std::size_t PAGE = 4096, NEIGHBOR_LENGTH = 512;

bytes map_pages(std::size_t length, bool is_shared) {
    void *const pages = mmap(nullptr, length, PROT_READ | PROT_WRITE,
                             (is_shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
    check(pages == MAP_FAILED ? -1 : 0, "mmap");
    return {static_cast<std::byte *>(pages), length};
}

} // namespace

const char *name_of(call c) noexcept {
    switch (c) {
    case call::BEFORE_READ:
        return "before_read";
    case call::BEFORE_WRITE:
        return "before_write";
    case call::AFTER_WRITE:
        return "after_write";
    case call::DEVICE_READS:
    case call::DEVICE_WRITES:
        return "for_device";
    case call::DEVICE_READ:
    case call::DEVICE_WROTE:
        return "for_cpu";
    case call::SEPARATE_LINES:
        return "separate_lines";
    }
    return "?";
}

stage::stage(const char *name, side &owner, const peer_proxy &peer, page_state page, bool omits,
             bool is_shared)
    : name_(name)
    , owner_(owner)
    , peer_(peer)
    , omits_(omits) {
    const bytes pages = map_pages(2 * PAGE, is_shared);
    memory_ = pages.subspan(PAGE, LENGTH);
    std::printf("region %s %p %zu\n", name_, static_cast<void *>(pages.data()), PAGE + LENGTH);
    if (page == page_state::FRESH)
        return;
    const bytes neighbor = pages.subspan(2 * PAGE - NEIGHBOR_LENGTH);
    neighbor_ = check(decltype(neighbor_)(ibv_reg_mr(owner.pd(), neighbor.data(), neighbor.size(),
                                                     IBV_ACCESS_LOCAL_WRITE)),
                      "register memory on the same page");
}

bytes stage::two_pages() const {
    constexpr std::size_t half = side::MAX_LENGTH / 2;
    return {memory_.data() - half, 2 * half};
}

unsigned stage::access() const noexcept {
    constexpr unsigned flags =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    return owner_.is_iwarp() ? flags : flags | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
}

void stage::register_memory(bytes part) {
    mrs_.push_back(check(unique_handle<ibv_mr, ibv_dereg_mr>(
                             ibv_reg_mr(owner_.pd(), part.data(), part.size(), access())),
                         "register memory"));
    key_ = {.rkey = mrs_.back()->rkey, .offset = 0};
}

void stage::register_with_iova() {
    const std::uint64_t iova = address_of(memory_) + 16 * PAGE;
    mrs_.push_back(check(unique_handle<ibv_mr, ibv_dereg_mr>(ibv_reg_mr_iova(
                             owner_.pd(), memory_.data(), memory_.size(), iova, access())),
                         "register memory"));
    key_ = {.rkey = mrs_.back()->rkey, .offset = iova - address_of(memory_)};
}

void stage::bind_window() {
    window_.reset(ibv_alloc_mw(owner_.pd(), IBV_MW_TYPE_2));
    check(window_ ? 0 : -1, "allocate a window");
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = window_.get();
    wr.bind_mw.rkey = ibv_inc_rkey(window_->rkey);
    wr.bind_mw.bind_info = {mrs_.front().get(), address_of(memory_), memory_.size(),
                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    owner_.post(wr);
    key_ = {.rkey = wr.bind_mw.rkey, .offset = 0};
}

void stage::store(bytes data, int value) {
    std::memset(data.data(), value, data.size());
    asm volatile("" : : "r"(data.data()) : "memory");
}

void stage::do_in_child(const std::function<void()> &function) {
    const pid_t child = fork();
    check(child < 0 ? -1 : 0, "fork");
    if (child == 0) {
        function();
        _exit(0);
    }
    int status = 0;
    check(waitpid(child, &status, 0) == child && status == 0 ? 0 : -1, "the child");
}

void stage::report_wrong(std::uint64_t actual, std::uint64_t expected) {
    has_wrong_data_ = true;
    std::printf("wrong %s: %#lx, not %#lx\n", name_, static_cast<unsigned long>(actual),
                static_cast<unsigned long>(expected));
}

void stage::expect(bytes data, int value) {
    asm volatile("" : : "r"(data.data()) : "memory");
    for (const std::byte byte : data)
        if (std::to_integer<int>(byte) != value)
            return report_wrong(std::to_integer<unsigned>(byte), static_cast<unsigned>(value));
}

void stage::expect_number(bytes data, std::uint64_t value) {
    asm volatile("" : : "r"(data.data()) : "memory");
    std::uint64_t actual = 0;
    std::memcpy(&actual, data.data(), sizeof actual);
    if (actual != value)
        report_wrong(actual, value);
}

void stage::sync(call c, bytes range) const {
    const coherdma_range list = range_of(range);
    const coherdma_device *const device = owner_.device();
    switch (c) {
    case call::BEFORE_READ:
        return check(coherdma_sync_before_read(device, &list, 1), "sync");
    case call::BEFORE_WRITE:
        return check(coherdma_sync_before_write(device, &list, 1), "sync");
    case call::AFTER_WRITE:
        return check(coherdma_sync_after_write(device, &list, 1), "sync");
    case call::DEVICE_READS:
        return owner_.sync_for_device(range, COHERDMA_TO_DEVICE);
    case call::DEVICE_WRITES:
        return owner_.sync_for_device(range, COHERDMA_FROM_DEVICE);
    case call::DEVICE_READ:
        return check(coherdma_sync_for_cpu(device, &list, 1, COHERDMA_TO_DEVICE), "sync");
    case call::DEVICE_WROTE:
        return owner_.sync_for_cpu(range);
    case call::SEPARATE_LINES:
        return;
    }
}

void stage::sync_unless_omitted(call c, bytes range) const {
    if (omits_)
        expect_finding(c, range);
    else
        sync(c, range);
}

void stage::sync_wrongly(call c, bytes range, call wrong, bytes wrong_range, bytes missing) const {
    sync(omits_ ? wrong : c, omits_ ? wrong_range : range);
    expect_finding(c, missing);
}

void stage::expect_finding(call c, bytes range) const {
    if (omits_)
        std::printf("without %s %s %p %zu\n", name_, name_of(c), static_cast<void *>(range.data()),
                    range.size());
}

peer_request stage::make_request(ibv_wr_opcode opcode, bytes range) const {
    peer_request result;
    result.opcode = opcode;
    result.target = {.address = address_of(range) + key_.offset, .rkey = key_.rkey};
    result.length = static_cast<std::uint32_t>(range.size());
    result.any_memory = owner_.expose();
    return result;
}

void stage::expect_peer_reads(bytes range, int value) {
    peer_answer answer = peer_.execute(make_request(IBV_WR_RDMA_READ, range));
    expect(bytes(answer.data).subspan(0, range.size()), value);
}

void stage::peer_writes_silently(bytes range, int value, ibv_wr_opcode opcode) const {
    peer_request asked = make_request(opcode, range);
    asked.value = static_cast<std::byte>(value);
    peer_.execute(asked);
}

void stage::receive_message() {
    peer_.execute(command::SEND);
    owner_.receive_message();
}

void stage::peer_writes(bytes range, int value) {
    peer_writes_silently(range, value);
    receive_message();
}

void stage::peer_writes_with_immediate(bytes range, int value) {
    peer_writes_silently(range, value, IBV_WR_RDMA_WRITE_WITH_IMM);
    owner_.receive_message();
}

void stage::peer_adds(bytes word, std::uint64_t value) {
    peer_request asked = make_request(IBV_WR_ATOMIC_FETCH_AND_ADD, word);
    asked.compare_or_add = value;
    peer_.execute(asked);
    receive_message();
}

void stage::peer_swaps(bytes word, std::uint64_t expected, std::uint64_t value) {
    peer_request asked = make_request(IBV_WR_ATOMIC_CMP_AND_SWP, word);
    asked.compare_or_add = expected;
    asked.swap = value;
    peer_.execute(asked);
    receive_message();
}

void stage::read_from_peer(bytes sink, int value) const {
    owner_.post(IBV_WR_RDMA_READ, sink, lkey(), expose_at_peer(value).exposed);
}

void stage::read_from_peer_unsignaled(bytes sink, int value) const {
    const remote_memory source = expose_at_peer(value).exposed;
    const bytes other_sink = owner_.request_buffer().subspan(0, 8);
    owner_.post_unsignaled(IBV_WR_RDMA_READ, sink, lkey(), source);
    owner_.sync_for_device(other_sink, COHERDMA_FROM_DEVICE);
    owner_.post(IBV_WR_RDMA_READ, other_sink, owner_.lkey(), source);
    owner_.sync_for_cpu(other_sink);
}

void stage::read_without_permission(bytes sink) const {
    remote_memory source = expose_at_peer(0).exposed;
    source.rkey ^= 1U << 31;
    const ibv_wc_status status = owner_.post_failing(IBV_WR_RDMA_READ, sink, lkey(), source);
    if (status == IBV_WC_SUCCESS)
        throw failure("a Read without permission succeeded");
}

void stage::write_to_peer(bytes source, int expected) {
    owner_.post(IBV_WR_RDMA_WRITE, source, lkey(), expose_at_peer(0).exposed);
    owner_.send_message(); // arrives after the Write
    peer_.execute(command::RECEIVE);
    peer_answer answer = expose_at_peer(0);
    expect(bytes(answer.data).subspan(0, source.size()), expected);
}

void stage::send_to_peer(bytes source, int expected, unsigned flags) {
    owner_.post(IBV_WR_SEND, source, lkey(), {}, flags);
    peer_answer answer = peer_.execute(command::RECEIVE);
    expect(bytes(answer.data).subspan(0, source.size()), expected);
}

void stage::send_both_to_peer(bytes first, bytes second, int expected) {
    owner_.post_both(first, second, lkey());
    peer_answer answer = peer_.execute(command::RECEIVE);
    expect(bytes(answer.data).subspan(0, first.size() + second.size()), expected);
}

void stage::add_at_peer(bytes sink, std::uint64_t value) const {
    owner_.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, sink, lkey(), expose_at_peer(1).exposed, value,
                       0);
    expose_at_peer(0); // syncs
}

void stage::post_receive(bytes sink) {
    owner_.post_receive(sink, lkey());
    receive_message(); // takes the Receive posted before
}

void stage::peer_sends_to_receive() const {
    peer_.execute(command::SEND);
    owner_.poll_receive();
}

peer_answer stage::expose_at_peer(int value) const {
    return peer_.execute(command::EXPOSE, value);
}

} // namespace omissions

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "peer_ipc.hpp"

#include "reports/blocked_signals.hpp"
#include "requests.hpp"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <new>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace coherdma::emulation::peer_ipc {
namespace {

/// Never destroyed: threads use it until the process ends.
struct ipc_state {
    std::unique_ptr<peer_slots> slots; ///< nullptr: nothing is checked across processes
    std::atomic<bool> has_noted_unchecked = false;

    /// The same place in the program posts many WRs: finding its symbols again would be slow.
    std::mutex mutex; ///< protects stack_texts
    std::map<std::vector<void *>, std::string> stack_texts;

    ipc_state *parents = nullptr; ///< of fork(): not used, but kept for leak checkers
};
ipc_state *ipc = new ipc_state;

/// The memory of this process that a request of a peer names; empty if it is not registered, or by
/// several devices.
addr_range find_requested_memory(const remote_memory &memory, ibv_wr_opcode opcode) {
    addr_range match;
    bool is_ambiguous = false;
    for_each_device([&](emulated_device &device) {
        if (device.driver_number != memory.driver_number)
            return;
        const addr_range range = device.find_memory_by_rkey(memory, needed_access(opcode));
        is_ambiguous = is_ambiguous || (!match.empty() && !range.empty());
        match = match.empty() ? range : match;
    });
    return is_ambiguous ? addr_range{} : match;
}

class unposted_peer_request final : public unposted_request {
  public:
    explicit unposted_peer_request(unposted_checks checks)
        : checks_(std::move(checks)) {}
    [[nodiscard]] bool has_findings() const noexcept override { return checks_.has_findings(); }
    void on_post() override { process_state().cache.report_posted(checks_); }
    void on_refuse() override { process_state().cache.drop_unposted(checks_); }

  private:
    unposted_checks checks_;
};

/// Checks the memory that a peer's request names. The request may be invalid.
std::unique_ptr<unposted_request> check_request_of_peer(const check_request &request) {
    const auto opcode = static_cast<ibv_wr_opcode>(request.opcode);
    const addr_range range = find_requested_memory(request.memory, opcode);
    if (range.empty() || !accesses_remote_memory(opcode))
        return nullptr;
    mem_access access;
    access.text.assign(request.text, strnlen(request.text, MAX_PEER_TEXT));
    const std::string stack(request.stack, strnlen(request.stack, MAX_PEER_STACK));
    for (std::size_t begin = 0; begin < stack.size();) {
        const std::size_t end = std::min(stack.find('\n', begin), stack.size());
        access.peer_stack.push_back(stack.substr(begin, end - begin));
        begin = end + 1;
    }
    unposted_checks checks;
    check_peer_access(range, opcode, access, checks);
    return checks.is_empty() ? nullptr : std::make_unique<unposted_peer_request>(std::move(checks));
}

/// The thread of this process that answers the requests of peers.
void answer_requests(peer_slots &slots) {
    pthread_setname_np(pthread_self(), "coherdma-peers");
    slots.answer_requests(check_request_of_peer);
}

/// One frame per line.
const std::string &stack_text_of(const stack_trace &stack) {
    const std::vector<void *> key(stack.frames.begin(), stack.frames.begin() + stack.depth);
    const std::lock_guard guard(ipc->mutex);
    const auto [it, is_new] = ipc->stack_texts.try_emplace(key);
    if (is_new)
        for (const std::string &line : to_strings(stack))
            if (it->second.size() + line.size() + 1 < MAX_PEER_STACK)
                it->second += line + "\n";
    return it->second;
}

} // namespace

void open_slot() {
    std::string reason;
    ipc->slots = peer_slots::open("coherdma-emulation-" + std::to_string(geteuid()),
                                  peer_slots::timeouts(), reason);
    if (ipc->slots != nullptr) {
        try {
            const reports::blocked_signals scope; // the thread handles no signal of the program
            std::thread(answer_requests, std::ref(*ipc->slots)).detach();
            return;
        } catch (const std::system_error &problem) {
            ipc->slots = nullptr;
            reason = problem.what();
        }
    }
    process_state().log.note(
        "requests of other processes on memory of this process are not checked: " + reason);
}

void reset_after_fork() {
    // A thread of the parent may have been changing the old one.
    auto *const state = new ipc_state;
    state->parents = ipc;
    ipc = state;
}

void close_slot() noexcept {
    if (ipc->slots != nullptr)
        ipc->slots->close();
}

/// Which device of this process: two may have the same rkey.
static std::uint64_t publisher_of(const emulated_device &device) noexcept {
    return reinterpret_cast<std::uintptr_t>(&device);
}

void publish_rkey(const emulated_device &device, std::uint32_t rkey, const keyed_memory &memory) {
    if (ipc->slots == nullptr)
        return;
    const int error = ipc->slots->rkeys().add({.rkey = rkey,
                                               .driver_number = device.driver_number,
                                               .iova = memory.iova,
                                               .length = memory.range.size(),
                                               .publisher = publisher_of(device)});
    if (error != 0)
        process_state().log.note(
            "accesses of other processes to some memory of this process are not checked: its keys "
            "cannot be published in /dev/shm: " +
            std::string(std::strerror(error)));
}

void withdraw_rkey(const emulated_device &device, std::uint32_t rkey) noexcept {
    if (ipc->slots != nullptr)
        ipc->slots->rkeys().remove(device.driver_number, rkey, publisher_of(device));
}

peer_slots::ticket request_check(const remote_memory &memory, ibv_wr_opcode opcode,
                                 const mem_access &access) {
    peer_slots::ticket left;
    if (ipc->slots == nullptr)
        return left;
    check_request request = {};
    request.memory = memory;
    request.opcode = static_cast<std::uint32_t>(opcode);
    std::snprintf(request.text, sizeof request.text, "%s", access.text.c_str());
    std::snprintf(request.stack, sizeof request.stack, "%s", stack_text_of(access.stack).c_str());
    if (ipc->slots->request_check(request, left) == peer_slots::answer::UNCHECKED &&
        !ipc->has_noted_unchecked.exchange(true))
        process_state().log.note("a process did not check a request on its memory in time: it is "
                                 "stopped or slow");
    return left;
}

void end_request(const peer_slots::ticket &left, bool is_posted) noexcept {
    if (ipc->slots != nullptr)
        ipc->slots->end_request(left, is_posted);
}

} // namespace coherdma::emulation::peer_ipc

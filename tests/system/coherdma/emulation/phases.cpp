// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Each round has different data, and memory that the peer will write is overwritten first: stale
// data and data of a later sync are always detected.

#include "phases.hpp"

#include <arpa/inet.h>

namespace synced {
namespace {

// Odd sizes: the last cache line is partly used.
constexpr std::size_t WRITE_LENGTH = 1307, READ_LENGTH = 1101, WORD_SIZE = 8;
constexpr std::size_t READ_OFFSET = 6 * LINE, LENGTH = connection::BUFFER_SIZE;
constexpr std::size_t NUM_PARTS = 4; // of data moved by unsignaled requests

unsigned mr_access(const process_state &process) noexcept {
    const unsigned flags =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    return process.iwarp ? flags : flags | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
}

std::byte pattern(std::size_t i, unsigned step) noexcept {
    return static_cast<std::byte>(i * 7 + (i >> 8) * 13 + step * 53); // differs for each step
}

void fill(bytes data, unsigned step) {
    for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = pattern(i, step);
}

// Each step has two more patterns: for memory before it is written, and for the sink of a Read.
constexpr unsigned OVERWRITTEN = 1, CLEARED = 2;

std::uint64_t to_number(std::span<const std::byte> atomic_word) {
    std::uint64_t value;
    std::memcpy(&value, atomic_word.data(), sizeof value);
    return value;
}

// The initial value of an atomic operation's target, and the operand.
constexpr std::uint64_t initial_value(unsigned step) noexcept {
    return 0x0123456789abcdef * step;
}
constexpr std::uint64_t operand_of(unsigned step) noexcept {
    return 0x1f2e3d4c5b6a7989 + step;
}

} // namespace

phase_run::phase_run(process_state &process, const phase &phase_info, connection &conn,
                     const std::string &name)
    : process_(process)
    , phase_(phase_info)
    , conn_(conn)
    , name_(name)
    , memory_(process.pd, LENGTH, mr_access(process)) {
    print_line(concat("region ", name_, ' ', memory_.range(0, 1).data(), ' ', memory_.length(), ' ',
                      name_of(process.self)));
    if (is_phase("window"))
        window_ = check(decltype(window_)(ibv_alloc_mw(process.pd, IBV_MW_TYPE_2)), "window");
}

bytes phase_run::write_target() const {
    return memory_.range(0, WRITE_LENGTH);
}
bytes phase_run::read_source() const {
    return memory_.range(READ_OFFSET, READ_LENGTH);
}
bytes phase_run::atomic_word() const {
    return memory_.range(LINE, WORD_SIZE);
}

// In each round the memory is the server's, then the client's. A step's number also selects its
// data: it has three patterns, step, step + OVERWRITTEN and step + CLEARED.
void phase_run::run_rounds() {
    constexpr int num_sides = 2;
    constexpr unsigned patterns_per_step = 3;
    for (int round = 0; round < process_.rounds; ++round)
        for (const side s : {side::SERVER, side::CLIENT}) {
            const auto step =
                static_cast<unsigned>(round * num_sides + static_cast<int>(s)) * patterns_per_step +
                1;
            passive_ = s;
            if (phase_.op == operation::MESSAGES)
                exchange_data(step);
            if (phase_.op == operation::ATOMIC)
                run_atomic_step(step);
            if (phase_.op == operation::WRITES || phase_.op == operation::BOTH)
                run_write_step(step);
            if (phase_.op == operation::READS || phase_.op == operation::BOTH)
                run_read_step(step);
        }
}

// -- steps. The memory is the passive side's, which starts and ends each step.

// Messages: the passive side sends first. Both verify what they have received.
void phase_run::exchange_data(unsigned step) {
    std::array<std::byte, connection::MAX_DATA> data;
    if (process_.self == passive_) {
        fill(data, step);
        conn_.send_message({}, data);
        conn_.receive_message();
        expect(conn_.received_data(), step + OVERWRITTEN, "the answer");
    } else {
        conn_.receive_message();
        expect(conn_.received_data(), step, "the message");
        fill(data, step + OVERWRITTEN);
        conn_.send_message({}, data);
    }
}

// The active side writes the passive side's memory, which that syncs before and after.
void phase_run::run_write_step(unsigned step) {
    if (process_.self != passive_) {
        post_writes(receive_buffer(), step);
        wait_done();
        return;
    }
    fill(write_target(), step + OVERWRITTEN);
    process_.sync(phase_, kind::WRITE_BEFORE, write_target().data(), WRITE_LENGTH);
    advertise(write_target(), memory_.key()->rkey);
    const message msg = conn_.receive_message();
    if (is_phase("write-imm"))
        expect(msg.immediate, step, "the immediate data");
    process_.sync(phase_, kind::WRITE_AFTER, write_target().data(), WRITE_LENGTH);
    expect(write_target(), step, "the written data");
    invalidate_window();
    send_done();
}

// The active side reads the passive side's memory, which that syncs before.
void phase_run::run_read_step(unsigned step) {
    if (process_.self != passive_) {
        post_reads(receive_buffer(), step);
        send_done();
        return;
    }
    fill(read_source(), step);
    process_.sync(phase_, kind::READ, read_source().data(), READ_LENGTH);
    advertise(read_source(), memory_.key()->rkey);
    wait_done();
    invalidate_window();
}

// An atomic operation on a word of the passive side reads it, then writes it: a sync before, and
// one after.
void phase_run::run_atomic_step(unsigned step) {
    if (process_.self != passive_) {
        post_atomic(receive_buffer(), step);
        wait_done();
        return;
    }
    const std::uint64_t initial = initial_value(step);
    std::memcpy(atomic_word().data(), &initial, WORD_SIZE);
    process_.sync(phase_, kind::READ, atomic_word().data(), WORD_SIZE);
    advertise(atomic_word(), memory_.key()->rkey);
    wait_done();
    process_.sync(phase_, kind::WRITE_AFTER, atomic_word().data(), WORD_SIZE);
    expect(to_number(atomic_word()),
           is_phase("fetch-add") ? initial_value(step) + operand_of(step) : operand_of(step),
           "the word");
    send_done();
}

// -- the active side

// One Write, or unsignaled ones of a part each. Tells the passive side when they are posted, by the
// immediate data or a message behind them.
void phase_run::post_writes(remote_buffer target, unsigned step) {
    const bytes data = conn_.buffer(0, WRITE_LENGTH);
    fill(data, step);
    const std::size_t num_parts = is_phase("unsignalled") ? NUM_PARTS : 1;
    for (std::size_t i = 0; i < num_parts; ++i) {
        const std::size_t begin = WRITE_LENGTH * i / num_parts,
                          end = WRITE_LENGTH * (i + 1) / num_parts;
        ibv_sge sge = conn_.make_sge(data.subspan(begin, end - begin));
        ibv_send_wr wr{};
        wr.opcode = is_phase("write-imm") ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
        wr.imm_data = htonl(step);
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = target.address + begin;
        wr.wr.rdma.rkey = target.rkey;
        if (is_phase("unsignalled")) {
            conn_.post(wr); // completed by the next message
        } else {
            wr.send_flags = IBV_SEND_SIGNALED;
            conn_.post_and_wait(wr);
        }
    }
    if (!is_phase("write-imm"))
        send_done();
}

// One Read, or unsignaled ones of a part each, into two sinks where the device can; verifies the
// data.
void phase_run::post_reads(remote_buffer source, unsigned step) {
    const bytes data = conn_.buffer(READ_OFFSET, READ_LENGTH);
    fill(data, step + CLEARED);
    const std::size_t num_parts = is_phase("unsignalled") ? NUM_PARTS : 1;
    for (std::size_t i = 0; i < num_parts; ++i) {
        const std::size_t begin = READ_LENGTH * i / num_parts,
                          end = READ_LENGTH * (i + 1) / num_parts;
        const std::size_t first_length = (end - begin) / 2;
        ibv_sge sges[] = {
            conn_.make_sge(data.subspan(begin, first_length)),
            conn_.make_sge(data.subspan(begin + first_length, end - begin - first_length))};
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_RDMA_READ;
        wr.sg_list = sges;
        wr.num_sge = 2;
        if (process_.iwarp) { // iWARP Reads have one sink
            sges[0].length += sges[1].length;
            wr.num_sge = 1;
        }
        wr.wr.rdma.remote_addr = source.address + begin;
        wr.wr.rdma.rkey = source.rkey;
        if (i + 1 < num_parts) {
            conn_.post(wr);
        } else {
            wr.send_flags = IBV_SEND_SIGNALED;
            conn_.post_and_wait(wr);
        }
    }
    expect(data, step, "the read data");
}

// One atomic operation on the passive side's word; verifies the old value that it returns.
void phase_run::post_atomic(remote_buffer target, unsigned step) {
    const bytes old_value = conn_.buffer(READ_OFFSET, WORD_SIZE);
    fill(old_value, step + CLEARED);
    ibv_sge sge = conn_.make_sge(old_value);
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.atomic.remote_addr = target.address;
    wr.wr.atomic.rkey = target.rkey;
    if (is_phase("fetch-add")) {
        wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr.wr.atomic.compare_add = operand_of(step);
    } else {
        wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
        wr.wr.atomic.compare_add = initial_value(step);
        wr.wr.atomic.swap = operand_of(step);
    }
    conn_.post_and_wait(wr);
    expect(to_number(old_value), initial_value(step), "the old value");
    send_done();
}

// -- messages

// Tells the peer address and rkey of the memory to access, in phase "window" the rkey of an MW.
void phase_run::advertise(bytes buf, std::uint32_t rkey) {
    message msg;
    msg.address = reinterpret_cast<std::uintptr_t>(buf.data());
    msg.key = rkey;
    if (window_) {
        bind_window(buf);
        msg.key = window_->rkey;
    }
    conn_.send_message(msg);
}

phase_run::remote_buffer phase_run::receive_buffer() {
    const message msg = conn_.receive_message();
    return {msg.address, msg.key};
}

// For the peer's send_done(), a message without an address.
void phase_run::wait_done() {
    if (conn_.receive_message().address != 0)
        throw failure("unexpected message");
}

void phase_run::bind_window(bytes buf) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = window_.get();
    wr.bind_mw.rkey = ibv_inc_rkey(window_->rkey);
    wr.bind_mw.bind_info = {const_cast<ibv_mr *>(memory_.key()),
                            reinterpret_cast<std::uintptr_t>(buf.data()), buf.size(),
                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    conn_.post_and_wait(wr);
    window_->rkey = wr.bind_mw.rkey;
}

// So that the peer cannot access the memory after the step. Only in phase "window".
void phase_run::invalidate_window() {
    if (!window_)
        return;
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.invalidate_rkey = window_->rkey;
    conn_.post_and_wait(wr);
}

// -- comparison

void phase_run::expect(std::span<const std::byte> data, unsigned step, const char *name) {
    for (std::size_t i = 0; i < data.size(); ++i)
        if (data[i] != pattern(i, step)) {
            report_wrong_data(name, i, std::to_integer<unsigned>(data[i]),
                              std::to_integer<unsigned>(pattern(i, step)));
            return;
        }
}

void phase_run::expect(std::uint64_t actual, std::uint64_t expected, const char *name) {
    if (actual != expected)
        report_wrong_data(name, 0, actual, expected);
}

// i: the index of the first wrong byte, 0 for a word.
void phase_run::report_wrong_data(const char *name, std::size_t i, std::uint64_t actual,
                                  std::uint64_t expected) {
    process_.has_wrong_data = true;
    print_line(concat("wrong: ", name_, ", ", name_of(process_.self), ": ", name, ", byte ", i,
                      " is 0x", std::hex, actual, ", not 0x", expected, std::dec,
                      "; the memory is the ", name_of(passive_), "'s"));
}

} // namespace synced

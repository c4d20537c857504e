// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The RDMA operations between both sides of `synced`.
#pragma once

#include "connection.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace synced {

inline void free_window(ibv_mw *window) noexcept {
    ibv_dealloc_mw(window);
}

struct process_state {
    side self;
    bool iwarp;
    int rounds;
    ibv_pd *pd;
    const syncer &sync;
    std::atomic<bool> has_wrong_data = false; // in any phase
};

// One phase over one connection in one process. Its memory is allocated and registered for it.
class phase_run {
  public:
    phase_run(process_state &process, const phase &phase_info, connection &conn,
              const std::string &name);
    void run_rounds();

  private:
    struct remote_buffer {
        std::uint64_t address;
        std::uint32_t rkey;
    };

    void exchange_data(unsigned step);
    void run_write_step(unsigned step);
    void run_read_step(unsigned step);
    void run_atomic_step(unsigned step);
    void post_writes(remote_buffer target, unsigned step);
    void post_reads(remote_buffer source, unsigned step);
    void post_atomic(remote_buffer target, unsigned step);

    void advertise(bytes buf, std::uint32_t rkey);
    [[nodiscard]] remote_buffer receive_buffer();
    void send_done() { conn_.send_message({}); }
    void wait_done();

    void bind_window(bytes buf);
    void invalidate_window();

    [[nodiscard]] bytes write_target() const;
    [[nodiscard]] bytes read_source() const;
    [[nodiscard]] bytes atomic_word() const;
    [[nodiscard]] bool is_phase(const char *name) const { return std::string(phase_.name) == name; }
    void expect(std::span<const std::byte> data, unsigned step, const char *name);
    void expect(std::uint64_t actual, std::uint64_t expected, const char *name);
    void report_wrong_data(const char *name, std::size_t i, std::uint64_t actual,
                           std::uint64_t expected);

    process_state &process_;
    const phase &phase_;
    connection &conn_;
    std::string name_;
    registered_memory memory_; // the peer reads and writes it
    side passive_ = side::SERVER;
    unique_handle<ibv_mw, free_window> window_;
};

} // namespace synced

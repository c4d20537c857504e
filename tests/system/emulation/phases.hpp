// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What both sides of `synced` do with each other's memory.
#pragma once

#include "talk.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace synced {

inline void free_window(ibv_mw *window) noexcept {
    ibv_dealloc_mw(window);
}

struct process {
    side me;
    bool iwarp;
    int rounds;
    ibv_pd *domain;
    const syncing &sync;
    std::atomic<bool> wrong = false; // data was, somewhere
};

// One phase over one connection, in one process: its memory is made and registered with it.
class run_of {
  public:
    run_of(process &, const phase &, talk &, const std::string &name);
    void all_rounds();

  private:
    struct place {
        std::uint64_t address;
        std::uint32_t key;
    };

    void messages(unsigned step);
    void writes(unsigned step);
    void reads(unsigned step);
    void atomics(unsigned step);
    void write_to(place, unsigned step);
    void read_from(place, unsigned step);
    void change(place, unsigned step);

    void offer(bytes area, std::uint32_t key);
    [[nodiscard]] place offered();
    void say_done() { over_.tell({}); }
    void hear_done();

    void open_window(bytes area);
    void close_window();

    [[nodiscard]] bytes written() const;
    [[nodiscard]] bytes read() const;
    [[nodiscard]] bytes word() const;
    [[nodiscard]] bool is(const char *name) const { return std::string(of_.name) == name; }
    void expect(std::span<const std::byte> what, unsigned step, const char *of);
    void expect(std::uint64_t is, std::uint64_t wanted, const char *of);
    void tell_wrong(const char *of, std::size_t at, std::uint64_t is, std::uint64_t wanted);

    process &in_;
    const phase &of_;
    talk &over_;
    std::string name_;
    memory mine_; // peers write and read it
    side passive_ = side::SERVER;
    owned<ibv_mw, free_window> window_;
};

} // namespace synced

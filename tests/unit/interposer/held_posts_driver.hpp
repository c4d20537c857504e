// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A driver and a libibverbs behind the interposer, which write down, in one list, what they are
// called for. A WR is told by its remote_addr.
#pragma once

#include "interposer/objects.hpp"

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

struct call_log {
    void add(const std::string &line) {
        const std::lock_guard guard(mutex);
        lines.push_back(line);
    }
    std::vector<std::string> take() {
        const std::lock_guard guard(mutex);
        return std::exchange(lines, {});
    }
    std::size_t size() {
        const std::lock_guard guard(mutex);
        return lines.size();
    }
    std::mutex mutex;
    std::vector<std::string> lines;
};
inline call_log called;
inline std::atomic<bool> writes_posts = true; ///< to the log

// What the driver answers.
inline std::function<int(const ibv_send_wr &)> answer; ///< 0, or it refuses the WR
inline bool returns_success = false;                   ///< also if it refuses, as siw
inline std::vector<ibv_wc> completions;                ///< that are polled next
inline ibv_qp_state kernel_state = IBV_QPS_RTS;        ///< of a QP of iWARP

// What it was called for.
inline std::atomic<pthread_t> posting_thread;             ///< of the last post
inline std::atomic<unsigned> num_waiting = 0;             ///< posts that wait for the lock of a QP
inline std::vector<std::uint64_t> posted_wr_ids;          ///< as the driver has got them
inline std::atomic<unsigned> *num_shared_posts = nullptr; ///< in memory that processes share

struct fake_qp {
    ibv_qp_ex verbs = {};
    std::mutex mutex; ///< as the driver's lock
    std::atomic<bool> exists = true;
    std::vector<std::uint64_t> order; ///< remote_addr of each WR
};
inline fake_qp &to_fake(ibv_qp *qp) {
    return *reinterpret_cast<fake_qp *>(qp);
}

/// The only device, and its context.
inline ibv_device device = {};
inline verbs_context extended = {};
inline ibv_context &context = extended.context;

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The language of scenarios, coherdma-fault(1): "every 100th write fails retry_exc; 2nd ibv_reg_mr
// fails ENOMEM".
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace coherdma::faults {

/// REQUEST: any of a send queue. OTHER: one of a send queue that only REQUEST names.
enum class request_class : unsigned char {
    NONE,
    REQUEST,
    SEND,
    WRITE,
    READ,
    ATOMIC,
    OTHER,
    RECEIVE
};

/// Which of the calls or requests that a fault names, counted from 1 in each process.
struct selection {
    std::uint64_t first = 1;
    std::uint64_t step = 1; ///< 0: only the first
    double share = 1;       ///< of them, chosen at random
};

enum class action : unsigned char { FAIL, DELAY, EVENT, LIMIT, PORT_DOWN, RUN };

/// Of which queue pairs a fault's requests are.
struct queue_selection {
    std::uint64_t number = 0; ///< the process has created it as its n-th one; 0: any
    std::string peer;         ///< its peer's address, as inet_ntop() writes it; "": any
    [[nodiscard]] bool is_any() const noexcept { return number == 0 && peer.empty(); }
};

struct fault {
    std::chrono::microseconds begin{}; ///< since the process opened its first device
    selection selected;
    std::string call;                             ///< "ibv_reg_mr"; "": it is not of calls
    request_class requests = request_class::NONE; ///< NONE: it is not of requests
    queue_selection queues;                       ///< of requests
    action effect = action::FAIL;
    int error = 0;             ///< FAIL: an errno, or an ibv_wc_status
    ibv_event_type event = {}; ///< EVENT
    std::string limit;         ///< LIMIT: "max_qp"
    std::uint64_t value = 0;   ///< LIMIT
    /// DELAY: of a call, or of the sends of a queue pair. PORT_DOWN: for how long; 0: to the end.
    std::chrono::microseconds duration{};
    std::string command;   ///< RUN: for a shell
    std::size_t index = 0; ///< in the scenario
    std::string text;      ///< as the scenario has it

    /// It is done to the machine, by coherdma fault, rather than in a process of the program.
    [[nodiscard]] bool is_of_machine() const noexcept {
        return effect == action::PORT_DOWN || effect == action::RUN;
    }
};

struct scenario_error : std::runtime_error {
    scenario_error(const std::string &reason, std::size_t error_line, std::size_t error_column)
        : std::runtime_error(reason)
        , line(error_line)
        , column(error_column) {}
    std::size_t line, column; ///< from 1
};

/// Throws scenario_error.
std::vector<fault> parse_scenario(std::string_view text);

/// The line of the scenario and a mark at the column, each with a newline.
std::string point_at(const scenario_error &, std::string_view text);

} // namespace coherdma::faults

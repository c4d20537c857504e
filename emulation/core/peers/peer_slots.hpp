// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests between the emulating processes of a user, by a file in /dev/shm. A process that is
// about to post a WR on memory of another one asks it to check the memory; then it tells whether
// the WR was posted. The processes trust each other, but may end or stop at any moment: there is no
// lock in the file. What is read there is checked like data from the network.
#pragma once

#include "rkey_table.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace coherdma::emulation {

inline constexpr std::size_t MAX_PEER_TEXT = 192, MAX_PEER_STACK = 3200;

/// The strings end with a 0, or the array does.
struct check_request {
    remote_memory memory;
    std::uint32_t opcode;
    char text[MAX_PEER_TEXT];
    char stack[MAX_PEER_STACK]; ///< one frame per line
};

/// What a check leaves with its owner until it is known whether the request was posted. If neither
/// is called, the process ends.
class unposted_request {
  public:
    virtual ~unposted_request() = default;
    [[nodiscard]] virtual bool has_findings() const noexcept = 0;
    virtual void on_post() = 0;
    virtual void on_refuse() = 0;
};
/// Checks memory of this process; nullptr: that leaves nothing. Called by the thread that answers.
using check_function = std::function<std::unique_ptr<unposted_request>(const check_request &)>;

class peer_slots {
  public:
    struct timeouts {
        /// In which the owner must begin a check,
        std::chrono::milliseconds begin{300};
        /// and end it. Both begin again when it begins or ends any check.
        std::chrono::milliseconds end{3000};
    };

    /// Opens the file, creates it if needed, and takes a slot in it for this process. nullptr: see
    /// reason.
    static std::unique_ptr<peer_slots> open(const std::string &name, timeouts, std::string &reason);
    ~peer_slots();
    peer_slots(const peer_slots &) = delete;
    peer_slots &operator=(const peer_slots &) = delete;

    [[nodiscard]] rkey_table &rkeys() noexcept { return *rkeys_; }

    // -- memory of this process

    /// Answers requests until close().
    void answer_requests(const check_function &);
    /// Requests to this process fail from now on. Waits until those in progress are answered, and
    /// what they left is done, but no longer than for a check.
    void close() noexcept;

    // -- memory of other processes

    /// The place of what a check left.
    struct ticket {
        std::uint32_t slot = 0, index = 0;
        std::uint32_t number = 0; ///< 0: it left nothing
        bool has_findings = false;
    };
    enum class answer : std::uint8_t {
        NO_OWNER, ///< no other process has the memory, or several have
        CHECKED,
        UNCHECKED ///< the owner did not answer in time
    };
    /// Asks the owner to check its memory. If it does not answer, it is not waited for again before
    /// it has done something.
    answer request_check(const check_request &, ticket &);
    /// If the check left something: the owner does the same with it. It is not waited for.
    void end_request(const ticket &, bool is_posted) noexcept;

    // -- layout of the file, for tests

    static constexpr unsigned NUM_SLOTS = 64;
    [[nodiscard]] static std::size_t mapped_size() noexcept;
    [[nodiscard]] static std::uint64_t file_size() noexcept;
    /// The process has taken this one.
    [[nodiscard]] unsigned own_index() const noexcept { return own_index_; }

  private:
    static constexpr unsigned MAILBOXES_PER_SLOT = 4;
    static constexpr unsigned NUM_MAILBOXES = NUM_SLOTS * MAILBOXES_PER_SLOT;
    static constexpr unsigned NUM_TICKETS = 512; ///< of one owner

    struct mailbox;
    struct process_slot;
    struct shm_layout;
    class own_mailbox;

    /// What a check of a peer's request left.
    struct kept_request {
        unsigned ticket_index;
        std::uint32_t ticket_number;
        unsigned requester;             ///< slot
        std::uint32_t requester_number; ///< of the process that has it
        std::unique_ptr<unposted_request> left;
    };
    enum class outcome : std::uint8_t { NONE, POSTED, REFUSED };

    peer_slots(int fd, shm_layout *, timeouts);
    static shm_layout *map_file(int fd, const std::string &path, std::string &reason);
    bool take_slot();
    [[nodiscard]] process_slot &own_slot() const noexcept;
    [[nodiscard]] rkey_table_place table_place(unsigned slot) const noexcept;

    void show_progress() noexcept;
    bool answer_pending(const check_function &);
    void answer_mailbox(unsigned index, const check_function &);
    std::uint32_t keep(unsigned requester, std::uint32_t requester_number,
                       std::unique_ptr<unposted_request>);
    [[nodiscard]] outcome outcome_of(const kept_request &) const noexcept;
    [[nodiscard]] bool is_requester_gone(const kept_request &) const noexcept;
    enum class scan : std::uint8_t {
        FIRST, ///< up to the first without an outcome
        ALL,   ///< also those of requesters that have ended: they count as posted
        AT_END ///< this process ends: all without an outcome count as posted
    };
    void end_decided(scan) noexcept;

    [[nodiscard]] bool is_live(unsigned slot) const noexcept;
    enum class search : std::uint8_t { ABSENT, PRESENT, UNKNOWN };
    search find_in_table(unsigned slot, const remote_memory &) noexcept;
    bool await_answer(mailbox &, unsigned owner, std::uint32_t owner_number,
                      std::uint32_t requested) noexcept;

    const int fd_;
    shm_layout *const shm_;
    const timeouts timeouts_;
    unsigned own_index_ = 0;
    std::unique_ptr<rkey_table> rkeys_;

    std::mutex kept_mutex_; ///< protects the following
    std::condition_variable answers_ended_;
    bool has_thread_ = false;      ///< that answers
    bool is_closed_ = false;       ///< what a check leaves from now on is dropped
    std::list<kept_request> kept_; ///< oldest first
    std::chrono::steady_clock::time_point next_look_; ///< whether requesters have ended
    std::vector<unsigned> free_tickets_;

    std::mutex mailbox_mutex_; ///< protects the following
    std::condition_variable mailbox_freed_;
    std::array<bool, MAILBOXES_PER_SLOT> used_mailboxes_{};

    /// By slot, of owners that did not answer: their process and what it had done; 0: none.
    std::array<std::atomic<std::uint64_t>, NUM_SLOTS> silent_owners_{};
    std::array<std::atomic<std::uint64_t>, NUM_SLOTS> stuck_tables_{};
};

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Tells the sanitizer that the program was compiled with which memory devices use.
#pragma once

#include "books.hpp"
#include "device_threads.hpp"
#include "initialized_memory.hpp"
#include "poisoned_memory.hpp"

#include <memory>
#include <optional>

namespace coherdma::check {

/// Protected by the mutex of the check.
class sanitizers final : public request_watcher {
  public:
    /// Of this process; nullptr: it has none. Throws std::bad_alloc.
    static std::unique_ptr<sanitizers> find();

    void begin(const known_object &queue, std::uint64_t number, const posted_request &) override;
    void stop(std::uint64_t number, const posted_request &) noexcept override;
    void drop(std::uint64_t number, const posted_request &) noexcept override;
    void end(std::uint64_t number, const posted_request &) noexcept override;
    void end_queue(const known_object &) noexcept override;
    /// The program has polled its completion, or knows by another one that it is complete.
    /// byte_len: that the device has written, if it is a target; no value: it was flushed, or
    /// failed.
    void complete(std::uint64_t number, const posted_request &,
                  std::optional<std::size_t> byte_len) noexcept;
    void note_object(const interposer::object &) noexcept;
    void note_registration(const interposer::registration &) noexcept;
    void note_completion(const ibv_wc &) noexcept;
    /// The first byte of the source of a request that is not initialized.
    [[nodiscard]] std::optional<std::uintptr_t>
    find_uninitialized(const posted_request &) const noexcept;
    /// A receive of the QP is complete: the peer has got these sends, and answered.
    void note_answer(const known_qp &, std::uint64_t first, std::uint64_t last) noexcept;

    /// The program is about to free or unmap the range, by this call.
    void note_free(std::uintptr_t begin, std::uintptr_t end, const char *call) noexcept;
    /// fork() begins.
    void before_fork() noexcept;
    /// In a child of fork(): devices use the parent's memory, and not its copy. It frees nothing,
    /// as the sanitizer may hold its locks. The object is not used any more.
    void unpoison_all() const noexcept;

    /// The requests that have poisoned the range.
    [[nodiscard]] std::vector<std::uint64_t> find_requests(std::uintptr_t begin,
                                                           std::uintptr_t end) const;

  private:
    void unpoison(std::uint64_t number, const posted_request &) noexcept;

    std::optional<poisoned_memory> poisoned_;       ///< if it is the address sanitizer
    std::optional<device_threads> device_threads_;  ///< if it is the thread sanitizer
    std::optional<initialized_memory> initialized_; ///< if it is the memory sanitizer
};

/// Has the address sanitizer add to its reports which request uses the memory. Once.
void explain_sanitizer_reports() noexcept;

} // namespace coherdma::check

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What devices and drivers write, for the memory sanitizer of the program: it is initialized, and
// not before the completion.
#pragma once

#include "books.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace coherdma::check {

/// Functions of the sanitizer that runs the program.
struct msan_runtime {
    void (*poison)(const volatile void *addr, std::size_t length);
    void (*unpoison)(const volatile void *addr, std::size_t length);
    /// The offset of the first byte that is not initialized; -1: all are.
    std::intptr_t (*test_shadow)(const volatile void *addr, std::size_t length);
};

/// Not thread-safe.
class initialized_memory {
  public:
    explicit initialized_memory(const msan_runtime &runtime)
        : runtime_(runtime) {}

    /// The object has its public structure from a library.
    void add_object(const interposer::object &) const noexcept;
    /// Peers may write it.
    void add(std::uintptr_t begin, std::size_t length) const noexcept;

    /// Its targets are not initialized. Throws std::bad_alloc.
    void post(std::uint64_t number, const posted_request &);
    /// The device writes no more: the targets are as they were before, until the completion says
    /// what was written.
    void stop(std::uint64_t number) noexcept;
    /// The device has written that many bytes.
    void complete(std::uint64_t number, std::size_t length) noexcept;
    /// It may have written all of the targets.
    void drop(std::uint64_t number) noexcept { complete(number, SIZE_MAX); }
    void end(std::uint64_t number) noexcept;
    /// Without memory of the heap.
    void unpoison_all() const noexcept;
    void note_free(std::uintptr_t begin, std::uintptr_t end) noexcept;

    /// Of the source of a request; no value: it is initialized.
    [[nodiscard]] std::optional<std::uintptr_t>
    find_uninitialized(const posted_request &) const noexcept;

  private:
    struct target {
        std::uintptr_t begin = 0, end = 0;
        bool was_initialized = false;
    };
    using target_list = std::vector<target>;

    void restore(const target &) const noexcept;

    msan_runtime runtime_;
    std::unordered_map<std::uint64_t, target_list> posted_;
};

} // namespace coherdma::check

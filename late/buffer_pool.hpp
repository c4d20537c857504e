// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory of the module's, registered with a PD of the program's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace coherdma::late {

/// Memory that is registered with one call. Not thread-safe.
class registered_chunk {
  public:
    /// Calls ibv_reg_mr(). nullptr: errno is set. Throws std::bad_alloc.
    static std::unique_ptr<registered_chunk> make(ibv_pd &, std::size_t size);
    /// Calls ibv_dereg_mr(), unless the device is closed.
    ~registered_chunk();
    registered_chunk(const registered_chunk &) = delete;
    registered_chunk &operator=(const registered_chunk &) = delete;

    /// nullptr: it has no room. Throws std::bad_alloc.
    std::byte *take(std::size_t size);
    /// Another request uses this buffer, too.
    void add_use(const std::byte *begin) noexcept { ++uses_.find(begin)->second; }
    /// A request that has it ends.
    void give_back(const std::byte *begin, std::size_t size) noexcept;

    [[nodiscard]] bool is_unused() const noexcept { return uses_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::uint32_t lkey() const noexcept { return mr_->lkey; }
    void note_closed_device() noexcept { mr_ = nullptr; }

  private:
    registered_chunk(std::byte *memory, std::size_t size, ibv_mr *mr)
        : memory_(memory)
        , size_(size)
        , mr_(mr)
        , free_{{0, size}} {}

    std::byte *const memory_;
    const std::size_t size_;
    ibv_mr *mr_;
    std::map<const std::byte *, std::size_t> uses_; ///< requests that have a buffer
    std::map<std::size_t, std::size_t> free_;       ///< lengths, by offset; no two are adjacent
};

struct device_buffer {
    const ibv_pd *pd = nullptr; ///< that it is registered with
    registered_chunk *chunk = nullptr;
    std::byte *begin = nullptr;
    std::size_t size = 0;
};

/// The chunks of one PD. Not thread-safe.
class buffer_pool {
  public:
    using chunks = std::vector<std::unique_ptr<registered_chunk>>;
    static constexpr std::size_t ALIGNMENT = 64;

    /// size: a multiple of ALIGNMENT. No value: a chunk must be added. Throws std::bad_alloc.
    std::optional<device_buffer> take(const ibv_pd &, std::size_t size);
    void add(std::unique_ptr<registered_chunk> added, const ibv_context *context) {
        chunks_.push_back(std::move(added));
        context_ = context;
    }
    /// nullptr: there was never a chunk.
    [[nodiscard]] const ibv_context *context() const noexcept { return context_; }
    static std::size_t whole_pages(std::size_t size) noexcept;
    /// The size of a chunk that has room for this, and for others.
    [[nodiscard]] std::size_t next_size(std::size_t size) const noexcept;
    /// Those without a buffer, which are to be destroyed where no mutex is locked. Throws
    /// std::bad_alloc.
    chunks take_unused();
    chunks take_all() noexcept { return std::move(chunks_); }
    [[nodiscard]] bool has(const registered_chunk *) const noexcept;

    bool is_exhausted = false; ///< no more memory can be registered

  private:
    chunks chunks_;
    const ibv_context *context_ = nullptr;
};

} // namespace coherdma::late

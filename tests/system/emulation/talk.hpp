// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// One connection of `synced`, with notes that both sides send each other so that each step has its
// turn. The memory of notes is the provider's business, and never synced.
#pragma once

#include "../verbs.hpp"
#include "sites.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <infiniband/verbs.h>
#include <map>
#include <rdma/rdma_cma.h>
#include <set>
#include <span>

namespace synced {

using carry::check;
using carry::failure;
using carry::owned;
using carry::text;
using bytes = std::span<std::byte>;

constexpr std::size_t LINE = 256; // the longest that is played

// Registered memory that shares no line with anything. Not a multiple of pages.
class memory {
  public:
    memory(ibv_pd *, std::size_t length, unsigned access);
    [[nodiscard]] bytes part(std::size_t offset, std::size_t length) const;
    [[nodiscard]] ibv_sge piece(bytes) const;
    [[nodiscard]] const ibv_mr *key() const noexcept { return region_.get(); }
    [[nodiscard]] std::size_t length() const noexcept { return length_; }

  private:
    static void let_go(std::byte *memory) noexcept { std::free(memory); }
    std::size_t length_;
    owned<std::byte, let_go> own_;
    owned<ibv_mr, ibv_dereg_mr> region_;
};

enum class style : std::uint8_t {
    PLAIN,
    SHARED, // receives come from a shared queue
    PARTS,  // requests are posted by parts
    POLLED, // completions are polled by parts
};

// What a side tells the other. A Write's immediate data comes as a note, too.
struct note {
    std::uint32_t length = 0; // of what follows it
    std::uint32_t immediate = 0;
    std::uint64_t address = 0;
    std::uint32_t key = 0;
    std::uint32_t spare = 0;
};

class talk {
  public:
    static constexpr std::size_t LONGEST = 1500;  // data with a note
    static constexpr std::size_t OWN = 11 * LINE; // for requests of one's own
    static const std::size_t ROOM;

    // Its memory are ROOM bytes from an offset.
    talk(rdma_cm_id *, ibv_pd *, style, const memory &, std::size_t offset);

    void tell(const note &, std::span<const std::byte> data = {});
    // Blocks. The data is there until the next call.
    note hear();
    [[nodiscard]] std::span<const std::byte> heard() const noexcept { return data_; }

    // A request whose opcode, pieces and addresses are set; the id is given here.
    std::uint64_t post(ibv_send_wr);
    void finish(std::uint64_t id);
    void run(const ibv_send_wr &request) { finish(post(request)); }
    // The source or the sink of a request.
    [[nodiscard]] bytes own(std::size_t offset, std::size_t length) const;
    [[nodiscard]] ibv_sge piece(bytes which) const { return in_.piece(which); }
    [[nodiscard]] rdma_cm_id *id() const noexcept { return id_.get(); }

  private:
    static void end(rdma_cm_id *) noexcept;
    void create_queues(ibv_pd *);
    [[nodiscard]] bytes slot(std::size_t which, std::size_t length) const;
    void receive_into(std::size_t which);
    void post_by_parts(const ibv_send_wr &);
    bool poll();
    bool poll_by_parts();
    void took(std::uint64_t id, ibv_wc_status, ibv_wc_opcode, std::uint32_t immediate);
    void await();

    style style_;
    owned<rdma_cm_id, rdma_destroy_id> id_;
    const memory &in_;
    std::size_t offset_;
    owned<ibv_comp_channel, ibv_destroy_comp_channel> channel_;
    owned<ibv_cq, ibv_destroy_cq> queue_;
    owned<ibv_srq, ibv_destroy_srq> shared_;
    owned<rdma_cm_id, end> pair_;
    struct arrival {
        std::size_t slot;
        bool is_write;
        std::uint32_t immediate;
    };
    std::deque<arrival> arrived_;
    std::set<std::uint64_t> done_;
    std::uint64_t next_ = 1000; // below: the slots of receives
    std::array<std::byte, LONGEST> data_room_{};
    std::span<const std::byte> data_;
};

} // namespace synced

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a scenario uses: memory of its own, which a peer accesses, and the calls that a program with
// a non-coherent device has to make. One call is wrong or omitted if the stage omits.
#pragma once

#include "peer.hpp"

#include <vector>

namespace omissions {

/// The sync calls of libcoherdma.
enum class call : std::uint8_t {
    BEFORE_READ,
    BEFORE_WRITE,
    AFTER_WRITE,
    DEVICE_READS,   ///< coherdma_sync_for_device(), COHERDMA_TO_DEVICE
    DEVICE_WRITES,  ///< coherdma_sync_for_device(), COHERDMA_FROM_DEVICE
    DEVICE_READ,    ///< coherdma_sync_for_cpu(), COHERDMA_TO_DEVICE
    DEVICE_WROTE,   ///< coherdma_sync_for_cpu(), COHERDMA_FROM_DEVICE
    SEPARATE_LINES, ///< no call helps
};
const char *name_of(call) noexcept;

/// The memory of a scenario begins in a page
enum class page_state : std::uint8_t {
    FRESH,      ///< that is registered for the first time,
    REGISTERED, ///< or that has other memory which is registered.
};

class stage {
  public:
    static constexpr std::size_t LENGTH = 3072, LINE = 64;

    /// Maps memory that is never unmapped, so that each scenario has addresses of its own.
    stage(const char *name, side &owner, const peer_proxy &peer, page_state, bool omits,
          bool is_shared = false);
    ~stage() { deregister_memory(); }
    stage(const stage &) = delete;
    stage &operator=(const stage &) = delete;

    /// Whether the call is wrong or omitted.
    [[nodiscard]] bool omits() const noexcept { return omits_; }
    [[nodiscard]] bool has_wrong_data() const noexcept { return has_wrong_data_; }
    [[nodiscard]] side &owner() const noexcept { return owner_; }

    [[nodiscard]] bytes part(std::size_t offset, std::size_t length) const {
        return memory_.subspan(offset, length);
    }
    /// The end of a fresh page and the begin of the memory.
    [[nodiscard]] bytes two_pages() const;

    // -- registration

    /// All of it, or a part. Peers use the last one's rkey.
    void register_memory() { register_memory(memory_); }
    void register_memory(bytes part);
    void deregister_memory() {
        window_.reset();
        mrs_.clear();
    }
    /// An iova of its own: not of siw.
    void register_with_iova();
    /// What the program takes for its address by mistake.
    [[nodiscard]] bytes at_iova(bytes range) const noexcept {
        return {range.data() + key_.offset, range.size()};
    }
    /// Of the first MR. Peers use the window's rkey from now on.
    void bind_window();

    // -- stores and loads of the owner

    static void store(bytes data, int value);
    /// In a child of fork(), which has ended then.
    static void do_in_child(const std::function<void()> &function);
    void expect(bytes data, int value);
    void expect_number(bytes data, std::uint64_t value);

    // -- syncs

    void sync(call, bytes range) const;
    /// Unless the stage omits.
    void sync_unless_omitted(call, bytes range) const;
    /// Of `range`, or, if the stage omits, this call of this range. missing: of which bytes.
    void sync_wrongly(call, bytes range, call wrong, bytes wrong_range, bytes missing) const;
    /// Prints that a finding on these lines must name this call.
    void expect_finding(call, bytes range) const;

    // -- requests of the peer on the memory

    void expect_peer_reads(bytes range, int value);
    /// With a message, which the owner receives: it knows of the Write.
    void peer_writes(bytes range, int value);
    /// Without.
    void peer_writes_silently(bytes range, int value,
                              ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE) const;
    void peer_writes_with_immediate(bytes range, int value);
    void peer_adds(bytes word, std::uint64_t value);
    void peer_swaps(bytes word, std::uint64_t expected, std::uint64_t value);
    void receive_message();

    // -- requests of the owner

    /// An RDMA Read of the peer's memory, which has these bytes, or a Write to it.
    void read_from_peer(bytes sink, int value) const;
    /// The same without a completion of its own: a later request has one.
    void read_from_peer_unsignaled(bytes sink, int value) const;
    /// Fails, which ends the connection.
    void read_without_permission(bytes sink) const;
    void write_to_peer(bytes source, int expected);
    /// What the peer receives must be these bytes.
    void send_to_peer(bytes source, int expected, unsigned flags = 0);
    /// By one Send with two SGEs.
    void send_both_to_peer(bytes first, bytes second, int expected);
    /// A fetch-and-add on memory of the peer, which had the number 0x0101...
    void add_at_peer(bytes sink, std::uint64_t value) const;
    /// A Receive of the range, which begins to wait; and then a message for it.
    void post_receive(bytes sink);
    void peer_sends_to_receive() const;

  private:
    struct mr_key {
        std::uint32_t rkey = 0;
        std::uint64_t offset = 0; ///< of the remote address from the program's
    };
    peer_answer expose_at_peer(int value) const;
    [[nodiscard]] peer_request make_request(ibv_wr_opcode opcode, bytes range) const;
    [[nodiscard]] std::uint32_t lkey() const { return mrs_.back()->lkey; }
    void report_wrong(std::uint64_t actual, std::uint64_t expected);
    [[nodiscard]] unsigned access() const noexcept;

    const char *name_;
    side &owner_;
    const peer_proxy &peer_;
    bool omits_, has_wrong_data_ = false;
    bytes memory_;
    unique_handle<ibv_mr, ibv_dereg_mr> neighbor_;
    std::vector<unique_handle<ibv_mr, ibv_dereg_mr>> mrs_;
    struct mw_deleter { // the verb itself is inline, so it is no template's argument
        void operator()(ibv_mw *mw) const noexcept { ibv_dealloc_mw(mw); }
    };
    std::unique_ptr<ibv_mw, mw_deleter> window_;
    mr_key key_;
};

} // namespace omissions

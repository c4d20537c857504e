// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat_common/adapter.hpp"
#include "datping/protocol.hpp"

#include <cstdint>
#include <memory>

namespace tools::datping {

/// Page-aligned memory, registered as an LMR. Nothing else is in its pages.
class lmr_buffer {
  public:
    lmr_buffer(const dat::adapter &ia, DAT_PZ_HANDLE pz, std::size_t size, unsigned privileges);

    std::span<std::byte> bytes() const { return {memory_.get(), size_}; }
    /// A part of the buffer, as local segment of a DTO.
    DAT_LMR_TRIPLET segment(std::size_t offset, std::size_t length) const;
    DAT_LMR_TRIPLET whole_segment() const { return segment(0, size_); }
    /// The whole buffer, as sent to the peer.
    remote_buffer as_remote_buffer() const;

  private:
    struct free_memory {
        void operator()(std::byte *memory) const;
    };
    std::unique_ptr<std::byte, free_memory> memory_;
    std::size_t size_;
    dat::lmr_handle lmr_;
    DAT_LMR_CONTEXT lmr_context_ = 0;
    DAT_RMR_CONTEXT rmr_context_ = 0;
};

/// The kinds of DTOs that datping posts.
enum class dto_kind : std::uint8_t { RECV, SEND, WRITE, READ };
const char *dto_kind_name(dto_kind kind);

/// An EP, its buffers and the DTOs of datping. Completions go to dto_evd; their cookies hold the
/// number of the channel and the kind of DTO.
class channel {
  public:
    /// A client has a buffer of data to send. A server sends back what it has received, and needs
    /// another buffer for the next Receive meanwhile.
    enum class side { CLIENT, SERVER };
    channel(side, const dat::adapter &ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE dto_evd,
            DAT_EVD_HANDLE conn_evd, std::size_t size, std::uint64_t number);
    channel(const channel &) = delete; // it points to buffers of its own
    channel &operator=(const channel &) = delete;

    DAT_EP_HANDLE ep() const { return ep_.get(); }
    /// The buffer that has the received data, which the server also sends back; and the client's
    /// buffer of data to send.
    std::span<std::byte> incoming() const { return data_->bytes(); }
    std::span<std::byte> outgoing() const { return outgoing_->bytes(); }
    remote_buffer incoming_for_peer() const { return incoming_.as_remote_buffer(); }
    remote_buffer outgoing_for_peer() const { return outgoing_->as_remote_buffer(); }

    /// Posts a Receive for a message and any data that follow it. A server's are received in the
    /// buffer that is not incoming().
    void post_receive();
    /// incoming() is the buffer of the last message, or the one that the peer writes and that
    /// Reads fill. No Receive is posted, and what was posted with incoming() is complete.
    void use_received_data() { data_ = received_; }
    void use_transferred_data() { data_ = &incoming_; }
    /// The received message; nothing if it is invalid. `length` is that of the completion.
    std::optional<message> decode_received(std::size_t length) const;
    void post_send(const message &msg);
    void post_send_with_incoming(const message &msg) {
        post_send_with(msg, data_->whole_segment());
    }
    void post_send_with_outgoing(const message &msg) {
        post_send_with(msg, outgoing_->whole_segment());
    }
    void post_write_incoming(const remote_buffer &remote) {
        post_write(data_->whole_segment(), remote);
    }
    void post_write_outgoing(const remote_buffer &remote) {
        post_write(outgoing_->whole_segment(), remote);
    }
    void post_read(const remote_buffer &remote);

    /// To be called before the peer reads data that the CPU wrote.
    void sync_incoming_for_read() { sync_for_read(incoming_); }
    void sync_outgoing_for_read() { sync_for_read(*outgoing_); }
    /// To be called before the peer writes, and again after it.
    void sync_incoming_for_write();

    /// The parts of a completion's cookie.
    static std::uint64_t channel_number(const DAT_DTO_COOKIE &cookie) { return cookie.as_64 >> 8; }
    static dto_kind kind_of(const DAT_DTO_COOKIE &cookie) {
        return static_cast<dto_kind>(cookie.as_64 & 0xff);
    }

  private:
    DAT_DTO_COOKIE make_cookie(dto_kind kind) const;
    void store_message(const message &msg);
    void post_send_with(const message &msg, DAT_LMR_TRIPLET data);
    void post_write(DAT_LMR_TRIPLET local, const remote_buffer &remote);
    void sync_for_read(const lmr_buffer &buffer);

    const dat::adapter &ia_;
    std::uint64_t number_;
    lmr_buffer messages_; // the received message, and on its own page the message to send
    lmr_buffer incoming_;
    std::optional<lmr_buffer> outgoing_;        // of a client
    std::optional<lmr_buffer> second_incoming_; // of a server
    lmr_buffer *data_ = &incoming_;             // has the received data
    lmr_buffer *received_ = &incoming_;         // of the Receive that was posted last
    dat::ep_handle ep_; // last member: freed before the objects that it uses
};

} // namespace tools::datping

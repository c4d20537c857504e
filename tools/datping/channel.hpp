// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat/adapter.hpp"
#include "datping/wire.hpp"

#include <cstdint>
#include <memory>

namespace tools::datping {

/// Memory registered with the IA. It begins at a page, and nothing else is in its pages.
class region {
  public:
    region(const dat::adapter &ia, DAT_PZ_HANDLE pz, std::size_t bytes, unsigned privileges);

    std::span<std::byte> bytes() const { return {memory.get(), size}; }
    /// A part of it, for requests of our own.
    DAT_LMR_TRIPLET part(std::size_t from, std::size_t length) const;
    DAT_LMR_TRIPLET whole() const { return part(0, size); }
    /// For the peer.
    place shown() const;

  private:
    struct release {
        void operator()(std::byte *which) const;
    };
    std::unique_ptr<std::byte, release> memory;
    std::size_t size;
    dat::lmr_handle registered;
    DAT_LMR_CONTEXT lmr = 0;
    DAT_RMR_CONTEXT rmr = 0;
};

/// What a completion is of.
enum class work : std::uint8_t { RECEIVE, SEND, WRITE, READ };
const char *name_of(work which);

/// One side of a connection: an endpoint, its memory, and the few requests that datping makes.
/// Their completions come to the EVD that was given, with the number of the channel.
class channel {
  public:
    channel(const dat::adapter &ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE transfers,
            DAT_EVD_HANDLE connections, std::size_t size, std::uint64_t number);

    DAT_EP_HANDLE endpoint() const { return ep.get(); }
    /// Where data come to, and where the client has those that go out.
    std::span<std::byte> in() const { return incoming.bytes(); }
    std::span<std::byte> out() const { return outgoing.bytes(); }
    place shown_in() const { return incoming.shown(); }
    place shown_out() const { return outgoing.shown(); }

    /// For a message, with data behind it or not.
    void receive();
    /// What came; none if it is nonsense. The length is that of the completion.
    std::optional<message> received(std::size_t length) const;
    void send(const message &said);
    void send_with_in(const message &said) { send_with(said, incoming.whole()); }
    void send_with_out(const message &said) { send_with(said, outgoing.whole()); }
    void write_in(const place &there) { write(incoming.whole(), there); }
    void write_out(const place &there) { write(outgoing.whole(), there); }
    void read(const place &there);

    /// Before the peer reads what the CPU wrote.
    void before_read_of_in() { before_read(incoming); }
    void before_read_of_out() { before_read(outgoing); }
    /// Before the peer writes, and again after it.
    void around_write_of_in();

    /// Of a completion's cookie.
    static std::uint64_t number_in(const DAT_DTO_COOKIE &cookie) { return cookie.as_64 >> 8; }
    static work work_in(const DAT_DTO_COOKIE &cookie) {
        return static_cast<work>(cookie.as_64 & 0xff);
    }

  private:
    DAT_DTO_COOKIE cookie(work which) const;
    void put(const message &said);
    void send_with(const message &said, DAT_LMR_TRIPLET data);
    void write(DAT_LMR_TRIPLET from, const place &there);
    void before_read(const region &which);

    const dat::adapter &ia;
    std::uint64_t number;
    region messages; // the one that comes, then on its own page the one that goes
    region incoming, outgoing;
    dat::ep_handle ep; // the last, so freed before what it uses
};

} // namespace tools::datping

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The protocol between two datpings. Numbers are in network byte order; a hello whose magic is
// byte-swapped shows a peer with another byte order.
//
// The client sends a hello as private data of the connect request; the server replies with an
// ACCEPT or REJECT hello. Each side then sends ADVERTISE with its buffers; the client sends first,
// as iWARP requires. In each round the client sends START and the server replies DONE; the mode
// says how the data move:
//
//   send       START and DONE carry the data
//   write      the sender of START or DONE first writes the data to the peer by RDMA Write
//   read       after START the server reads the client's data, after DONE the client reads the
//              server's
//   pingpong   after START the server reads the client's data, and writes it back before DONE
//
// The server returns the data that it received. To end, either side sends BYE, waits for its
// completion and disconnects.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tools::datping {

constexpr std::uint16_t PROTOCOL_VERSION = 1;
constexpr std::uint64_t MAX_SIZE = std::uint64_t{1} << 30;

enum class mode : std::uint8_t { SEND = 1, WRITE = 2, READ = 3, PINGPONG = 4 };
const char *mode_name(mode value);

/// Why a server rejects a client.
enum class reject_reason : std::uint8_t {
    VERSION = 1,
    MALFORMED = 2,
    SIZE = 3,
    BUSY = 4,
    RESOURCES = 5,
    INTERVAL = 6
};
std::string to_string(reject_reason reason);

struct hello {
    enum class kind : std::uint8_t { REQUEST = 1, ACCEPT = 2, REJECT = 3 };
    kind type = kind::REQUEST;
    bool verify = true;      ///< the server compares the data, too
    bool needs_sync = false; ///< the sender's device needs syncs (lmr_sync_req)
    reject_reason reason = reject_reason::MALFORMED; ///< valid in REJECT
    std::uint64_t size = 0;           ///< bytes per round; in a REJECT for SIZE, the server's limit
    std::uint32_t max_silence_ms = 0; ///< the sender may pause this long between rounds; in a
                                      ///< REJECT for INTERVAL, the server's limit
    std::uint16_t version = PROTOCOL_VERSION; ///< if it differs, no other field is decoded
};
constexpr std::size_t HELLO_BYTES = 32;

/// Why bytes from the peer are not a valid hello.
enum class decode_error { NONE, BAD_MAGIC, WRONG_BYTE_ORDER, VERSION, MALFORMED };

std::array<std::byte, HELLO_BYTES> encode(const hello &msg);
/// `bytes` may be longer than the hello: connection managers pad private data.
decode_error decode(std::span<const std::byte> bytes, hello &msg);

/// A buffer that the peer may access by RDMA.
struct remote_buffer {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint32_t rmr_context = 0;
};

/// The number of bytes that differ from the expected data, and the first of them.
struct data_mismatch {
    std::uint64_t count = 0;
    std::uint64_t first_offset = 0;
    std::uint8_t actual = 0, expected = 0;
};

struct message {
    enum class kind : std::uint8_t { ADVERTISE = 1, START = 2, DONE = 3, BYE = 4 };
    kind type = kind::ADVERTISE;
    datping::mode mode = mode::PINGPONG;
    std::uint64_t round = 0;
    remote_buffer readable, writable; ///< valid in ADVERTISE
    data_mismatch mismatch; ///< in DONE: found by the server; in BYE: .count is the number of
                            ///< rounds with errors
};
constexpr std::size_t MESSAGE_BYTES = 96;

std::array<std::byte, MESSAGE_BYTES> encode(const message &msg);
/// Returns nothing if the bytes are not a valid message.
std::optional<message> decode(std::span<const std::byte> bytes);

} // namespace tools::datping

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What two datpings say to each other. Numbers are in network byte order, whatever the machines
// are; the magic of a hello tells if somebody wrote them in another.
//
// Who connects sends a hello as private data and gets one back: welcome, or why not. Then he sends
// an offer (iWARP wants that he speaks first), and gets one: where the peer may read and write.
// Then a round is his go and the other's done, with what mode says around it:
//
//   send       go and done bring the data themselves
//   write      before each of the two, its sender writes the data to the peer by RDMA Write
//   read       at the go the server reads the client's data, at the done the client the server's
//   pingpong   at the go the server reads the client's data, and writes it back before the done
//
// The server sends back what it got. Who has had enough says bye and, once that is sent, hangs up.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tools::datping {

constexpr std::uint16_t OUR_VERSION = 1;
constexpr std::uint64_t LARGEST = std::uint64_t{1} << 30;

enum class mode : std::uint8_t { SEND = 1, WRITE = 2, READ = 3, PINGPONG = 4 };
const char *name_of(mode which);

/// Why a server wants no conversation.
enum class refusal : std::uint8_t { VERSION = 1, NONSENSE = 2, SIZE = 3, BUSY = 4, RESOURCES = 5 };
std::string words(refusal why);

struct hello {
    enum class kind : std::uint8_t { CLIENT = 1, WELCOME = 2, REFUSED = 3 };
    kind is = kind::CLIENT;
    bool verify = true;              ///< the server looks at the data, too
    bool sync_required = false;      ///< the sender's device does not see its CPU's cache
    refusal why = refusal::NONSENSE; ///< of REFUSED
    std::uint64_t size = 0;          ///< of the data of a round; of a refusal for SIZE, the largest
    std::uint32_t silence_ms = 0;    ///< the sender may be silent for so long
    std::uint16_t version = OUR_VERSION; ///< where it is another, nothing else is known
};
constexpr std::size_t HELLO_BYTES = 32;

/// What is wrong with what came.
enum class fault { NONE, FOREIGN, ORDER, VERSION, NONSENSE };

std::array<std::byte, HELLO_BYTES> encode(const hello &said);
/// The bytes may be more than were sent: connection managers pad.
fault decode(std::span<const std::byte> bytes, hello &said);

/// Memory that the peer may reach.
struct place {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
    std::uint32_t context = 0;
};

/// Bytes that are not what they should be; the first of them.
struct damage {
    std::uint64_t count = 0;
    std::uint64_t first = 0;
    std::uint8_t got = 0, wanted = 0;
};

struct message {
    enum class kind : std::uint8_t { OFFER = 1, GO = 2, DONE = 3, BYE = 4 };
    kind is = kind::OFFER;
    datping::mode mode = mode::PINGPONG;
    std::uint64_t round = 0;
    place readable, writable; ///< of OFFER
    damage found;             ///< of DONE: by the server; of BYE: rounds in which there was some
};
constexpr std::size_t MESSAGE_BYTES = 96;

std::array<std::byte, MESSAGE_BYTES> encode(const message &said);
/// None if it is nonsense.
std::optional<message> decode(std::span<const std::byte> bytes);

} // namespace tools::datping

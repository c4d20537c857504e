// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/protocol.hpp"

namespace tools::datping {
namespace {

constexpr std::uint64_t HELLO_MAGIC = 0x44'41'54'50'49'4e'47'0a;   // "DATPING\n"
constexpr std::uint64_t MESSAGE_MAGIC = 0x64'61'74'70'69'6e'67'0a; // "datping\n"
constexpr std::uint8_t VERIFY_FLAG = 1, NEEDS_SYNC_FLAG = 2;

/// Writes numbers in network byte order.
class byte_writer {
  public:
    explicit byte_writer(std::span<std::byte> bytes)
        : remaining_(bytes) {}

    template <class Number>
    void put(Number number) {
        for (std::size_t i = 0; i < sizeof number; ++i)
            remaining_[i] = static_cast<std::byte>(static_cast<std::uint64_t>(number) >>
                                                   8 * (sizeof number - 1 - i));
        remaining_ = remaining_.subspan(sizeof number);
    }

  private:
    std::span<std::byte> remaining_;
};

class byte_reader {
  public:
    explicit byte_reader(std::span<const std::byte> bytes)
        : remaining_(bytes) {}

    template <class Number>
    Number get() {
        std::uint64_t number = 0;
        for (std::size_t i = 0; i < sizeof(Number); ++i)
            number = number << 8 | std::to_integer<std::uint64_t>(remaining_[i]);
        remaining_ = remaining_.subspan(sizeof(Number));
        return static_cast<Number>(number);
    }

  private:
    std::span<const std::byte> remaining_;
};

std::uint64_t byte_swap(std::uint64_t number) {
    std::uint64_t swapped = 0;
    for (int i = 0; i < 8; ++i, number >>= 8)
        swapped = swapped << 8 | (number & 0xff);
    return swapped;
}

template <class Enum>
bool is_enumerator_up_to(Enum value, Enum last) {
    return static_cast<unsigned>(value) >= 1 && value <= last;
}

bool is_valid(const hello &msg) {
    switch (msg.type) {
    case hello::kind::REQUEST:
    case hello::kind::ACCEPT:
        return msg.size >= 1 && msg.size <= MAX_SIZE;
    case hello::kind::REJECT:
        return is_enumerator_up_to(msg.reason, reject_reason::INTERVAL);
    }
    return false;
}

void put_buffer(byte_writer &writer, const remote_buffer &buffer) {
    writer.put(buffer.address);
    writer.put(buffer.length);
    writer.put(buffer.rmr_context);
}

remote_buffer get_buffer(byte_reader &reader) {
    remote_buffer buffer;
    buffer.address = reader.get<std::uint64_t>();
    buffer.length = reader.get<std::uint64_t>();
    buffer.rmr_context = reader.get<std::uint32_t>();
    return buffer;
}

} // namespace

const char *mode_name(mode value) {
    switch (value) {
    case mode::SEND:
        return "send";
    case mode::WRITE:
        return "write";
    case mode::READ:
        return "read";
    case mode::PINGPONG:
        return "pingpong";
    }
    return "?";
}

std::string to_string(reject_reason reason) {
    switch (reason) {
    case reject_reason::VERSION:
        return "it uses another version of datping's protocol";
    case reject_reason::MALFORMED:
        return "it received a malformed request";
    case reject_reason::SIZE:
        return "the size exceeds its limit";
    case reject_reason::BUSY:
        return "it has the maximum number of clients";
    case reject_reason::RESOURCES:
        return "it lacks memory or other resources for another client";
    case reject_reason::INTERVAL:
        return "the interval exceeds its limit";
    }
    return "no reason given";
}

std::array<std::byte, HELLO_BYTES> encode(const hello &msg) {
    std::array<std::byte, HELLO_BYTES> bytes = {};
    byte_writer writer(bytes);
    writer.put(HELLO_MAGIC);
    writer.put(msg.version);
    writer.put(static_cast<std::uint8_t>(msg.type));
    writer.put(static_cast<std::uint8_t>((msg.verify ? VERIFY_FLAG : 0) |
                                         (msg.needs_sync ? NEEDS_SYNC_FLAG : 0)));
    writer.put(static_cast<std::uint32_t>(msg.reason));
    writer.put(msg.size);
    writer.put(msg.max_silence_ms);
    return bytes;
}

/// If it returns VERSION, only msg.version is set. Connection managers pad private data, so bytes
/// may follow the hello.
decode_error decode(std::span<const std::byte> bytes, hello &msg) {
    if (bytes.size() < HELLO_BYTES)
        return decode_error::BAD_MAGIC;
    byte_reader reader(bytes);
    const auto magic = reader.get<std::uint64_t>();
    if (magic != HELLO_MAGIC)
        return magic == byte_swap(HELLO_MAGIC) ? decode_error::WRONG_BYTE_ORDER
                                               : decode_error::BAD_MAGIC;
    msg.version = reader.get<std::uint16_t>();
    if (msg.version != PROTOCOL_VERSION)
        return decode_error::VERSION;
    msg.type = static_cast<hello::kind>(reader.get<std::uint8_t>());
    const auto flags = reader.get<std::uint8_t>();
    msg.verify = (flags & VERIFY_FLAG) != 0;
    msg.needs_sync = (flags & NEEDS_SYNC_FLAG) != 0;
    const auto reason = reader.get<std::uint32_t>();
    msg.reason = static_cast<reject_reason>(reason <= 0xff ? reason : 0); // 0 is none
    msg.size = reader.get<std::uint64_t>();
    msg.max_silence_ms = reader.get<std::uint32_t>();
    return is_valid(msg) ? decode_error::NONE : decode_error::MALFORMED;
}

std::array<std::byte, MESSAGE_BYTES> encode(const message &msg) {
    std::array<std::byte, MESSAGE_BYTES> bytes = {};
    byte_writer writer(bytes);
    writer.put(MESSAGE_MAGIC);
    writer.put(static_cast<std::uint8_t>(msg.type));
    writer.put(static_cast<std::uint8_t>(msg.mode));
    writer.put(msg.mismatch.actual);
    writer.put(msg.mismatch.expected);
    writer.put(msg.round);
    put_buffer(writer, msg.readable);
    put_buffer(writer, msg.writable);
    writer.put(msg.mismatch.count);
    writer.put(msg.mismatch.first_offset);
    return bytes;
}

std::optional<message> decode(std::span<const std::byte> bytes) {
    if (bytes.size() < MESSAGE_BYTES)
        return {};
    byte_reader reader(bytes);
    if (reader.get<std::uint64_t>() != MESSAGE_MAGIC)
        return {};
    message msg;
    msg.type = static_cast<message::kind>(reader.get<std::uint8_t>());
    msg.mode = static_cast<mode>(reader.get<std::uint8_t>());
    msg.mismatch.actual = reader.get<std::uint8_t>();
    msg.mismatch.expected = reader.get<std::uint8_t>();
    msg.round = reader.get<std::uint64_t>();
    msg.readable = get_buffer(reader);
    msg.writable = get_buffer(reader);
    msg.mismatch.count = reader.get<std::uint64_t>();
    msg.mismatch.first_offset = reader.get<std::uint64_t>();
    if (!is_enumerator_up_to(msg.type, message::kind::BYE) ||
        !is_enumerator_up_to(msg.mode, mode::PINGPONG))
        return {};
    return msg;
}

} // namespace tools::datping

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/wire.hpp"

namespace tools::datping {
namespace {

constexpr std::uint64_t HELLO_MAGIC = 0x44'41'54'50'49'4e'47'0a;   // "DATPING\n"
constexpr std::uint64_t MESSAGE_MAGIC = 0x64'61'74'70'69'6e'67'0a; // "datping\n"
constexpr std::uint8_t VERIFY = 1, SYNC_REQUIRED = 2;

/// Puts numbers one after another.
class writer {
  public:
    explicit writer(std::span<std::byte> bytes)
        : rest(bytes) {}

    template <class Number>
    void put(Number number) {
        for (std::size_t place = 0; place < sizeof number; ++place)
            rest[place] = static_cast<std::byte>(static_cast<std::uint64_t>(number) >>
                                                 8 * (sizeof number - 1 - place));
        rest = rest.subspan(sizeof number);
    }

  private:
    std::span<std::byte> rest;
};

class reader {
  public:
    explicit reader(std::span<const std::byte> bytes)
        : rest(bytes) {}

    template <class Number>
    Number take() {
        std::uint64_t number = 0;
        for (std::size_t place = 0; place < sizeof(Number); ++place)
            number = number << 8 | std::to_integer<std::uint64_t>(rest[place]);
        rest = rest.subspan(sizeof(Number));
        return static_cast<Number>(number);
    }

  private:
    std::span<const std::byte> rest;
};

std::uint64_t swapped(std::uint64_t number) {
    std::uint64_t other = 0;
    for (int place = 0; place < 8; ++place, number >>= 8)
        other = other << 8 | (number & 0xff);
    return other;
}

template <class Kind>
bool among(Kind each, Kind last) {
    return static_cast<unsigned>(each) >= 1 && each <= last;
}

bool sensible(const hello &said) {
    switch (said.is) {
    case hello::kind::CLIENT:
    case hello::kind::WELCOME:
        return said.size >= 1 && said.size <= LARGEST;
    case hello::kind::REFUSED:
        return among(said.why, refusal::RESOURCES);
    }
    return false;
}

void put(writer &out, const place &one) {
    out.put(one.address);
    out.put(one.length);
    out.put(one.context);
}

place take_place(reader &in) {
    place one;
    one.address = in.take<std::uint64_t>();
    one.length = in.take<std::uint64_t>();
    one.context = in.take<std::uint32_t>();
    return one;
}

} // namespace

const char *name_of(mode which) {
    switch (which) {
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

std::string words(refusal why) {
    switch (why) {
    case refusal::VERSION:
        return "it speaks another version of datping";
    case refusal::NONSENSE:
        return "it did not understand what we said";
    case refusal::SIZE:
        return "the size is too large for it";
    case refusal::BUSY:
        return "it has as many clients as it takes";
    case refusal::RESOURCES:
        return "it has not the memory, or other resources, for one more client";
    }
    return "it did not say why";
}

std::array<std::byte, HELLO_BYTES> encode(const hello &said) {
    std::array<std::byte, HELLO_BYTES> bytes = {};
    writer out(bytes);
    out.put(HELLO_MAGIC);
    out.put(said.version);
    out.put(static_cast<std::uint8_t>(said.is));
    out.put(static_cast<std::uint8_t>((said.verify ? VERIFY : 0) |
                                      (said.sync_required ? SYNC_REQUIRED : 0)));
    out.put(static_cast<std::uint32_t>(said.why));
    out.put(said.size);
    out.put(said.silence_ms);
    return bytes;
}

fault decode(std::span<const std::byte> bytes, hello &said) {
    if (bytes.size() < HELLO_BYTES)
        return fault::FOREIGN;
    reader in(bytes);
    const auto magic = in.take<std::uint64_t>();
    if (magic != HELLO_MAGIC)
        return magic == swapped(HELLO_MAGIC) ? fault::ORDER : fault::FOREIGN;
    said.version = in.take<std::uint16_t>();
    if (said.version != OUR_VERSION)
        return fault::VERSION;
    said.is = static_cast<hello::kind>(in.take<std::uint8_t>());
    const auto flags = in.take<std::uint8_t>();
    said.verify = (flags & VERIFY) != 0;
    said.sync_required = (flags & SYNC_REQUIRED) != 0;
    const auto why = in.take<std::uint32_t>();
    said.why = static_cast<refusal>(why <= 0xff ? why : 0);
    said.size = in.take<std::uint64_t>();
    said.silence_ms = in.take<std::uint32_t>();
    return sensible(said) ? fault::NONE : fault::NONSENSE;
}

std::array<std::byte, MESSAGE_BYTES> encode(const message &said) {
    std::array<std::byte, MESSAGE_BYTES> bytes = {};
    writer out(bytes);
    out.put(MESSAGE_MAGIC);
    out.put(static_cast<std::uint8_t>(said.is));
    out.put(static_cast<std::uint8_t>(said.mode));
    out.put(said.found.got);
    out.put(said.found.wanted);
    out.put(said.round);
    put(out, said.readable);
    put(out, said.writable);
    out.put(said.found.count);
    out.put(said.found.first);
    return bytes;
}

std::optional<message> decode(std::span<const std::byte> bytes) {
    if (bytes.size() < MESSAGE_BYTES)
        return {};
    reader in(bytes);
    if (in.take<std::uint64_t>() != MESSAGE_MAGIC)
        return {};
    message said;
    said.is = static_cast<message::kind>(in.take<std::uint8_t>());
    said.mode = static_cast<mode>(in.take<std::uint8_t>());
    said.found.got = in.take<std::uint8_t>();
    said.found.wanted = in.take<std::uint8_t>();
    said.round = in.take<std::uint64_t>();
    said.readable = take_place(in);
    said.writable = take_place(in);
    said.found.count = in.take<std::uint64_t>();
    said.found.first = in.take<std::uint64_t>();
    if (!among(said.is, message::kind::BYE) || !among(said.mode, mode::PINGPONG))
        return {};
    return said;
}

} // namespace tools::datping

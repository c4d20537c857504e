// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The words of the peer's command line.

#pragma once

#include <arpa/inet.h>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <stdexcept>
#include <string>
#include <vector>

namespace hostile_peer {

/// What follows the "=" of a word of the command line, as in "send=8,64" or "request=00ff".
class arguments {
  public:
    explicit arguments(std::string text)
        : text_(std::move(text)) {}

    /// The text as hexadecimal digits, two a byte; without text, no bytes.
    std::vector<unsigned char> bytes() const {
        std::vector<unsigned char> result;
        for (std::size_t i = 0; i + 1 < text_.size(); i += 2)
            result.push_back(
                static_cast<unsigned char>(std::strtoul(text_.substr(i, 2).c_str(), nullptr, 16)));
        return result;
    }
    /// The number at that index, from 0, of the list "8,64"; 0 if there is none.
    unsigned long long number(std::size_t index) const {
        std::size_t pos = 0;
        for (; index != 0; --index) {
            pos = text_.find(',', pos);
            if (pos == std::string::npos)
                return 0;
            ++pos;
        }
        return std::strtoull(text_.c_str() + pos, nullptr, 0);
    }

  private:
    std::string text_;
};

/// A word of the command line: NAME, or NAME=ARGUMENTS.
struct action {
    std::string name;
    arguments args;

    explicit action(const std::string &word)
        : name(word.substr(0, word.find('=')))
        , args(name.size() < word.size() ? word.substr(name.size() + 1) : std::string()) {}
};

inline sockaddr_in make_address(const char *address, const char *port) {
    sockaddr_in result{};
    result.sin_family = AF_INET;
    result.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
    if (inet_pton(AF_INET, address, &result.sin_addr) != 1)
        throw std::runtime_error("no address: " + std::string(address));
    return result;
}

/// Throws "CALL: the text of errno".
[[noreturn]] inline void throw_errno(const std::string &call) {
    throw std::runtime_error(call + ": " + std::strerror(errno));
}
/// Throws the same unless the condition holds, by which the call succeeded.
inline void check(bool condition, const char *call) {
    if (!condition)
        throw_errno(call);
}

} // namespace hostile_peer

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Devices and ports as the kernel reports them: recorded netlink messages and sysfs trees of
// tests/data/devices.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "../cmocka.hpp"
#include "devices/messages.hpp"
#include "sysfs_tree.hpp"

using namespace coherdma::devices;

namespace {

/// Aligned as a receive buffer, and as long as the message, so that sanitizers see its end.
class message {
  public:
    explicit message(const std::string &hex) {
        for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
            bytes.push_back(static_cast<unsigned char>(std::stoul(hex.substr(i, 2), nullptr, 16)));
    }
    /// The first bytes of another message, with the length in the header adjusted.
    message(const message &original, std::size_t length)
        : bytes(original.bytes.begin(),
                original.bytes.begin() + static_cast<std::ptrdiff_t>(length)) {
        header()->nlmsg_len = static_cast<std::uint32_t>(length);
    }
    nlmsghdr *header() { return reinterpret_cast<nlmsghdr *>(bytes.data()); }
    std::size_t size() const { return bytes.size(); }
    unsigned char &operator[](std::size_t i) { return bytes[i]; }

  private:
    std::vector<unsigned char> bytes;
};

// What the library reads from a netlink message of the kernel's RDMA subsystem.
std::string describe(message &msg) {
    std::string description;
    const auto add = [&description](const std::string &item) {
        description += (description.empty() ? "" : "; ") + item;
    };
    if (const auto port = parse_port(msg.header()))
        add("port " + std::to_string(port->port_num) + " of " + port->device + ", state " +
            std::to_string(port->state) + ", interface " + port->netdev);
    if (const auto indexed = parse_device(msg.header()))
        add("device " + indexed->device.name + " of " + indexed->device.transport + ", number " +
            std::to_string(indexed->index));
    if (const std::string driver = parse_driver(msg.header()); !driver.empty())
        add("driver " + driver);
    return description;
}

// The file has lines "message HEX" with a recorded message, and "is TEXT" with its description.
void check_messages(const std::string &path) {
    std::ifstream lines(path);
    int checked = 0;
    message last("");
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind("message ", 0) == 0) {
            last = message(line.substr(8));
        } else if (line.rfind("is ", 0) == 0) {
            assert_string_equal(describe(last).c_str(), line.substr(3).c_str());
            ++checked;
            // Truncated and damaged messages are parsed without invalid access.
            for (std::size_t length = sizeof(nlmsghdr); length < last.size(); ++length) {
                message truncated(last, length);
                describe(truncated);
                for (const int byte : {0x00, 0x01, 0x7f, 0xff}) {
                    message damaged(last, last.size());
                    damaged[length] = static_cast<unsigned char>(byte);
                    describe(damaged);
                }
            }
        }
    }
    assert_true(checked > 0);
}

std::string or_dash(const std::string &text) {
    return text.empty() ? "-" : text;
}

// The file describes a sysfs, and has a line "port DEVICE NUMBER NETDEV TRANSPORT STATE" for each
// port that the library must find there.
void check_sysfs(const std::string &path) {
    const fake_sysfs machine(path);
    std::string expected, actual;
    for (const auto &[first_word, text] : machine.other_lines) {
        assert_string_equal(first_word.c_str(), "port");
        expected += text + "\n";
    }
    for (const port &port : list_sysfs_ports(machine.root)) {
        std::ostringstream line;
        line << port.device << ' ' << port.port_num << ' ' << or_dash(port.netdev) << ' '
             << or_dash(port.transport) << ' ' << port.state << '\n';
        actual += line.str();
    }
    assert_string_equal(actual.c_str(), expected.c_str());
}

void check_each_file(const char *extension, void (*check)(const std::string &)) {
    int checked = 0;
    for (const auto &entry : std::filesystem::directory_iterator("tests/data/devices")) {
        if (entry.path().extension() == extension) {
            print_message("%s\n", entry.path().c_str());
            check(entry.path());
            ++checked;
        }
    }
    assert_true(checked > 0);
}

void recorded_netlink_messages_are_parsed(void **) {
    check_each_file(".messages", check_messages);
}

void ports_are_read_from_sysfs(void **) {
    check_each_file(".tree", check_sysfs);
}

void missing_sysfs_has_no_ports(void **) {
    assert_true(list_sysfs_ports("/nonexistent").empty());
    assert_string_equal(find_sysfs_netdev("/nonexistent", "rxe0", 1).c_str(), "");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(recorded_netlink_messages_are_parsed),
        cmocka_unit_test(ports_are_read_from_sysfs),
        cmocka_unit_test(missing_sysfs_has_no_ports),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the kernel says of devices and ports: answers that were recorded, and folders as sysfs has
// them, in tests/data/devices.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "devices/messages.hpp"
#include "tree.hpp"

#include <csetjmp>
#include <cstdarg>

extern "C" {
#include <cmocka.h>
}

using namespace coherdma::devices;

namespace {

/// Aligned as a receive buffer is, and no longer than the message, so that sanitizers see its end.
class message {
  public:
    explicit message(const std::string &hex) {
        for (std::size_t at = 0; at + 1 < hex.size(); at += 2)
            bytes.push_back(static_cast<unsigned char>(std::stoul(hex.substr(at, 2), nullptr, 16)));
    }
    /// Its beginning, of a length that it says itself.
    message(const message &whole, std::size_t length)
        : bytes(whole.bytes.begin(), whole.bytes.begin() + static_cast<std::ptrdiff_t>(length)) {
        header()->nlmsg_len = static_cast<std::uint32_t>(length);
    }
    nlmsghdr *header() { return reinterpret_cast<nlmsghdr *>(bytes.data()); }
    std::size_t size() const { return bytes.size(); }
    unsigned char &operator[](std::size_t place) { return bytes[place]; }

  private:
    std::vector<unsigned char> bytes;
};

std::string meaning(message &of) {
    std::string all;
    const auto add = [&all](const std::string &what) {
        all += (all.empty() ? "" : "; ") + what;
    };
    if (const auto one = port_in(of.header()))
        add("port " + std::to_string(one->number) + " of " + one->device + ", state " +
            std::to_string(one->state) + ", interface " + one->interface);
    if (const auto one = device_in(of.header()))
        add("device " + one->about.name + " of " + one->about.transport + ", number " +
            std::to_string(one->index));
    if (const std::string driver = driver_in(of.header()); !driver.empty())
        add("driver " + driver);
    return all;
}

void one_file_of_messages(const std::string &path) {
    std::ifstream lines(path);
    int checked = 0;
    message last("");
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind("message ", 0) == 0) {
            last = message(line.substr(8));
        } else if (line.rfind("is ", 0) == 0) {
            assert_string_equal(meaning(last).c_str(), line.substr(3).c_str());
            ++checked;
            // Cut short, or damaged, it may mean anything.
            for (std::size_t length = sizeof(nlmsghdr); length < last.size(); ++length) {
                message part(last, length);
                meaning(part);
                for (const int odd : {0x00, 0x01, 0x7f, 0xff}) {
                    message damaged(last, last.size());
                    damaged[length] = static_cast<unsigned char>(odd);
                    meaning(damaged);
                }
            }
        }
    }
    assert_true(checked > 0);
}

std::string or_dash(const std::string &text) {
    return text.empty() ? "-" : text;
}

void one_machine(const std::string &path) {
    const tree::made machine(path);
    std::string expected, found;
    for (const auto &[word, rest] : machine.words) {
        assert_string_equal(word.c_str(), "port");
        expected += rest + "\n";
    }
    for (const port &each : ports_by_sysfs(machine.root)) {
        std::ostringstream line;
        line << each.device << ' ' << each.number << ' ' << or_dash(each.interface) << ' '
             << or_dash(each.transport) << ' ' << each.state << '\n';
        found += line.str();
    }
    assert_string_equal(found.c_str(), expected.c_str());
}

void each_file(const char *extension, void (*check)(const std::string &)) {
    int checked = 0;
    for (const auto &each : std::filesystem::directory_iterator(COHERDMA_TEST_DATA "/devices")) {
        if (each.path().extension() == extension) {
            print_message("%s\n", each.path().c_str());
            check(each.path());
            ++checked;
        }
    }
    assert_true(checked > 0);
}

void recorded_answers(void **) {
    each_file(".messages", one_file_of_messages);
}

void folders(void **) {
    each_file(".tree", one_machine);
}

void no_folders(void **) {
    assert_true(ports_by_sysfs("/nowhere").empty());
    assert_string_equal(interface_by_sysfs("/nowhere", "rxe0", 1).c_str(), "");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(recorded_answers),
        cmocka_unit_test(folders),
        cmocka_unit_test(no_folders),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

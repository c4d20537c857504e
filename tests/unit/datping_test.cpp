// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What datping computes: the data of a round, times, what peers say on the wire, and the answer.

#include "datping/latency.hpp"
#include "datping/pattern.hpp"
#include "datping/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <vector>

extern "C" {
#include <cmocka.h>
}

using namespace tools::datping;

namespace {

using bytes = std::vector<std::byte>;

bytes round_of(std::uint64_t round, std::size_t size) {
    bytes memory(size);
    fill(memory, round);
    return memory;
}

void what_was_filled_is_right(void **) {
    for (const std::size_t size : {1u, 7u, 8u, 9u, 64u, 4095u, 65536u})
        for (const std::uint64_t round : {0ULL, 1ULL, 255ULL, 256ULL, ~0ULL})
            assert_int_equal(compare(round_of(round, size), round).count, 0);
}

void every_byte_counts(void **) {
    bytes memory = round_of(3, 37);
    for (std::size_t place = 0; place < memory.size(); ++place) {
        const std::byte right = memory[place];
        memory[place] ^= std::byte{0x10};
        const damage found = compare(memory, 3);
        assert_int_equal(found.count, 1);
        assert_int_equal(found.first, place);
        assert_int_equal(found.wanted, std::to_integer<int>(right));
        assert_int_equal(found.got, std::to_integer<int>(right) ^ 0x10);
        memory[place] = right;
    }
    memory[5] ^= std::byte{1};
    memory[36] ^= std::byte{1};
    assert_int_equal(compare(memory, 3).count, 2);
    assert_int_equal(compare(memory, 3).first, 5);
}

void rounds_share_no_byte(void **) {
    const bytes first = round_of(1000, 4096);
    for (std::uint64_t later = 1001; later < 1256; ++later)
        assert_int_equal(compare(first, later).count, first.size());
    assert_int_equal(compare(first, 1256).count, 0);
}

void places_differ(void **) {
    // Data that came eight bytes too far, or of another line.
    const bytes memory = round_of(1, 8192);
    for (const std::size_t shift : {1u, 8u, 64u, 4096u}) {
        const std::span<const std::byte> moved(memory.data() + shift, 4096);
        assert_true(compare(moved, 1).count > 4000);
    }
}

void the_pattern_is_that_of_all_machines(void **) {
    const bytes memory = round_of(1, 9);
    std::ostringstream text;
    for (const std::byte each : memory)
        text << std::hex << std::to_integer<int>(each) << ' ';
    assert_string_equal(text.str().c_str(), "32 50 80 e6 a4 35 bd 7f 69 ");
}

void times_in_order(void **) {
    latency times;
    assert_int_equal(times.count(), 0);
    assert_true(std::fabs(times.summarize().median) < 1e-9);
    for (int each = 200; each >= 0; --each)
        times.add(each);
    const auto got = times.summarize();
    assert_int_equal(times.count(), 201);
    assert_true(std::fabs(got.least) < 1e-9 && std::fabs(got.median - 100) < 1e-9);
    assert_true(std::fabs(got.p99 - 198) < 1e-9 && std::fabs(got.largest - 200) < 1e-9);
}

void more_times_than_are_kept(void **) {
    latency times;
    const auto many = static_cast<double>(3 * latency::KEPT);
    times.add(many + 5);
    for (double each = 1; each <= many; ++each)
        times.add(each);
    times.add(0.5);
    const auto got = times.summarize();
    assert_int_equal(times.count(), 3 * latency::KEPT + 2);
    assert_true(std::fabs(got.least - 0.5) < 1e-9 && std::fabs(got.largest - many - 5) < 1e-9);
    // Early and late ones alike are among those kept.
    assert_true(std::fabs(got.median / many - 0.5) < 0.01);
    assert_true(std::fabs(got.p99 / many - 0.99) < 0.001);
}

void a_hello_there_and_back(void **) {
    hello said;
    said.is = hello::kind::WELCOME;
    said.verify = false;
    said.sync_required = true;
    said.size = 0x12345678;
    said.silence_ms = 86400000;
    hello got;
    bytes padded(56); // as connection managers do
    const auto raw = encode(said);
    std::copy(raw.begin(), raw.end(), padded.begin());
    assert_true(decode(padded, got) == fault::NONE);
    assert_true(got.is == said.is && !got.verify && got.sync_required);
    assert_int_equal(got.size, said.size);
    assert_int_equal(got.silence_ms, said.silence_ms);
    assert_int_equal(std::to_integer<int>(raw[20]), 0x12); // the size, its highest byte first
    assert_int_equal(std::to_integer<int>(raw[23]), 0x78);
}

void a_hello_that_is_none(void **) {
    hello said, got;
    said.size = 64;
    const auto good = encode(said);
    const auto with = [&](auto change) {
        auto raw = good;
        change(raw);
        return decode(raw, got);
    };
    assert_true(with([](auto &) {}) == fault::NONE);
    assert_true(decode(std::span(good).first(31), got) == fault::FOREIGN);
    assert_true(decode({}, got) == fault::FOREIGN);
    assert_true(with([](auto &raw) { raw[0] ^= std::byte{1}; }) == fault::FOREIGN);
    assert_true(with([](auto &raw) { std::reverse(raw.begin(), raw.begin() + 8); }) ==
                fault::ORDER);
    assert_true(with([](auto &raw) { raw[9] = std::byte{2}; }) == fault::VERSION);
    assert_int_equal(got.version, 2);
    for (const int kind : {0, 4, 255})
        assert_true(with([&](auto &raw) { raw[10] = static_cast<std::byte>(kind); }) ==
                    fault::NONSENSE);
    for (const std::uint64_t size : {std::uint64_t{0}, LARGEST + 1, ~std::uint64_t{0}}) {
        said.size = size;
        assert_true(decode(encode(said), got) == fault::NONSENSE);
    }
}

void a_refusal_says_why(void **) {
    hello said, got;
    said.is = hello::kind::REFUSED;
    for (const refusal why :
         {refusal::VERSION, refusal::NONSENSE, refusal::SIZE, refusal::BUSY, refusal::RESOURCES}) {
        said.why = why;
        assert_true(decode(encode(said), got) == fault::NONE && got.why == why);
        assert_true(words(why).size() > 10);
    }
    said.why = static_cast<refusal>(6);
    assert_true(decode(encode(said), got) == fault::NONSENSE);
    auto raw = encode(said);
    raw[12] = std::byte{1}; // 0x01000006: not to be taken for its last byte
    raw[15] = std::byte{1};
    assert_true(decode(raw, got) == fault::NONSENSE);
}

void a_message_there_and_back(void **) {
    message said;
    said.is = message::kind::DONE;
    said.mode = mode::READ;
    said.round = 0x0102030405060708;
    said.readable = {0xfedcba9876543210, LARGEST, 0xdeadbeef};
    said.writable = {1, 2, 3};
    said.found = {9, 8, 7, 6};
    const auto raw = encode(said);
    const auto got = decode(raw);
    assert_true(got.has_value() && got->is == said.is && got->mode == said.mode);
    assert_true(got->round == said.round && got->readable.address == said.readable.address);
    assert_true(got->readable.length == LARGEST && got->readable.context == 0xdeadbeef);
    assert_true(got->writable.address == 1 && got->writable.length == 2 &&
                got->writable.context == 3);
    assert_true(got->found.count == 9 && got->found.first == 8 && got->found.got == 7 &&
                got->found.wanted == 6);
    assert_int_equal(std::to_integer<int>(raw[12]), 1); // the round, its highest byte first
}

void a_message_that_is_none(void **) {
    const auto good = encode(message());
    assert_true(decode(good).has_value());
    assert_false(decode(std::span(good).first(MESSAGE_BYTES - 1)).has_value());
    for (const std::size_t place : {0u, 7u, 8u, 9u}) {
        auto raw = good;
        raw[place] = std::byte{0xee};
        assert_false(decode(raw).has_value());
    }
}

void noise_is_nothing(void **) {
    std::mt19937 chance(7);
    std::array<std::byte, 128> raw;
    hello got;
    for (int time = 0; time < 100000; ++time) {
        for (std::byte &each : raw)
            each = static_cast<std::byte>(chance());
        const auto part = std::span<const std::byte>(raw).first(chance() % raw.size());
        assert_true(decode(part, got) == fault::FOREIGN);
        assert_false(decode(part).has_value());
    }
}

client_result some() {
    client_result all;
    all.host = "node7";
    all.address = "192.168.100.107";
    all.ia = "rxe0";
    all.ia_address = "192.168.100.101";
    all.connected = true;
    all.seconds = 1.5;
    for (const mode each : {mode::SEND, mode::PINGPONG}) {
        all.modes.emplace_back().mode = each;
        all.modes.back().times.add(1234567.25);
        all.modes.back().times.add(3);
    }
    return all;
}

void in_80_columns(const std::string &text) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        if (line.size() > 80)
            fail_msg("%zu columns: %s", line.size(), line.c_str());
}

void answers_in_80_columns(void **) {
    options asked;
    asked.size = LARGEST;
    in_80_columns(header(asked, some()));
    in_80_columns(summary(asked, some()));
    in_80_columns(describe(mode::PINGPONG, 1000, 4096, {4096, 4095, 1, 2}, "there"));
}

void good_and_not_good(void **) {
    client_result all = some();
    assert_true(all.good());
    all.modes[1].wrong = 1;
    assert_false(all.good());
    all = some();
    all.problem = "x";
    assert_false(all.good());
    assert_false(client_result().good());
    server_result served;
    assert_true(served.good());
    served.clients.emplace_back();
    assert_true(served.good());
    served.clients[0].wrong = 1;
    assert_false(served.good());
}

void json_says_the_same(void **) {
    options asked;
    client_result all = some();
    all.modes[0].wrong = 2;
    all.modes[0].first_wrong = "round 1";
    const auto got = nlohmann::json::parse(as_json(asked, all));
    assert_int_equal(got["schema"], 1);
    assert_true(got["modes"][0]["wrong"] == 2 && got["modes"][1]["first_wrong"].is_null());
    assert_true(got["modes"][1]["microseconds"]["max"] == 1234567.25);
    assert_true(got["good"] == false && got["problem"].is_null());
    asked.verify = false; // then nothing is said of what nobody looked at
    assert_false(nlohmann::json::parse(as_json(asked, all))["modes"][0].contains("wrong"));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(what_was_filled_is_right),
        cmocka_unit_test(every_byte_counts),
        cmocka_unit_test(rounds_share_no_byte),
        cmocka_unit_test(places_differ),
        cmocka_unit_test(the_pattern_is_that_of_all_machines),
        cmocka_unit_test(times_in_order),
        cmocka_unit_test(more_times_than_are_kept),
        cmocka_unit_test(a_hello_there_and_back),
        cmocka_unit_test(a_hello_that_is_none),
        cmocka_unit_test(a_refusal_says_why),
        cmocka_unit_test(a_message_there_and_back),
        cmocka_unit_test(a_message_that_is_none),
        cmocka_unit_test(noise_is_nothing),
        cmocka_unit_test(answers_in_80_columns),
        cmocka_unit_test(good_and_not_good),
        cmocka_unit_test(json_says_the_same),
    };
    return cmocka_run_group_tests_name("datping", tests, nullptr, nullptr);
}

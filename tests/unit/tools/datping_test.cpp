// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The computations of datping: the data of a round, latencies, messages and results.

#include "../cmocka.hpp"
#include "datping/limits.hpp"
#include "datping/pattern.hpp"
#include "datping/report/latency.hpp"
#include "datping/report/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <vector>

using namespace tools::datping;

namespace {

using bytes = std::vector<std::byte>;

bytes make_data(std::uint64_t round, std::size_t size) {
    bytes memory(size);
    fill(memory, round);
    return memory;
}

void filled_pattern_compares_equal(void **) {
    for (const std::size_t size : {1u, 7u, 8u, 9u, 64u, 4095u, 65536u})
        for (const std::uint64_t round : {0ULL, 1ULL, 255ULL, 256ULL, ~0ULL})
            assert_int_equal(compare(make_data(round, size), round).count, 0);
}

void compare_finds_each_changed_byte(void **) {
    bytes memory = make_data(3, 37);
    for (std::size_t i = 0; i < memory.size(); ++i) {
        const std::byte original = memory[i];
        memory[i] ^= std::byte{0x10};
        const data_mismatch mismatch = compare(memory, 3);
        assert_int_equal(mismatch.count, 1);
        assert_int_equal(mismatch.first_offset, i);
        assert_int_equal(mismatch.expected, std::to_integer<int>(original));
        assert_int_equal(mismatch.actual, std::to_integer<int>(original) ^ 0x10);
        memory[i] = original;
    }
    memory[5] ^= std::byte{1};
    memory[36] ^= std::byte{1};
    assert_int_equal(compare(memory, 3).count, 2);
    assert_int_equal(compare(memory, 3).first_offset, 5);
}

void rounds_differ_in_each_byte(void **) {
    const bytes first = make_data(1000, 4096);
    for (std::uint64_t later = 1001; later < 1256; ++later)
        assert_int_equal(compare(first, later).count, first.size());
    assert_int_equal(compare(first, 1256).count, 0);
}

void shifted_pattern_differs(void **) {
    // Data shifted by some bytes or lines.
    const bytes memory = make_data(1, 8192);
    for (const std::size_t shift : {1u, 8u, 64u, 4096u}) {
        const std::span<const std::byte> moved(memory.data() + shift, 4096);
        assert_true(compare(moved, 1).count > 4000);
    }
}

void pattern_is_portable(void **) {
    const bytes memory = make_data(1, 9);
    std::ostringstream text;
    for (const std::byte byte : memory)
        text << std::hex << std::to_integer<int>(byte) << ' ';
    assert_string_equal(text.str().c_str(), "32 50 80 e6 a4 35 bd 7f 69 ");
}

void latency_summary_is_exact(void **) {
    latency times;
    assert_int_equal(times.count(), 0);
    assert_true(std::fabs(times.summarize().median) < 1e-9);
    for (int value = 200; value >= 0; --value)
        times.add(value);
    const auto summary = times.summarize();
    assert_int_equal(times.count(), 201);
    assert_true(std::fabs(summary.min) < 1e-9 && std::fabs(summary.median - 100) < 1e-9);
    assert_true(std::fabs(summary.p99 - 198) < 1e-9 && std::fabs(summary.max - 200) < 1e-9);
}

/// Of more values than MAX_SAMPLES, a random part is kept; min and max are exact.
void latency_samples_represent_all(void **) {
    latency times;
    const auto num_values = static_cast<double>(3 * latency::MAX_SAMPLES);
    times.add(num_values + 5);
    for (double value = 1; value <= num_values; ++value)
        times.add(value);
    times.add(0.5);
    const auto summary = times.summarize();
    assert_int_equal(times.count(), 3 * latency::MAX_SAMPLES + 2);
    assert_true(std::fabs(summary.min - 0.5) < 1e-9 &&
                std::fabs(summary.max - num_values - 5) < 1e-9);
    // Early and late samples are kept alike.
    assert_true(std::fabs(summary.median / num_values - 0.5) < 0.01);
    assert_true(std::fabs(summary.p99 / num_values - 0.99) < 0.001);
}

/// A hello is the private data of a connection request or its answer.
void hello_round_trip(void **) {
    hello sent;
    sent.type = hello::kind::ACCEPT;
    sent.verify = false;
    sent.needs_sync = true;
    sent.size = 0x12345678;
    sent.max_silence_ms = 86400000;
    hello decoded;
    bytes padded(56); // padded as by connection managers
    const auto raw = encode(sent);
    std::copy(raw.begin(), raw.end(), padded.begin());
    assert_true(decode(padded, decoded) == decode_error::NONE);
    assert_true(decoded.type == sent.type && !decoded.verify && decoded.needs_sync);
    assert_int_equal(decoded.size, sent.size);
    assert_int_equal(decoded.max_silence_ms, sent.max_silence_ms);
    assert_int_equal(std::to_integer<int>(raw[20]), 0x12); // the size in network byte order
    assert_int_equal(std::to_integer<int>(raw[23]), 0x78);
}

void invalid_hello_is_rejected(void **) {
    hello sent, decoded;
    sent.size = 64;
    const auto valid = encode(sent);
    const auto decode_changed = [&](auto change) {
        auto raw = valid;
        change(raw);
        return decode(raw, decoded);
    };
    assert_true(decode_changed([](auto &) {}) == decode_error::NONE);
    assert_true(decode(std::span(valid).first(31), decoded) == decode_error::BAD_MAGIC);
    assert_true(decode({}, decoded) == decode_error::BAD_MAGIC);
    assert_true(decode_changed([](auto &raw) { raw[0] ^= std::byte{1}; }) ==
                decode_error::BAD_MAGIC);
    assert_true(decode_changed([](auto &raw) { std::reverse(raw.begin(), raw.begin() + 8); }) ==
                decode_error::WRONG_BYTE_ORDER);
    assert_true(decode_changed([](auto &raw) { raw[9] = std::byte{2}; }) == decode_error::VERSION);
    assert_int_equal(decoded.version, 2);
    for (const int kind : {0, 4, 255})
        assert_true(decode_changed([&](auto &raw) { raw[10] = static_cast<std::byte>(kind); }) ==
                    decode_error::MALFORMED);
    for (const std::uint64_t size : {std::uint64_t{0}, MAX_SIZE + 1, ~std::uint64_t{0}}) {
        sent.size = size;
        assert_true(decode(encode(sent), decoded) == decode_error::MALFORMED);
    }
}

void reject_reason_is_encoded(void **) {
    hello sent, decoded;
    sent.type = hello::kind::REJECT;
    for (const reject_reason reason :
         {reject_reason::VERSION, reject_reason::MALFORMED, reject_reason::SIZE,
          reject_reason::BUSY, reject_reason::RESOURCES, reject_reason::INTERVAL}) {
        sent.reason = reason;
        assert_true(decode(encode(sent), decoded) == decode_error::NONE &&
                    decoded.reason == reason);
        assert_true(to_string(reason).size() > 10);
    }
    sent.reason = static_cast<reject_reason>(7);
    assert_true(decode(encode(sent), decoded) == decode_error::MALFORMED);
    auto raw = encode(sent);
    raw[12] = std::byte{1}; // 0x01000007, not 7
    raw[15] = std::byte{1};
    assert_true(decode(raw, decoded) == decode_error::MALFORMED);
}

void message_round_trip(void **) {
    message sent;
    sent.type = message::kind::DONE;
    sent.mode = mode::READ;
    sent.round = 0x0102030405060708;
    sent.readable = {0xfedcba9876543210, MAX_SIZE, 0xdeadbeef};
    sent.writable = {1, 2, 3};
    sent.mismatch = {9, 8, 7, 6};
    const auto raw = encode(sent);
    const auto decoded = decode(raw);
    assert_true(decoded.has_value() && decoded->type == sent.type && decoded->mode == sent.mode);
    assert_true(decoded->round == sent.round && decoded->readable.address == sent.readable.address);
    assert_true(decoded->readable.length == MAX_SIZE &&
                decoded->readable.rmr_context == 0xdeadbeef);
    assert_true(decoded->writable.address == 1 && decoded->writable.length == 2 &&
                decoded->writable.rmr_context == 3);
    assert_true(decoded->mismatch.count == 9 && decoded->mismatch.first_offset == 8 &&
                decoded->mismatch.actual == 7 && decoded->mismatch.expected == 6);
    assert_int_equal(std::to_integer<int>(raw[12]), 1); // the round in network byte order
}

void invalid_message_is_rejected(void **) {
    const auto valid = encode(message());
    assert_true(decode(valid).has_value());
    assert_false(decode(std::span(valid).first(MESSAGE_BYTES - 1)).has_value());
    for (const std::size_t i : {0u, 7u, 8u, 9u}) {
        auto raw = valid;
        raw[i] = std::byte{0xee};
        assert_false(decode(raw).has_value());
    }
}

void random_bytes_are_rejected(void **) {
    std::mt19937 random(7);
    std::array<std::byte, 128> raw;
    hello decoded;
    for (int i = 0; i < 100000; ++i) {
        for (std::byte &byte : raw)
            byte = static_cast<std::byte>(random());
        const auto prefix = std::span<const std::byte>(raw).first(random() % raw.size());
        assert_true(decode(prefix, decoded) == decode_error::BAD_MAGIC);
        assert_false(decode(prefix).has_value());
    }
}

client_result make_result() {
    client_result result;
    result.host = "node7";
    result.address = "192.168.100.107";
    result.ia = "rxe0";
    result.ia_address = "192.168.100.101";
    result.connected = true;
    result.seconds = 1.5;
    for (const mode m : {mode::SEND, mode::PINGPONG}) {
        result.modes.emplace_back().mode = m;
        result.modes.back().times.add(1234567.25);
        result.modes.back().times.add(3);
    }
    return result;
}

void assert_80_columns(const std::string &text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        if (line.size() > 80)
            fail_msg("%zu columns: %s", line.size(), line.c_str());
}

void output_fits_80_columns(void **) {
    options opts;
    opts.size = MAX_SIZE;
    assert_80_columns(format_header(opts, make_result()));
    assert_80_columns(format_summary(opts, make_result()));
    assert_80_columns(describe_mismatch(mode::PINGPONG, 1000, 4096, {4096, 4095, 1, 2}, "there"));
}

void result_is_good_without_errors(void **) {
    client_result result = make_result();
    assert_true(result.is_good());
    result.modes[1].wrong_rounds = 1;
    assert_false(result.is_good());
    result = make_result();
    result.problem = "x";
    assert_false(result.is_good());
    assert_false(client_result().is_good());
    served_client client;
    server_result server;
    assert_true(server.is_good());
    server.add(client);
    assert_true(server.is_good());
    client.wrong_rounds = 1;
    server.add(client);
    assert_false(server.is_good());
    client = {};
    client.problem = "x";
    server_result other_server;
    other_server.add(client);
    assert_false(other_server.is_good());
}

/// Clients that come again and again do not take ever more memory.
void served_clients_are_listed_up_to_a_limit(void **) {
    server_result server;
    served_client client;
    for (std::size_t i = 0; i < server_result::MAX_LISTED_CLIENTS; ++i)
        server.add(client);
    assert_true(server.is_good());
    client.wrong_rounds = 1;
    server.add(client);
    assert_int_equal(server.clients.size(), server_result::MAX_LISTED_CLIENTS);
    assert_false(server.is_good());
    const auto document = nlohmann::json::parse(as_json(options(), server));
    assert_int_equal(document["served"], server_result::MAX_LISTED_CLIENTS + 1);
    assert_true(document["good"] == false);
}

constexpr std::uint64_t MIB = std::uint64_t{1} << 20;

options server_options(std::uint64_t max_size) {
    options opts;
    opts.server = true;
    opts.size = max_size;
    opts.interval = DEFAULT_MAX_INTERVAL;
    return opts;
}

/// The reason of the rejection, or 0.
int reject_reason_of(std::uint64_t size, std::uint32_t max_silence_ms, const options &opts,
                     const std::vector<client_usage> &clients = {}) {
    hello request;
    request.size = size;
    request.max_silence_ms = max_silence_ms;
    const auto rejected = check_request(request, opts, clients);
    return rejected ? static_cast<int>(rejected->reason) : 0;
}

void size_and_interval_are_limited(void **) {
    const options opts = server_options(1000);
    assert_int_equal(reject_reason_of(1000, 60000, opts), 0);
    assert_int_equal(reject_reason_of(1001, 0, opts), static_cast<int>(reject_reason::SIZE));
    assert_int_equal(reject_reason_of(MAX_SIZE, 0, opts), static_cast<int>(reject_reason::SIZE));
    for (const std::uint32_t silence : {60001u, 86400000u, 0xffffffffu})
        assert_int_equal(reject_reason_of(1, silence, opts),
                         static_cast<int>(reject_reason::INTERVAL));
}

/// Whatever the clients request, their total is bounded, and small ones can use every slot.
void total_memory_of_clients_is_limited(void **) {
    for (const std::uint64_t max_size : {std::uint64_t{64}, 16 * MIB, 64 * MIB, MAX_SIZE}) {
        const options opts = server_options(max_size);
        const std::uint64_t small = std::min(max_size, max_small_size(opts));
        std::vector<client_usage> clients;
        std::uint64_t total = 0;
        while (reject_reason_of(max_size, 0, opts, clients) == 0)
            clients.push_back({.size = max_size});
        assert_int_equal(clients.size(), max_size > small ? MAX_LARGE_CLIENTS : MAX_CLIENTS);
        if (max_size > small)
            assert_int_equal(reject_reason_of(small + 1, 0, opts, clients),
                             static_cast<int>(reject_reason::RESOURCES));
        while (reject_reason_of(small, 0, opts, clients) == 0)
            clients.push_back({.size = small});
        assert_int_equal(clients.size(), MAX_CLIENTS);
        assert_int_equal(reject_reason_of(1, 0, opts, clients),
                         static_cast<int>(reject_reason::BUSY));
        for (const client_usage &client : clients)
            total += client.size;
        assert_true(total <= 5 * max_size || total <= MAX_CLIENTS * MIB);
    }
}

/// The index of the client that gives way, or -1.
int client_to_end(std::uint64_t size, const std::vector<client_usage> &clients) {
    hello request;
    request.size = size;
    const auto index = find_client_to_end(request, server_options(64 * MIB), clients);
    return index ? static_cast<int>(*index) : -1;
}

void client_that_gives_way_has_paused_longest(void **) {
    const std::chrono::milliseconds timeout = options().timeout, moment{1};
    std::vector<client_usage> clients(MAX_CLIENTS, {.size = 64, .pause = timeout});
    assert_int_equal(client_to_end(64, clients), -1); // none beyond the timeout
    clients[3].pause = timeout + moment;
    assert_int_equal(client_to_end(64, clients), 3);
    clients[7].pause = timeout + 2 * moment;
    clients[9].pause = timeout + moment;
    assert_int_equal(client_to_end(64, clients), 7);
    assert_int_equal(client_to_end(65 * MIB, clients), -1); // it would be rejected all the same
}

/// A large request needs the memory of a large client, not only a slot.
void large_client_gives_way_to_large_one(void **) {
    const std::chrono::milliseconds timeout = options().timeout, moment{1};
    std::vector<client_usage> clients(MAX_LARGE_CLIENTS, {.size = 64 * MIB});
    clients.push_back({.size = 64, .pause = timeout + 2 * moment});
    assert_int_equal(client_to_end(64 * MIB, clients), -1);
    clients[2].pause = timeout + moment;
    assert_int_equal(client_to_end(64 * MIB, clients), 2);
}

void json_has_results(void **) {
    options opts;
    client_result result = make_result();
    result.modes[0].wrong_rounds = 2;
    result.modes[0].first_wrong = "round 1";
    const auto document = nlohmann::json::parse(as_json(opts, result));
    assert_int_equal(document["schema"], 1);
    assert_true(document["modes"][0]["wrong"] == 2 &&
                document["modes"][1]["first_wrong"].is_null());
    assert_true(document["modes"][1]["microseconds"]["max"] == 1234567.25);
    assert_true(document["good"] == false && document["problem"].is_null());
    opts.verify = false; // unverified data has no result
    assert_false(nlohmann::json::parse(as_json(opts, result))["modes"][0].contains("wrong"));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(filled_pattern_compares_equal),
        cmocka_unit_test(compare_finds_each_changed_byte),
        cmocka_unit_test(rounds_differ_in_each_byte),
        cmocka_unit_test(shifted_pattern_differs),
        cmocka_unit_test(pattern_is_portable),
        cmocka_unit_test(latency_summary_is_exact),
        cmocka_unit_test(latency_samples_represent_all),
        cmocka_unit_test(hello_round_trip),
        cmocka_unit_test(invalid_hello_is_rejected),
        cmocka_unit_test(reject_reason_is_encoded),
        cmocka_unit_test(message_round_trip),
        cmocka_unit_test(invalid_message_is_rejected),
        cmocka_unit_test(random_bytes_are_rejected),
        cmocka_unit_test(output_fits_80_columns),
        cmocka_unit_test(result_is_good_without_errors),
        cmocka_unit_test(served_clients_are_listed_up_to_a_limit),
        cmocka_unit_test(size_and_interval_are_limited),
        cmocka_unit_test(total_memory_of_clients_is_limited),
        cmocka_unit_test(client_that_gives_way_has_paused_longest),
        cmocka_unit_test(large_client_gives_way_to_large_one),
        cmocka_unit_test(json_has_results),
    };
    return cmocka_run_group_tests_name("datping", tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma selftest without a device: the experiments over a fake cache, the conclusion, the
// report, and what a peer sends.

#include "../cmocka.hpp"
#include "selftest/machine.hpp"
#include "selftest/peer_protocol.hpp"
#include "selftest/report.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <unistd.h>

using namespace tools::selftest;

namespace {

constexpr std::size_t WORDS = 512; // one word is one line of the fake cache
constexpr std::size_t LINE_SIZE = sizeof(std::uint64_t);
constexpr std::uint32_t ROUNDS = 3;
constexpr std::uint64_t ALL_LINES = ROUNDS * WORDS;

void assert_contains(const std::string &text, const std::string &part) {
    if (text.find(part) == std::string::npos)
        fail_msg("'%s' is not in '%s'", part.c_str(), text.c_str());
}

void assert_lacks(const std::string &text, const std::string &part) {
    if (text.find(part) != std::string::npos)
        fail_msg("'%s' is in '%s'", part.c_str(), text.c_str());
}

// -- a machine: source and sink as the CPU sees them, in memory, and when both were last equal

struct fake_machine final : memory_sync {
    std::vector<std::uint64_t> cached = std::vector<std::uint64_t>(2 * WORDS);
    std::vector<std::uint64_t> memory = cached, synced = cached;
    bool reads_cache = true, writes_cache = true; ///< the device snoops
    bool does_sync_work = true;
    std::string sync_problem;
    int num_transfers = 0, failing_transfer = -1; ///< counted from 0; -1: none
    std::uint64_t written_garbage = 0;            ///< what the device adds to each word
    std::span<std::uint64_t> synced_memory;       ///< of the last partial sync

    std::span<std::uint64_t> source() { return {cached.data(), WORDS}; }
    std::span<std::uint64_t> sink() { return {cached.data() + WORDS, WORDS}; }

    std::string problem(sync_part part) const override {
        return part == sync_part::FENCES ? "" : sync_problem;
    }
    void sync(data_path path, sync_time time, sync_part part,
              std::span<std::uint64_t> range) override {
        synced_memory = range;
        assert_true(does_device_write(path) || time == sync_time::BEFORE_TRANSFER);
        if (part == sync_part::FENCES || !does_sync_work)
            return;
        assert_string_equal(sync_problem.c_str(), "");
        // Before the transfer a write-back suffices.
        maintain(range, time == sync_time::AFTER_TRANSFER);
    }
    void writeback_invalidate(std::span<std::uint64_t> range) override {
        if (sync_problem.empty())
            maintain(range, true);
    }
    void maintain(std::span<std::uint64_t> range, bool does_invalidate) {
        const auto first = static_cast<std::size_t>(range.data() - cached.data());
        for (std::size_t word = first; word < first + range.size(); ++word) {
            if (cached[word] != synced[word])
                memory[word] = cached[word];
            else if (does_invalidate)
                cached[word] = memory[word];
            if (cached[word] == memory[word])
                synced[word] = memory[word];
        }
    }
    int transfer() {
        if (num_transfers++ == failing_transfer)
            return EIO;
        for (std::size_t word = 0; word < WORDS; ++word) {
            const std::uint64_t value =
                (reads_cache ? cached[word] : memory[word]) + written_garbage;
            if (writes_cache)
                cached[WORDS + word] = synced[WORDS + word] = value;
            memory[WORDS + word] = value;
        }
        return 0;
    }
    experiment_plan plan() {
        experiment_plan plan = {};
        plan.transfers.fill([this] { return transfer(); });
        plan.source = source();
        plan.sink = sink();
        plan.line_size = LINE_SIZE;
        plan.rounds = ROUNDS;
        plan.check_interruption = [](const experiment &) {
            return 0;
        };
        return plan;
    }
};

using stale_table = std::map<std::pair<data_path, sync_variant>, std::uint64_t>;

/// The stale lines of each experiment, each of which was completed.
stale_table run_on(fake_machine &machine) {
    stale_table table;
    const experiment_results results = run_experiments(machine.plan(), machine);
    assert_int_equal(results.error, 0);
    for (const experiment &experiment : results.experiments) {
        assert_int_equal(experiment.rounds, ROUNDS);
        assert_int_equal(experiment.num_lines, ALL_LINES);
        assert_int_equal(experiment.num_other, 0);
        table[{experiment.path, experiment.variant}] = experiment.num_stale;
    }
    assert_int_equal(table.size(), 2 * 4 + 2 * 6);
    return table;
}

/// Which variants have stale lines in experiments in which the device reads, and writes.
using stale_variants = std::vector<sync_variant>;
void assert_stale(const stale_table &table, const stale_variants &reading,
                  const stale_variants &writing) {
    for (const auto &[key, num_stale] : table) {
        const stale_variants &expected = does_device_write(key.first) ? writing : reading;
        const bool is_stale =
            std::find(expected.begin(), expected.end(), key.second) != expected.end();
        assert_int_equal(num_stale, is_stale ? ALL_LINES : 0);
    }
}

const stale_variants UNSYNCED_READS = {sync_variant::NONE, sync_variant::FENCES};
const stale_variants UNSYNCED_WRITES = {sync_variant::NONE, sync_variant::FENCES,
                                        sync_variant::BEFORE_ONLY, sync_variant::AFTER_ONLY};

void coherent_device_has_no_stale_line(void **) {
    fake_machine machine;
    assert_stale(run_on(machine), {}, {});
}

void device_that_reads_memory_only_is_stale_when_it_reads(void **) {
    fake_machine machine;
    machine.reads_cache = false;
    assert_stale(run_on(machine), UNSYNCED_READS, {});
}

void device_that_writes_memory_only_is_stale_when_it_writes(void **) {
    fake_machine machine;
    machine.writes_cache = false;
    assert_stale(run_on(machine), {}, UNSYNCED_WRITES);
}

void each_half_of_a_sync_is_needed(void **) {
    fake_machine machine;
    machine.reads_cache = machine.writes_cache = false;
    assert_stale(run_on(machine), UNSYNCED_READS, UNSYNCED_WRITES);
}

void sync_without_effect_is_seen(void **) {
    fake_machine machine;
    machine.reads_cache = machine.writes_cache = machine.does_sync_work = false;
    stale_variants reads = UNSYNCED_READS, writes = UNSYNCED_WRITES;
    for (const sync_variant variant : {sync_variant::NO_FENCES, sync_variant::FULL}) {
        reads.push_back(variant);
        writes.push_back(variant);
    }
    assert_stale(run_on(machine), reads, writes);
}

void only_the_examined_buffer_is_synced_in_part(void **) {
    fake_machine machine;
    for (const data_path path : {data_path::PEER_READ, data_path::OWN_READ}) {
        experiment_plan plan = machine.plan();
        plan.transfers = {};
        plan.transfers[static_cast<std::size_t>(path)] = [&] {
            return machine.transfer();
        };
        const auto results = run_experiments(plan, machine);
        assert_int_equal(results.experiments.size(), does_device_write(path) ? 6 : 4);
        assert_ptr_equal(machine.synced_memory.data(),
                         does_device_write(path) ? machine.sink().data() : machine.source().data());
    }
}

void data_that_was_never_there_is_counted_as_other(void **) {
    fake_machine machine;
    machine.written_garbage = 7;
    const auto results = run_experiments(machine.plan(), machine);
    for (const experiment &experiment : results.experiments) {
        assert_int_equal(experiment.num_stale, ALL_LINES);
        assert_int_equal(experiment.num_other, ALL_LINES);
    }
}

void failed_transfer_ends_all_experiments(void **) {
    fake_machine machine;
    machine.failing_transfer = 2;
    const auto results = run_experiments(machine.plan(), machine);
    assert_int_equal(results.error, EIO);
    assert_int_equal(machine.num_transfers, 3);
    assert_int_equal(results.experiments.size(), 20);
    for (std::size_t i = 0; i < results.experiments.size(); ++i)
        assert_int_equal(results.experiments[i].rounds, i < 2 ? 1 : 0);
}

void interrupt_ends_all_experiments(void **) {
    fake_machine machine;
    experiment_plan plan = machine.plan();
    plan.check_interruption = [&](const experiment &) {
        return machine.num_transfers == 4 ? EINTR : 0;
    };
    assert_int_equal(run_experiments(plan, machine).error, EINTR);
    assert_int_equal(machine.num_transfers, 4);
}

void without_instructions_no_sync_is_tried(void **) {
    fake_machine machine;
    machine.sync_problem = "no instructions";
    const auto results = run_experiments(machine.plan(), machine);
    for (const experiment &experiment : results.experiments) {
        const bool is_possible =
            experiment.variant == sync_variant::NONE || experiment.variant == sync_variant::FENCES;
        assert_string_equal(experiment.problem.c_str(), is_possible ? "" : "no instructions");
        assert_int_equal(experiment.rounds, is_possible ? ROUNDS : 0);
        assert_int_equal(experiment.num_stale, 0); // a coherent device
    }
}

// -- the conclusion

coherdma_evidence make_rule(const char *name, std::uint32_t coherency) {
    coherdma_evidence rule = {};
    rule.coherency = coherency;
    rule.strength = COHERDMA_STRENGTH_KERNEL;
    rule.rule = name;
    rule.source = "/sys/class/infiniband/board0/device";
    rule.value = "";
    rule.reason = "a reason that has more than the forty-one characters of its column";
    return rule;
}

struct outcome {
    std::uint64_t unsynced = 0; ///< stale lines
    std::uint64_t synced = 0;
};

report make_report(std::uint32_t coherency, outcome outcome,
                   std::uint32_t kernel_coherency = COHERDMA_UNKNOWN) {
    report report;
    report.time = "2026-11-01T00:00:00Z";
    report.version = "1.2.3";
    report.machine.cpu = "implementer 0x41, part 0xd08";
    report.machine.instructions = "dc";
    report.device.name = "board0";
    report.device.line_size = LINE_SIZE;
    report.library.coherency = coherency;
    report.library.rule = "devicetree";
    report.library.explanation = "board0 is something";
    report.library.rules = {make_rule("devicetree", coherency),
                            make_rule("kernel", kernel_coherency)};
    report.test.rounds = ROUNDS;
    report.test.lines_per_round = WORDS;
    for (const data_path path : {data_path::PEER_READ, data_path::PEER_WRITE})
        for (const sync_variant variant : {sync_variant::NONE, sync_variant::FULL})
            report.test.experiments.push_back(
                {.path = path,
                 .variant = variant,
                 .rounds = ROUNDS,
                 .num_lines = ALL_LINES,
                 .num_stale = variant == sync_variant::FULL ? outcome.synced : outcome.unsynced});
    return report;
}

std::string all_text(const conclusion &conclusion) {
    std::string text;
    for (const auto *list : {&conclusion.reasons, &conclusion.advice, &conclusion.limits})
        for (const std::string &item : *list)
            text += item + "\n";
    return text;
}

void conclusion_follows_from_result_and_stale_lines(void **) {
    constexpr outcome NO_STALE = {}, STALE = {.unsynced = 10},
                      USELESS = {.unsynced = 10, .synced = 1};
    const struct {
        std::uint32_t coherency;
        outcome lines;
        agreement expected;
        const char *words;
    } cases[] = {
        {COHERDMA_COHERENT, NO_STALE, agreement::AGREES, "as with a coherent device"},
        {COHERDMA_COHERENT, STALE, agreement::CONTRADICTS, "COHERDMA_COHERENT=board0=no"},
        {COHERDMA_COHERENT, USELESS, agreement::CONTRADICTS, "IN SPITE OF THE SYNC"},
        {COHERDMA_NON_COHERENT, NO_STALE, agreement::CANNOT_TELL, "may be needless"},
        {COHERDMA_NON_COHERENT, STALE, agreement::AGREES, "as coherdma says"},
        {COHERDMA_NON_COHERENT, USELESS, agreement::CONTRADICTS, "IN SPITE OF THE SYNC"},
        {COHERDMA_UNKNOWN, NO_STALE, agreement::CANNOT_TELL, "always right"},
        {COHERDMA_UNKNOWN, STALE, agreement::AGREES, "the lines [board0] and coherent = no"},
        {COHERDMA_UNKNOWN, USELESS, agreement::CONTRADICTS, "IN SPITE OF THE SYNC"},
        {COHERDMA_BOUNCED, NO_STALE, agreement::CANNOT_TELL, "Other memory may be copied"},
        {COHERDMA_BOUNCED, STALE, agreement::CONTRADICTS, "has no copies of this memory"},
        {COHERDMA_BOUNCED, USELESS, agreement::AGREES, "no sync reaches the copies"},
    };
    for (const auto &each : cases) {
        const conclusion conclusion = conclude(make_report(each.coherency, each.lines));
        assert_string_equal(agreement_str(conclusion.result), agreement_str(each.expected));
        assert_contains(all_text(conclusion), each.words);
    }
}

/// A single stale line in any other experiment than a full sync counts, even in a half sync.
void single_stale_line_is_enough(void **) {
    for (const sync_variant variant : {sync_variant::FENCES, sync_variant::BEFORE_ONLY,
                                       sync_variant::AFTER_ONLY, sync_variant::NO_FENCES}) {
        report report = make_report(COHERDMA_COHERENT, {});
        report.test.experiments.push_back({.path = data_path::OWN_READ,
                                           .variant = variant,
                                           .rounds = ROUNDS,
                                           .num_lines = ALL_LINES,
                                           .num_stale = 1});
        const conclusion conclusion = conclude(report);
        assert_int_equal(conclusion.result, agreement::CONTRADICTS);
        assert_lacks(all_text(conclusion), "IN SPITE OF THE SYNC");
    }
}

void nothing_is_concluded_from_no_experiment(void **) {
    for (const std::uint32_t coherency :
         {COHERDMA_COHERENT, COHERDMA_NON_COHERENT, COHERDMA_UNKNOWN, COHERDMA_BOUNCED}) {
        report report = make_report(coherency, {});
        report.test.experiments.clear();
        assert_int_equal(conclude(report).result, agreement::CANNOT_TELL);
        report.test.problem = "no address";
        const conclusion conclusion = conclude(report);
        assert_int_equal(conclusion.result, agreement::CANNOT_TELL);
        assert_contains(all_text(conclusion), "No experiment was made: no address");
    }
}

/// But stale lines before that count.
void nothing_coherent_is_concluded_from_an_incomplete_test(void **) {
    report report = make_report(COHERDMA_COHERENT, {});
    report.test.problem = "a transfer failed";
    assert_int_equal(conclude(report).result, agreement::CANNOT_TELL);
    report = make_report(COHERDMA_COHERENT, {.unsynced = 1});
    report.test.problem = "a transfer failed";
    assert_int_equal(conclude(report).result, agreement::CONTRADICTS);
}

void kernel_that_says_otherwise_is_a_contradiction(void **) {
    const struct {
        std::uint32_t library, kernel;
        outcome lines;
        agreement expected;
        const char *words;
    } cases[] = {
        {COHERDMA_COHERENT,
         COHERDMA_NON_COHERENT,
         {},
         agreement::CONTRADICTS,
         "treats the device as non-coherent, but"},
        {COHERDMA_NON_COHERENT,
         COHERDMA_COHERENT,
         {},
         agreement::CONTRADICTS,
         "treats the device as coherent, but"},
        {COHERDMA_COHERENT, COHERDMA_COHERENT, {}, agreement::AGREES, "as coherent, too"},
        {COHERDMA_NON_COHERENT,
         COHERDMA_NON_COHERENT,
         {.unsynced = 1},
         agreement::AGREES,
         "as non-coherent, too"},
        {COHERDMA_COHERENT,
         COHERDMA_COHERENT,
         {.unsynced = 1},
         agreement::CONTRADICTS,
         "the device tree, the ACPI"},
        {COHERDMA_UNKNOWN,
         COHERDMA_COHERENT,
         {.unsynced = 1},
         agreement::CONTRADICTS,
         "the device tree, the ACPI"},
    };
    for (const auto &each : cases) {
        report report = make_report(each.library, each.lines, each.kernel);
        const conclusion conclusion = conclude(report);
        assert_string_equal(agreement_str(conclusion.result), agreement_str(each.expected));
        assert_contains(all_text(conclusion), each.words);
    }
    // The kernel does not know of the emulation.
    report report = make_report(COHERDMA_NON_COHERENT, {.unsynced = 1}, COHERDMA_COHERENT);
    report.library.is_emulated = true;
    assert_int_equal(conclude(report).result, agreement::AGREES);
}

void limits_name_what_was_not_tested(void **) {
    report report = make_report(COHERDMA_COHERENT, {});
    assert_contains(all_text(conclude(report)), "proves nothing about lines");
    assert_contains(all_text(conclude(report)), "no sync reaches them");
    assert_lacks(all_text(conclude(report)), "without any DMA");
    report.device.driver = "siw";
    assert_contains(all_text(conclude(report)), "without any DMA");
    report.library.is_emulated = true;
    assert_contains(all_text(conclude(report)), "only the emulation was");
    report.test.has_peer = true;
    assert_contains(all_text(conclude(report)), "With --peer, only");
    report = make_report(COHERDMA_COHERENT, {.unsynced = 1});
    report.test.is_sync_possible = false;
    assert_contains(all_text(conclude(report)), "cannot tell whether the device or the CPU");
}

// -- the report

void text_has_80_columns_and_all_sections(void **) {
    report report = make_report(COHERDMA_COHERENT, {.unsynced = 1});
    report.library.sync_problem = std::string(100, 'w') + " " + std::string(50, 'v');
    report.machine.board.clear();
    for (int i = 0; i < 50; ++i)
        report.machine.board += "\u00fc"; // two bytes, which no line may end between
    const std::string text = report_text(report, conclude(report));
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        assert_true(line.size() <= 80);
        assert_false(line.ends_with('\xc3'));
    }
    for (const char *section :
         {"\nMACHINE\n", "\nDEVICE\n", "\nCOHERENCY\n", "\nTHE KERNEL'S OWN ANSWER\n",
          "\nEXPERIMENTS\n", "\nCONCLUSION\nCONTRADICTS\n", "\nWHAT TO DO\n",
          "\nWHAT THIS RUN CANNOT SHOW\n"})
        assert_contains(text, section);
    assert_contains(text, "none                             1             1             -");
    assert_contains(text, "Not read: a reason");
    report.library.rules[1].coherency = COHERDMA_COHERENT;
    assert_contains(report_text(report, conclude(report)), "\ncoherent: a reason");
    assert_true(text.ends_with("in docs/hardware.md.\n"));
}

void text_tells_impossible_from_not_run(void **) {
    report report = make_report(COHERDMA_COHERENT, {});
    report.test.experiments[0].problem = "no instructions";
    report.test.experiments[2].rounds = 0;
    report.test.experiments[3].num_other = 3;
    const std::string text = report_text(report, conclude(report));
    assert_contains(text, "none                    impossible       not run             -");
    assert_contains(text, "- Impossible: no instructions.");
    assert_contains(text, "Of the stale lines 3 had data");
}

void json_has_the_documented_members(void **) {
    report report = make_report(COHERDMA_COHERENT, {.unsynced = 1});
    report.machine.cpu = "\xff"; // not UTF-8
    const auto document = nlohmann::json::parse(report_json(report, conclude(report)));
    assert_int_equal(document.at("schema").get<int>(), 1);
    for (const char *key : {"time", "version", "left_out", "root", "machine", "device", "rules",
                            "peer", "rounds", "lines_per_round", "line_size", "problem",
                            "experiments", "conclusion", "reasons", "advice", "limits"})
        assert_true(document.contains(key));
    assert_string_equal(document.at("conclusion").get<std::string>().c_str(), "contradicts");
    const auto &experiment = document.at("experiments").at(0);
    assert_string_equal(experiment.dump().c_str(),
                        R"({"lines":1536,"other":0,"path":"peer_read","problem":"","rounds":3,)"
                        R"("stale":1,"sync":"none"})");
    assert_string_equal(document.at("rules").at(1).at("rule").get<std::string>().c_str(), "kernel");
}

/// The path of the configuration may have the user's name in it.
void path_of_configuration_is_left_out(void **) {
    setenv("COHERDMA_CONFIG", "/home/username/c.conf", 1);
    report report = make_report(COHERDMA_COHERENT, {});
    report.library.explanation = "board0 is coherent: the administrator says so "
                                 "(/home/username/c.conf:2: yes)";
    report.library.rules[0].source = "/home/username/c.conf:2";
    hide_private_texts(report, "board0");
    unsetenv("COHERDMA_CONFIG");
    const conclusion conclusion = conclude(report);
    for (const std::string &text :
         {report_text(report, conclusion), report_json(report, conclusion)}) {
        assert_lacks(text, "username");
        assert_true(text.find("$COHERDMA_CONFIG:2") != std::string::npos);
    }
}

void guid_in_the_name_is_left_out(void **) {
    const std::string name = "rocex525400c0ffee0001";
    for (const bool has_guid : {true, false}) {
        report report = make_report(COHERDMA_COHERENT, {});
        const std::string used = has_guid ? name : "rocep1s0f0";
        const std::string source = "/sys/class/infiniband/" + used + "/device";
        report.device.name = used;
        report.library.explanation = used + " is coherent";
        report.library.rules[0].source = source.c_str();
        hide_private_texts(report, used);
        const conclusion conclusion = conclude(report);
        for (const std::string &text :
             {report_text(report, conclusion), report_json(report, conclusion)}) {
            if (has_guid)
                assert_lacks(text, "c0ffee");
            else
                assert_contains(text, used);
        }
    }
}

void machine_is_described_by_its_files(void **) {
    char folder[] = "/tmp/selftest_test.XXXXXX";
    assert_non_null(mkdtemp(folder));
    const std::filesystem::path root = folder;
    const auto write = [&](const char *name, const std::string &text) {
        std::filesystem::create_directories((root / name).parent_path());
        std::ofstream(root / name) << text;
    };
    assert_string_equal(describe_machine(root).cpu.c_str(), "unknown");
    assert_string_equal(describe_machine(root).board.c_str(), "unknown");
    write("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n"
                          "processor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd0b\n");
    write("proc/device-tree/model", std::string("Some \033Bo\xc2\x9b"
                                                "ard\0",
                                                14));
    write("run/systemd/container", "lxc");
    write("sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size", "64\n");
    write("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
    write("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
    const machine_facts machine = describe_machine(root);
    std::filesystem::remove_all(root);
    assert_string_equal(machine.cpu.c_str(), "implementer 0x41, part 0xd05 and 0xd0b");
    assert_true(machine.board == "Some ?Bo?ard"); // no zero byte at its end, nor an escape sequence
    assert_string_equal(machine.other_line_sizes.c_str(), "L1 64");
    assert_int_equal(machine.environment.size(), 1);
    assert_string_equal(machine.environment[0].c_str(), "container");
}

// -- what a peer sends

constexpr std::uint64_t MIN_LENGTH = 65536;
constexpr offered_memory OFFER = {.addr = 0x7f0012345000, .length = MIN_LENGTH, .rkey = 0xfedcba98};

void offer_arrives_as_sent(void **) {
    private_data data = encode_offer(OFFER);
    data.resize(data.size() + 100); // padded
    offered_memory memory = {};
    assert_string_equal(parse_offer(data, MIN_LENGTH, memory).c_str(), "");
    assert_int_equal(memory.addr, OFFER.addr);
    assert_int_equal(memory.length, OFFER.length);
    assert_int_equal(memory.rkey, OFFER.rkey);
    assert_string_equal(check_request(encode_request()).c_str(), "");
}

void incomplete_or_foreign_data_is_refused(void **) {
    const private_data data = encode_offer(OFFER);
    offered_memory memory = {};
    for (std::size_t size = 0; size < data.size(); ++size)
        assert_string_not_equal(
            parse_offer(std::span(data).first(size), MIN_LENGTH, memory).c_str(), "");
    const std::size_t header_size = encode_request().size();
    for (std::size_t i = 0; i < header_size; ++i)
        for (unsigned bit = 0; bit < 8; ++bit) {
            private_data changed = data;
            changed[i] = static_cast<std::uint8_t>(changed[i] ^ 1U << bit);
            assert_string_not_equal(parse_offer(changed, MIN_LENGTH, memory).c_str(), "");
            assert_string_not_equal(check_request(changed).c_str(), "");
        }
}

void impossible_memory_is_refused(void **) {
    offered_memory memory = {};
    for (const offered_memory &offer :
         {offered_memory{.addr = 0, .length = 0, .rkey = 1},
          offered_memory{.addr = 0, .length = MIN_LENGTH - 1, .rkey = 1},
          offered_memory{
              .addr = ~std::uint64_t{0} - MIN_LENGTH + 2, .length = MIN_LENGTH, .rkey = 1},
          offered_memory{.addr = 2, .length = ~std::uint64_t{0}, .rkey = 1}})
        assert_string_not_equal(parse_offer(encode_offer(offer), MIN_LENGTH, memory).c_str(), "");
    // The last byte of the address space.
    assert_string_equal(parse_offer(encode_offer({.addr = ~std::uint64_t{0} - MIN_LENGTH + 1,
                                                  .length = MIN_LENGTH,
                                                  .rkey = 1}),
                                    MIN_LENGTH, memory)
                            .c_str(),
                        "");
}

void random_data_is_refused(void **) {
    std::mt19937 random(1);
    for (int i = 0; i < 20000; ++i) {
        private_data data(random() % 64);
        std::generate(data.begin(), data.end(),
                      [&] { return static_cast<std::uint8_t>(random()); });
        offered_memory memory = {};
        assert_string_not_equal(parse_offer(data, MIN_LENGTH, memory).c_str(), "");
        assert_string_not_equal(check_request(data).c_str(), "");
    }
}

void addresses_are_parsed(void **) {
    const struct {
        const char *text, *host;
        std::uint16_t port;
    } cases[] = {
        {"10.0.0.1", "10.0.0.1", DEFAULT_PORT}, {"10.0.0.1:7", "10.0.0.1", 7},
        {"host:65535", "host", 65535},          {"fd00::1", "fd00::1", DEFAULT_PORT},
        {"[fd00::1]", "fd00::1", DEFAULT_PORT}, {"[fd00::1]:8", "fd00::1", 8},
    };
    for (const auto &each : cases) {
        const peer_address address = parse_peer_address(each.text);
        assert_string_equal(address.host.c_str(), each.host);
        assert_int_equal(address.port, each.port);
    }
    for (const char *text : {"", ":7", "host:", "host:0", "host:65536", "host:7x", "host:-1",
                             "[::1", "[::1]7", "[::1]:", "[]:7"}) {
        bool is_refused = false;
        try {
            parse_peer_address(text);
        } catch (const std::invalid_argument &) {
            is_refused = true;
        }
        if (!is_refused)
            fail_msg("'%s' is not refused", text);
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(coherent_device_has_no_stale_line),
        cmocka_unit_test(device_that_reads_memory_only_is_stale_when_it_reads),
        cmocka_unit_test(device_that_writes_memory_only_is_stale_when_it_writes),
        cmocka_unit_test(each_half_of_a_sync_is_needed),
        cmocka_unit_test(sync_without_effect_is_seen),
        cmocka_unit_test(only_the_examined_buffer_is_synced_in_part),
        cmocka_unit_test(data_that_was_never_there_is_counted_as_other),
        cmocka_unit_test(failed_transfer_ends_all_experiments),
        cmocka_unit_test(interrupt_ends_all_experiments),
        cmocka_unit_test(without_instructions_no_sync_is_tried),
        cmocka_unit_test(conclusion_follows_from_result_and_stale_lines),
        cmocka_unit_test(single_stale_line_is_enough),
        cmocka_unit_test(nothing_is_concluded_from_no_experiment),
        cmocka_unit_test(nothing_coherent_is_concluded_from_an_incomplete_test),
        cmocka_unit_test(kernel_that_says_otherwise_is_a_contradiction),
        cmocka_unit_test(limits_name_what_was_not_tested),
        cmocka_unit_test(text_has_80_columns_and_all_sections),
        cmocka_unit_test(text_tells_impossible_from_not_run),
        cmocka_unit_test(json_has_the_documented_members),
        cmocka_unit_test(path_of_configuration_is_left_out),
        cmocka_unit_test(guid_in_the_name_is_left_out),
        cmocka_unit_test(machine_is_described_by_its_files),
        cmocka_unit_test(offer_arrives_as_sent),
        cmocka_unit_test(incomplete_or_foreign_data_is_refused),
        cmocka_unit_test(impossible_memory_is_refused),
        cmocka_unit_test(random_data_is_refused),
        cmocka_unit_test(addresses_are_parsed),
    };
    return cmocka_run_group_tests_name("selftest", tests, nullptr, nullptr);
}

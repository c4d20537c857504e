// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Evaluates the rules on the machines of tests/data/coherency.

#include "../cmocka.hpp"
#include "coherency/files.hpp"
#include "coherency/queues.hpp"
#include "coherency/rules.hpp"
#include "sysfs_tree.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <rdma/ib_user_ioctl_verbs.h>
#include <span>
#include <unistd.h>

using namespace coherdma::coherency;

namespace {

int registration_result = 0;

// What the library knows of the device that the machine's file describes. "registers ERROR" is the
// result of an ibv_reg_mr() of that device, "guest TECHNIQUE" what CPUID tells, and "bounce_flag
// yes" that the kernel says that it bounces.
rule_input make_rule_input(const fake_sysfs &machine) {
    rule_input input;
    input.root = machine.root;
    input.name = machine["device"];
    input.driver = machine["driver"];
    input.machine = machine["machine"];
    input.kernel_release = machine["release"];
    input.x86_guest = {
        .technique = machine["guest"], .source = "CPUID", .is_certain = machine["guest"] != "SEV"};
    static int context; // never dereferenced
    if (!machine["bounce_flag"].empty()) {
        input.context = reinterpret_cast<ibv_context *>(&context);
        input.has_dma_bounce_flag = [](ibv_context *) {
            return true;
        };
    }
    if (const std::string result = machine["registers"]; !result.empty()) {
        registration_result = std::stoi(result);
        input.context = reinterpret_cast<ibv_context *>(&context);
        input.try_reg_mr = [](ibv_context *) {
            return registration_result;
        };
    }
    return input;
}

const evidence *find_evidence(const decision &decision, const std::string &rule_name) {
    for (const auto &[rule, evidence] : decision.rules) {
        if (rule->name == rule_name)
            return &evidence;
    }
    return nullptr;
}

// For each machine of tests/data/coherency, whose file has the expected result: "expect RULE
// COHERENCY", perhaps the deciding "value VALUE", and "other_evidence RULE VALUE" of another rule.
void expected_rule_decides(void **state) {
    const fake_sysfs machine(static_cast<const char *>(*state));
    constexpr const char *words[] = {"device",    "driver",     "machine", "release",
                                     "registers", "expect",     "value",   "other_evidence",
                                     "guest",     "bounce_flag"};
    for (const auto &line : machine.other_lines)
        if (std::find(std::begin(words), std::end(words), line.first_word) == std::end(words))
            fail_msg("'%s' has no meaning", line.first_word.c_str());
    const rule_input input = make_rule_input(machine);
    const decision result = decide(input, rule_scope::all);
    const auto &[deciding_rule, evidence] = result.deciding_rule();
    const std::string rule_and_coherency =
        std::string(deciding_rule->name) + " " + coherdma_coherency_str(evidence.coherency);
    assert_string_equal(rule_and_coherency.c_str(), machine["expect"].c_str());
    if (const std::string value = machine["value"]; !value.empty())
        assert_string_equal(evidence.value.c_str(), value.c_str());
    if (const std::string other_evidence = machine["other_evidence"]; !other_evidence.empty()) {
        const std::size_t blank_pos = other_evidence.find(' ');
        const auto *other = find_evidence(result, other_evidence.substr(0, blank_pos));
        assert_non_null(other);
        assert_string_equal(other->value.c_str(), other_evidence.substr(blank_pos + 1).c_str());
    }
    for (const auto &entry : result.rules) {
        assert_false(entry.evidence.reason.empty());
        // The source is a path of the machine, without the folder of the test.
        assert_null(std::strstr(entry.evidence.source.c_str(), machine.root.c_str()));
    }
    const auto decision_at_first_match = decide(input, rule_scope::until_decided);
    assert_int_equal(decision_at_first_match.deciding_index, result.deciding_index);
    assert_int_equal(decision_at_first_match.rules.size(),
                     decision_at_first_match.deciding_index + 1);
}

void override_precedes_other_rules(void **) {
    const fake_sysfs machine("tests/data/coherency/rxe.tree");
    rule_input input = make_rule_input(machine);
    settings settings;
    parse_variable("rxe*=no", settings);
    input.settings = &settings;
    decision result = decide(input, rule_scope::until_decided);
    assert_string_equal(result.deciding_rule().rule->name, "override");
    assert_int_equal(result.deciding_rule().evidence.coherency, COHERDMA_NON_COHERENT);
    parse_variable("rxe0=auto", settings);
    result = decide(input, rule_scope::until_decided);
    assert_string_equal(result.deciding_rule().rule->name, "software");
}

// The provider's answer decides where a rule of the machine would decide otherwise.
void provider_decides_software_and_emulation(void **) {
    const fake_sysfs machine("tests/data/coherency/virtual-cache.tree");
    rule_input input = make_rule_input(machine);
    coherdmadv_device_attr provider = {};
    provider.coherency = COHERDMA_COHERENT;
    provider.driver_id = RDMA_DRIVER_SIW;
    std::strcpy(provider.evidence, "reason of the provider");
    input.provider_attr = &provider;
    decision result = decide(input, rule_scope::until_decided);
    evidence deciding = result.deciding_rule().evidence;
    assert_string_equal(result.deciding_rule().rule->name, "software");
    assert_int_equal(deciding.coherency, COHERDMA_COHERENT);
    assert_string_equal(deciding.source.c_str(), "coherdma's provider");
    assert_string_equal(deciding.value.c_str(), "driver siw");
    assert_string_equal(deciding.reason.c_str(), "reason of the provider");
    assert_string_equal(find_evidence(result, "emulation")->value.c_str(), "coherent");

    settings settings;
    parse_variable("rxe*=no,siw*=no", settings);
    input.settings = &settings;
    provider.coherency = COHERDMA_NON_COHERENT;
    std::strcpy(provider.mode, "poison");
    result = decide(input, rule_scope::until_decided);
    deciding = result.deciding_rule().evidence;
    assert_string_equal(result.deciding_rule().rule->name, "emulation");
    assert_int_equal(deciding.coherency, COHERDMA_NON_COHERENT);
    assert_string_equal(deciding.value.c_str(), "mode poison");
    assert_string_equal(deciding.reason.c_str(), "reason of the provider");
}

// On a machine whose devicetree says that the device is not coherent.
void device_with_unsynced_queues_refused(void **) {
    const fake_sysfs machine("tests/data/coherency/arm64-rk3588.tree");
    rule_input input = make_rule_input(machine);
    for (const driver_queues &row : all_driver_queues()) {
        input.driver = row.driver;
        const decision result = decide(input, rule_scope::all);
        const evidence *const queues = find_evidence(result, "queues");
        assert_int_equal(queues->coherency, COHERDMA_UNKNOWN);
        assert_string_equal(queues->value.c_str(), (std::string("driver ") + row.driver).c_str());
        assert_non_null(std::strstr(queues->reason.c_str(), row.details));
        const bool is_unsynced =
            row.memory == queue_memory::program || row.memory == queue_memory::cached;
        assert_int_equal(std::strstr(queues->reason.c_str(), "no call can sync") != nullptr,
                         is_unsynced);
        const bool is_software = input.driver == "rxe" || input.driver == "siw"; // coherent
        const bool is_refused = *queue_problem(result, row.driver, input.kernel_release) != '\0';
        assert_int_equal(is_refused, is_unsynced && !is_software);
    }
}

// As netlink is not available in a sandbox, or the driver is newer than the table.
void device_with_unknown_queues_refused(void **) {
    const fake_sysfs machine("tests/data/coherency/arm64-rk3588.tree");
    rule_input input = make_rule_input(machine);
    for (const char *driver : {"", "newer"}) {
        input.driver = driver;
        const decision result = decide(input, rule_scope::all);
        assert_non_null(
            std::strstr(queue_problem(result, driver, input.kernel_release), "is not known"));
    }
}

// Until 6.11, c4iw_mmap() maps what dma_alloc_coherent() returned with the cache.
void queues_of_cxgb4_are_those_of_the_kernel(void **) {
    const fake_sysfs machine("tests/data/coherency/arm64-rk3588.tree");
    rule_input input = make_rule_input(machine);
    input.driver = "cxgb4";
    for (const char *release : {"6.1.0-40-arm64", "6.11.9", "5.15.12", "4.19", "", "next", "7",
                                "-1.5", "4294967303.0", "6.-1", "6.+99", "6. 12", " 7.0", "+7.0"}) {
        input.kernel_release = release;
        const decision result = decide(input, rule_scope::all);
        assert_string_equal(queue_problem(result, "cxgb4", release),
                            "the kernel maps its queues with the cache, and no call can sync them");
        const evidence *const queues = find_evidence(result, "queues");
        assert_non_null(std::strstr(queues->reason.c_str(), "no call can sync them"));
    }
    for (const char *release : {"6.12.0", "6.12", "6.18.3-arm64", "7.0", "10.1"})
        assert_string_equal(queue_problem(decide(input, rule_scope::all), "cxgb4", release), "");
}

// The files and links of the fixture, as paths with its root.
std::vector<std::filesystem::path> find_files(const fake_sysfs &machine) {
    std::vector<std::filesystem::path> files;
    for (const auto &entry : std::filesystem::recursive_directory_iterator(machine.root))
        if (entry.is_symlink() || !entry.is_directory())
            files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

// A circular link: neither readable nor missing, for root too.
void hide_file(const std::filesystem::path &path) {
    std::filesystem::rename(path, path.string() + ".hidden");
    std::filesystem::create_symlink(path.filename(), path);
}

void show_file(const std::filesystem::path &path) {
    std::filesystem::remove(path);
    std::filesystem::rename(path.string() + ".hidden", path);
}

// As containers hide it.
void empty_folder(const std::filesystem::path &folder) {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
}

std::uint32_t decide_coherency(const fake_sysfs &machine) {
    return decide(make_rule_input(machine), rule_scope::until_decided)
        .deciding_rule()
        .evidence.coherency;
}

using paths = std::span<const std::filesystem::path>;

// Hides each combination of at most that many of these files, beside those that are hidden, and
// fails if the device is coherent then.
void hide_combinations(const fake_sysfs &machine, paths files, std::size_t max_hidden) {
    for (std::size_t i = 0; i < files.size() && max_hidden > 0; ++i) {
        hide_file(files[i]);
        if (decide_coherency(machine) == COHERDMA_COHERENT) {
            for (const std::filesystem::path &file : find_files(machine))
                if (file.extension() == ".hidden")
                    print_error("%s\n", file.c_str() + machine.root.size());
            fail_msg("coherent without these files");
        }
        hide_combinations(machine, files.subspan(i + 1), max_hidden - 1);
        show_file(files[i]);
    }
}

// For each machine: whatever of its files is hidden, no device becomes coherent that is not with
// all files. Each combination of files, of large machines those of at most three.
void hidden_files_prove_nothing(void **state) {
    constexpr std::size_t LARGE = 8, MAX_HIDDEN_OF_LARGE = 3;
    const fake_sysfs machine(static_cast<const char *>(*state));
    if (decide_coherency(machine) == COHERDMA_COHERENT)
        return;
    const std::vector<std::filesystem::path> files = find_files(machine);
    hide_combinations(machine, files, files.size() > LARGE ? MAX_HIDDEN_OF_LARGE : files.size());
    for (const char *folder :
         {"/sys/firmware/acpi", "/sys/firmware", "/sys/class", "/sys", "/proc"}) {
        const fake_sysfs other(static_cast<const char *>(*state));
        if (!std::filesystem::exists(other.root + folder))
            continue;
        empty_folder(other.root + folder);
        if (decide_coherency(other) == COHERDMA_COHERENT)
            fail_msg("coherent with an empty %s", folder);
    }
}

// An administrator's setting, and a device of unknown coherency, which is often coherent.
void device_not_refused_without_evidence(void **) {
    const fake_sysfs server("tests/data/coherency/acpi-doubt.tree");
    rule_input input = make_rule_input(server);
    const decision unknown = decide(input, rule_scope::all);
    assert_int_equal(unknown.deciding_rule().evidence.coherency, COHERDMA_UNKNOWN);
    assert_string_equal(queue_problem(unknown, "mlx5", input.kernel_release), "");
    settings settings;
    parse_variable("*=no", settings);
    input.settings = &settings;
    const decision non_coherent = decide(input, rule_scope::all);
    assert_int_equal(non_coherent.deciding_rule().evidence.coherency, COHERDMA_NON_COHERENT);
    assert_string_equal(queue_problem(non_coherent, "mlx5", input.kernel_release), "");
}

// As an ordinary user, who cannot read the tables.
void acpi_asks_for_root(void **) {
    const fake_sysfs machine("tests/data/coherency/acpi-raspberry-pi4.tree");
    namespace fs = std::filesystem;
    fs::permissions(machine.root, fs::perms::all);
    fs::permissions(machine.root + "/sys/firmware/acpi/tables/DSDT", fs::perms::none);
    constexpr uid_t ORDINARY_USER = 65534;
    const uid_t user = geteuid();
    if (user == 0 && seteuid(ORDINARY_USER) != 0)
        skip();
    const evidence result = evaluate_acpi(make_rule_input(machine));
    assert_int_equal(seteuid(user), 0);
    assert_int_equal(result.coherency, COHERDMA_UNKNOWN);
    assert_string_equal(result.value.c_str(), "DSDT: Permission denied");
    assert_non_null(std::strstr(result.reason.c_str(), "run as root"));
}

// On machines whose devices are not coherent, and on one where a missing _CCA means coherent.
void damaged_acpi_tables_decide_nothing(void **) {
    for (const char *name : {"acpi-raspberry-pi4", "acpi-unrelated-zero", "acpi-riscv-zero"}) {
        const fake_sysfs machine("tests/data/coherency/" + std::string(name) + ".tree");
        const rule_input input = make_rule_input(machine);
        const auto assert_unknown_with = [&](const std::string &path, const std::string &bytes) {
            std::ofstream(path, std::ios::binary) << bytes;
            assert_int_equal(evaluate_acpi(input).coherency, COHERDMA_UNKNOWN);
        };
        for (const auto &entry :
             std::filesystem::directory_iterator(machine.root + "/sys/firmware/acpi/tables")) {
            const std::string path = entry.path();
            const std::string table = read_file(path).value();
            for (std::size_t i = 0; i < table.size(); ++i) {
                assert_unknown_with(path, table.substr(0, i));
                std::string changed = table;
                changed[i] = static_cast<char>(~changed[i]);
                assert_unknown_with(path, changed);
            }
            std::ofstream(path, std::ios::binary) << table;
        }
        assert_int_not_equal(evaluate_acpi(input).coherency, COHERDMA_UNKNOWN);
    }
}

} // namespace

int main() {
    std::vector<std::string> files;
    for (const auto &entry : std::filesystem::directory_iterator("tests/data/coherency"))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    std::vector<std::string> names;
    std::vector<std::string> hidden_names;
    for (const std::string &file : files) {
        names.push_back("machine " + std::filesystem::path(file).stem().string());
        hidden_names.push_back("hidden files of machine " +
                               std::filesystem::path(file).stem().string());
    }
    std::vector<CMUnitTest> tests = {cmocka_unit_test(override_precedes_other_rules),
                                     cmocka_unit_test(provider_decides_software_and_emulation),
                                     cmocka_unit_test(device_with_unsynced_queues_refused),
                                     cmocka_unit_test(device_with_unknown_queues_refused),
                                     cmocka_unit_test(queues_of_cxgb4_are_those_of_the_kernel),
                                     cmocka_unit_test(device_not_refused_without_evidence),
                                     cmocka_unit_test(acpi_asks_for_root),
                                     cmocka_unit_test(damaged_acpi_tables_decide_nothing)};
    for (std::size_t i = 0; i < files.size(); ++i)
        tests.push_back(
            {names[i].c_str(), expected_rule_decides, nullptr, nullptr, files[i].data()});
    for (std::size_t i = 0; i < files.size(); ++i)
        tests.push_back({hidden_names[i].c_str(), hidden_files_prove_nothing, nullptr, nullptr,
                         files[i].data()});
    return _cmocka_run_group_tests("rules", tests.data(), tests.size(), nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Evaluates the rules on the machines of tests/data/coherency.

#include "../cmocka.hpp"
#include "coherency/rules.hpp"
#include "sysfs_tree.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <rdma/ib_user_ioctl_verbs.h>

using namespace coherdma::coherency;

namespace {

int registration_result = 0;

rule_input make_rule_input(const fake_sysfs &machine) {
    rule_input input;
    input.root = machine.root;
    input.name = machine["device"];
    input.driver = machine["driver"];
    input.machine = machine["machine"];
    input.kernel_release = machine["release"];
    if (const std::string result = machine["registers"]; !result.empty()) {
        static int context; // never dereferenced
        registration_result = std::stoi(result);
        input.context = reinterpret_cast<ibv_context *>(&context);
        input.try_reg_mr = [](ibv_context *) {
            return registration_result;
        };
    }
    return input;
}

const finding *find_finding(const decision &decision, const std::string &rule_name) {
    for (const auto &[rule, finding] : decision.rules) {
        if (rule->name == rule_name)
            return &finding;
    }
    return nullptr;
}

void expected_rule_decides(void **state) {
    const fake_sysfs machine(static_cast<const char *>(*state));
    const rule_input input = make_rule_input(machine);
    const decision result = decide(input, rule_scope::all);
    const auto &[deciding_rule, finding] = result.deciding();
    const std::string rule_and_coherency =
        std::string(deciding_rule->name) + " " + coherdma_coherency_str(finding.coherency);
    assert_string_equal(rule_and_coherency.c_str(), machine["expect"].c_str());
    if (const std::string value = machine["value"]; !value.empty())
        assert_string_equal(finding.value.c_str(), value.c_str());
    if (const std::string other_finding = machine["other_finding"]; !other_finding.empty()) {
        const std::size_t blank_pos = other_finding.find(' ');
        const auto *other = find_finding(result, other_finding.substr(0, blank_pos));
        assert_non_null(other);
        assert_string_equal(other->value.c_str(), other_finding.substr(blank_pos + 1).c_str());
    }
    for (const auto &entry : result.rules) {
        assert_false(entry.finding.reason.empty());
        // The source is a path of the machine, without the folder of the test.
        assert_null(std::strstr(entry.finding.source.c_str(), machine.root.c_str()));
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
    assert_string_equal(result.deciding().rule->name, "override");
    assert_int_equal(result.deciding().finding.coherency, COHERDMA_NON_COHERENT);
    parse_variable("rxe0=auto", settings);
    result = decide(input, rule_scope::until_decided);
    assert_string_equal(result.deciding().rule->name, "software");
}

// The provider's answer decides where a rule of the machine would decide otherwise.
void provider_decides_software_and_emulation(void **) {
    const fake_sysfs machine("tests/data/coherency/virtual-cache.tree");
    rule_input input = make_rule_input(machine);
    coherdmadv_device_attr provider = {};
    provider.coherency = COHERDMA_COHERENT;
    provider.driver_id = RDMA_DRIVER_SIW;
    std::strcpy(provider.evidence, "reason of the provider");
    input.provider = &provider;
    decision result = decide(input, rule_scope::until_decided);
    finding deciding = result.deciding().finding;
    assert_string_equal(result.deciding().rule->name, "software");
    assert_int_equal(deciding.coherency, COHERDMA_COHERENT);
    assert_string_equal(deciding.source.c_str(), "coherdma's provider");
    assert_string_equal(deciding.value.c_str(), "driver siw");
    assert_string_equal(deciding.reason.c_str(), "reason of the provider");
    assert_string_equal(find_finding(result, "emulation")->value.c_str(), "coherent");

    settings settings;
    parse_variable("rxe*=no,siw*=no", settings);
    input.settings = &settings;
    provider.coherency = COHERDMA_EMULATED;
    std::strcpy(provider.mode, "poison");
    result = decide(input, rule_scope::until_decided);
    deciding = result.deciding().finding;
    assert_string_equal(result.deciding().rule->name, "emulation");
    assert_int_equal(deciding.coherency, COHERDMA_EMULATED);
    assert_string_equal(deciding.value.c_str(), "mode poison");
    assert_string_equal(deciding.reason.c_str(), "reason of the provider");
}

} // namespace

int main() {
    std::vector<std::string> files;
    for (const auto &entry : std::filesystem::directory_iterator("tests/data/coherency"))
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    std::vector<std::string> names;
    for (const std::string &file : files)
        names.push_back("machine " + std::filesystem::path(file).stem().string());
    std::vector<CMUnitTest> tests = {cmocka_unit_test(override_precedes_other_rules),
                                     cmocka_unit_test(provider_decides_software_and_emulation)};
    for (std::size_t i = 0; i < files.size(); ++i)
        tests.push_back(
            {names[i].c_str(), expected_rule_decides, nullptr, nullptr, files[i].data()});
    return _cmocka_run_group_tests("rules", tests.data(), tests.size(), nullptr, nullptr);
}

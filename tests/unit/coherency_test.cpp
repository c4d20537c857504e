// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The rules, on machines that tests/data/coherency describes: which rule decides, and what it says.

#include "coherency/verdict.hpp"
#include "tree.hpp"

#include <algorithm>
#include <csetjmp>
#include <cstdarg>
#include <cstring>
#include <filesystem>

extern "C" {
#include <cmocka.h>
}

using namespace coherdma::coherency;

namespace {

int registration_result = 0;

coherdma::coherency::subject subject_of(const tree::made &machine) {
    coherdma::coherency::subject subject;
    subject.root = machine.root;
    subject.name = machine["device"];
    subject.driver = machine["driver"];
    subject.machine = machine["machine"];
    subject.release = machine["release"];
    if (const std::string result = machine["registers"]; !result.empty()) {
        static int context; // nobody looks into it
        registration_result = std::stoi(result);
        subject.context = reinterpret_cast<ibv_context *>(&context);
        subject.registers = [](ibv_context *) {
            return registration_result;
        };
    }
    return subject;
}

const finding *of_rule(const answer &all, const std::string &name) {
    for (const auto &[rule, found] : all.asked) {
        if (rule->name == name)
            return &found;
    }
    return nullptr;
}

void one_machine(void **state) {
    const tree::made machine(static_cast<const char *>(*state));
    const auto subject = subject_of(machine);
    const answer all = decide(subject, true);
    const auto &[rule, found] = all.asked[all.decided];
    const std::string got = std::string(rule->name) + " " + coherdma_verdict_name(found.verdict);
    assert_string_equal(got.c_str(), machine["expect"].c_str());
    if (const std::string value = machine["value"]; !value.empty())
        assert_string_equal(found.value.c_str(), value.c_str());
    if (const std::string remark = machine["remark"]; !remark.empty()) {
        const std::size_t blank = remark.find(' ');
        const finding *other = of_rule(all, remark.substr(0, blank));
        assert_non_null(other);
        assert_string_equal(other->value.c_str(), remark.substr(blank + 1).c_str());
    }
    for (const auto &[asked, said] : all.asked) {
        assert_false(said.reason.empty());
        // What people are shown is where they can look, not where the test keeps it.
        assert_null(std::strstr(said.source.c_str(), machine.root.c_str()));
    }
    const answer short_way = decide(subject, false);
    assert_int_equal(short_way.decided, all.decided);
    assert_int_equal(short_way.asked.size(), short_way.decided + 1);
}

void the_administrator_is_asked_first(void **) {
    const tree::made machine(COHERDMA_TEST_DATA "/coherency/rxe.tree");
    auto subject = subject_of(machine);
    settings told;
    parse_variable("rxe*=no", told);
    subject.told = &told;
    answer all = decide(subject, false);
    assert_string_equal(all.asked[all.decided].first->name, "override");
    assert_int_equal(all.asked[all.decided].second.verdict, COHERDMA_NON_COHERENT);
    parse_variable("rxe0=auto", told);
    all = decide(subject, false);
    assert_string_equal(all.asked[all.decided].first->name, "software");
}

} // namespace

int main() {
    std::vector<std::string> files;
    for (const auto &each : std::filesystem::directory_iterator(COHERDMA_TEST_DATA "/coherency"))
        files.push_back(each.path());
    std::sort(files.begin(), files.end());
    std::vector<std::string> names;
    for (const std::string &each : files)
        names.push_back("machine " + std::filesystem::path(each).stem().string());
    std::vector<CMUnitTest> tests = {cmocka_unit_test(the_administrator_is_asked_first)};
    for (std::size_t place = 0; place < files.size(); ++place)
        tests.push_back({names[place].c_str(), one_machine, nullptr, nullptr, files[place].data()});
    return _cmocka_run_group_tests("rules", tests.data(), tests.size(), nullptr, nullptr);
}

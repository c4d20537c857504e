// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Our line in the files of /etc/libibverbs.d: it comes, it goes without a trace, it is before the
// soft drivers in whatever order libibverbs reads the folder, and a crash leaves nothing half done.

#include "selection/change.hpp"
#include "selection/replace.hpp"

#include <algorithm>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

namespace {

enum class moment { NEVER, NEW_FILE_WRITTEN, BEFORE_RENAME, AFTER_RENAME };
moment deadly = moment::NEVER; ///< at which this process dies

void die_at(moment now) {
    if (now == deadly)
        raise(SIGKILL);
}

} // namespace

// In place of libc's, for what the code under test calls.
extern "C" int fsync(int file) {
    struct stat facts {};
    if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode))
        die_at(moment::NEW_FILE_WRITTEN);
    return static_cast<int>(syscall(SYS_fsync, file));
}
extern "C" int rename(const char *from, const char *to) noexcept {
    die_at(moment::BEFORE_RENAME);
    const long result = syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    die_at(moment::AFTER_RENAME);
    return static_cast<int>(result);
}

using namespace tools::selection;

namespace {

namespace fs = std::filesystem;

std::string bytes_of(const fs::path &path) {
    std::ostringstream text;
    if (std::ifstream file(path, std::ios::binary); file.peek() != EOF)
        text << file.rdbuf();
    return text.str();
}

constexpr char PLUGINS[] = "/usr/lib/x86_64-linux-gnu/libibverbs";

/// A Debian with the stock providers and ours. Goes with the test.
struct machine : host {
    machine() {
        char place[] = "/tmp/selection_test.XXXXXX";
        assert_non_null(mkdtemp(place));
        root = place;
        for (const char *each : {"debian", "providers-34"})
            fs::copy(fs::path(COHERDMA_TEST_DATA) / "doctor" / each, root,
                     fs::copy_options::recursive | fs::copy_options::overwrite_existing);
        library = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";
        put(std::string(PLUGINS) + "/libcoherdma-rdmav34.so", "");
    }
    ~machine() { fs::remove_all(root); }
    machine(const machine &) = delete;
    machine &operator=(const machine &) = delete;

    void put(const std::string &path, const std::string &text) const {
        fs::create_directories(fs::path(root + path).parent_path());
        std::ofstream(root + path, std::ios::binary) << text;
    }
    [[nodiscard]] std::string driver(const std::string &name) const {
        return bytes_of(root + FOLDER + "/" + name);
    }
    void put_driver(const std::string &name, const std::string &text) const {
        put(std::string(FOLDER) + "/" + name, text);
    }
    void switch_on(const std::string &name = "coherdma") const {
        for (const edit &each : plan_on(*this, name))
            carry_out(*this, each);
    }
    void switch_off() const {
        for (const edit &each : plan_off(*this))
            carry_out(*this, each);
    }
    /// All names below /etc, with what is in them.
    [[nodiscard]] std::map<std::string, std::string> etc() const {
        std::map<std::string, std::string> all;
        for (const auto &each : fs::recursive_directory_iterator(root + "/etc"))
            all[each.path()] = each.is_directory() ? "" : bytes_of(each.path());
        return all;
    }
};

void is(const machine &here, state wanted) {
    const setting found = look_at_setting(here);
    if (found.is != wanted)
        std::cerr << "wanted " << name_of(wanted) << ", found " << name_of(found.is) << ": "
                  << found.words << "\n";
    assert_int_equal(found.is, wanted);
}

void equal(const std::string &one, const std::string &other) {
    assert_string_equal(one.c_str(), other.c_str());
}

template <class call>
std::string refusal(call &&what) {
    try {
        what();
    } catch (const std::runtime_error &problem) {
        return problem.what();
    }
    return "";
}

void says(const std::string &text, const char *part) {
    if (text.find(part) == std::string::npos)
        fail_msg("'%s' is not in: %s", part, text.c_str());
}

// -- lines
// -----------------------------------------------------------------------------------------

void lines_as_libibverbs_reads_them(void **) {
    const std::pair<const char *, const char *> texts[] = {
        {"driver rxe", "rxe"},
        {"driver rxe\n", "rxe"},
        {" \tdriver \t rxe  more", "rxe"},
        {"driver rxe\r\n", "rxe\r"},
        {"# driver rxe\n", ""},
        {"driver\n", ""},
        {"drivers rxe\n", ""},
        {"driverrxe\n", ""},
        {"\n\n", ""},
        {"driver /opt/x/libmine\n", "/opt/x/libmine"},
    };
    for (const auto &[text, name] : texts) {
        const auto lines = driver_lines(text);
        assert_int_equal(lines.size(), *name ? 1 : 0);
        if (*name)
            equal(lines[0].name, name);
    }
    assert_int_equal(driver_lines("#\n\ndriver rxe\ndriver siw").back().number, 4);
}

void names_of_plugins(void **) {
    for (const char *each : {"coherdma", "/opt/libcoherdma", "/libcoherdma"})
        assert_true(is_ours(each));
    for (const char *each : {"rxe", "/usr/lib/libsiw"})
        assert_true(is_soft(each));
    for (const char *each : {"coherdma2", "libcoherdma", "/opt/coherdma", "/opt/libcoherdma/x", "",
                             "coherdma\r", "rxe\r"})
        assert_false(is_ours(each) || is_soft(each));
}

/// Texts made of pieces at random, the same in each run.
std::vector<std::string> texts() {
    const std::vector<std::string> pieces = {"driver rxe",
                                             "driver siw",
                                             "\n",
                                             "\n",
                                             "\r\n",
                                             " ",
                                             "# comment",
                                             "driver ",
                                             "\t",
                                             "driver mlx5",
                                             "\0x",
                                             "driver /usr/lib/librxe",
                                             "nonsense",
                                             "\xff\xfe",
                                             "\n\n\n",
                                             "coherdma",
                                             "# driver coherdma\n"};
    std::mt19937 chance(7);
    std::vector<std::string> all = {"", "\n", "driver rxe", "driver rxe\n", "driver rxe\r\n"};
    for (int count = 0; count < 20000; ++count) {
        std::string text;
        for (auto length = chance() % 9; length > 0; --length)
            text += pieces[chance() % pieces.size()];
        all.push_back(text);
    }
    return all;
}

void a_line_comes_and_goes(void **) {
    int tried = 0;
    for (const std::string &text : texts()) {
        if (without_ours(text) != text)
            continue; // has a line of ours, by chance
        ++tried;
        for (const char *name : {"coherdma", "/opt/lib/libibverbs/libcoherdma"}) {
            const std::string with = with_ours(text, name);
            const auto lines = driver_lines(with), before = driver_lines(text);
            assert_int_equal(lines.size(), before.size() + 1);
            equal(lines.back().name, name);
            assert_true(without_ours(with) == text);
        }
    }
    assert_true(tried > 10000);
}

void only_our_lines_go(void **) {
    equal(without_ours("driver coherdma\n#\ndriver rxe\n driver /old/libcoherdma # mine\n#driver "
                       "coherdma\ndriver coherdma2\n"),
          "#\ndriver rxe\n#driver coherdma\ndriver coherdma2\n");
    equal(without_ours("driver rxe\ndriver coherdma"), "driver rxe");
    equal(without_ours("driver coherdma"), "");
}

// -- the folder
// ------------------------------------------------------------------------------------

/// As libibverbs does it: each name is put before those read until then; our plugin and one of
/// rdma-core's that are tried in that order.
bool ours_first(const std::vector<driver_file> &in_order) {
    std::vector<std::string> tried;
    for (const driver_file &file : in_order) {
        for (const driver_line &line : driver_lines(file.text))
            tried.insert(tried.begin(), line.name);
    }
    const auto ours = std::find_if(tried.begin(), tried.end(), is_ours);
    return std::find_if(tried.begin(), tried.end(), is_soft) > ours;
}

/// In how many orders of the folder ours is first: all, some, or none.
std::pair<int, int> orders(const host &here) {
    std::vector<driver_file> files = driver_files(here);
    std::vector<std::size_t> order(files.size());
    for (std::size_t each = 0; each < order.size(); ++each)
        order[each] = each;
    int first = 0, all = 0;
    do {
        std::vector<driver_file> read;
        for (const std::size_t each : order)
            read.push_back(files[each]);
        first += ours_first(read);
        ++all;
    } while (std::next_permutation(order.begin(), order.end()));
    return {first, all};
}

void the_order_of_the_folder_does_not_matter(void **) {
    const machine here;
    here.put_driver("mine", "driver rxe\ndriver mlx5");
    here.put_driver("all.driver", "driver siw\ndriver /usr/lib/librxe\n# end\n");
    here.put_driver(".hidden", "driver siw");
    assert_int_equal(orders(here).first, 0);
    here.switch_on();
    is(here, state::ON);
    assert_int_equal(orders(here).second, 120);
    assert_int_equal(orders(here).first, 120);
    here.put_driver("mine", "driver coherdma\ndriver rxe\n"); // above is not below
    is(here, state::HALF);
    assert_in_range(orders(here).first, 1, 119);
}

void on_and_off(void **) {
    const machine here;
    here.put_driver("mlx5.driver", "driver mlx5\n");
    here.put_driver("siw.driver", "driver siw");
    const auto before = here.etc();
    is(here, state::OFF);
    here.switch_on();
    is(here, state::ON);
    equal(here.driver("rxe.driver"), "driver rxe\ndriver coherdma\n");
    equal(here.driver("siw.driver"), "driver siw\ndriver coherdma");
    equal(here.driver("mlx5.driver"), "driver mlx5\n");
    assert_true(plan_on(here, "coherdma").empty());
    here.switch_off();
    assert_true(here.etc() == before);
    assert_true(plan_off(here).empty());
}

void half_and_stale(void **) {
    const machine here;
    here.put_driver("rxe.driver", "driver rxe\ndriver coherdma\n");
    is(here, state::HALF);
    says(look_at_setting(here).words, "soft driver in /etc/libibverbs.d/siw.driver");
    here.switch_on();
    is(here, state::ON);
    here.put_driver("old.driver", "driver /gone/libcoherdma\n");
    is(here, state::STALE);
    says(look_at_setting(here).words,
         "line 1 of /etc/libibverbs.d/old.driver wants /gone/libcoherdma-rdmav34.so");
    here.switch_on();
    is(here, state::ON);
    equal(here.driver("old.driver"), "");
    fs::remove(here.root + PLUGINS + "/libcoherdma-rdmav34.so");
    is(here, state::STALE);
    here.switch_off();
    is(here, state::OFF);
}

void what_dpkg_leaves_beside_counts(void **) {
    const machine here;
    here.switch_on();
    here.put_driver("rxe.driver.dpkg-dist", "driver rxe\n"); // "keep your version"
    is(here, state::HALF);
    here.switch_on();
    is(here, state::ON);
    here.switch_off();
    equal(here.driver("rxe.driver.dpkg-dist"), "driver rxe\n");
}

void a_file_with_line_ends_of_another_system(void **) {
    const machine here;
    here.put_driver("rxe.driver", "driver rxe\r\n"); // to libibverbs this is "rxe\r"
    here.put_driver("siw.driver", "# soft iWARP\r\ndriver siw\n# end\r\n");
    here.switch_on();
    is(here, state::ON);
    equal(here.driver("rxe.driver"), "driver rxe\r\n");
    equal(here.driver("siw.driver"), "# soft iWARP\r\ndriver siw\n# end\r\ndriver coherdma\n");
}

void what_a_line_names(void **) {
    const machine here;
    const std::string in_folder = std::string(PLUGINS) + "/libcoherdma-rdmav34.so";
    equal(name_of_plugin(here, in_folder), "coherdma");
    fs::create_directory_symlink("usr/lib", here.root + "/lib");
    equal(name_of_plugin(here, "/lib/x86_64-linux-gnu/libibverbs/libcoherdma-rdmav34.so"),
          "coherdma");
    here.put("/opt/lib/libibverbs/libcoherdma-rdmav34.so", "");
    equal(name_of_plugin(here, "/opt/lib/libibverbs/libcoherdma-rdmav34.so"),
          "/opt/lib/libibverbs/libcoherdma");
    here.switch_on("/opt/lib/libibverbs/libcoherdma");
    is(here, state::ON);
    here.put("/opt/59/libcoherdma-rdmav59.so", "");
    here.put("/opt/a b/libcoherdma-rdmav34.so", "");
    const std::pair<const char *, const char *> bad[] = {
        {"/opt/59/libcoherdma-rdmav59.so", "/opt/59/libcoherdma-rdmav34.so"},
        {"/none/libcoherdma-rdmav34.so", "there is no"},
        {"libcoherdma-rdmav34.so", "cannot name"},
        {"/opt/libother-rdmav34.so", "cannot name"},
        {"/opt/a b/libcoherdma-rdmav34.so", "without blanks"},
    };
    for (const auto &[plugin, words] : bad)
        says(refusal([&, file = plugin] { name_of_plugin(here, file); }), words);
}

// -- files
// -----------------------------------------------------------------------------------------

void owner_mode_and_link_stay(void **) {
    const machine here;
    const fs::path file = here.root + FOLDER + "/rxe.driver", target = here.root + "/etc/there";
    fs::rename(file, target);
    fs::create_symlink("../there", file);
    assert_return_code(chmod(target.c_str(), 0640), 0);
    const uid_t owner = geteuid() == 0 ? 1 : geteuid();
    assert_return_code(chown(target.c_str(), owner, owner == 1 ? 2 : getegid()), 0);
    here.switch_on();
    is(here, state::ON);
    assert_true(fs::is_symlink(file));
    struct stat facts {};
    assert_return_code(stat(target.c_str(), &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0640);
    assert_int_equal(facts.st_uid, owner);
    here.switch_off();
    equal(here.driver("rxe.driver"), "driver rxe\n");
}

void a_link_out_of_the_root_is_refused(void **) {
    const machine here, other;
    const fs::path file = here.root + FOLDER + "/rxe.driver";
    fs::remove(file);
    fs::create_symlink(other.root + FOLDER + "/rxe.driver", file);
    says(refusal([&] { here.switch_on(); }), "leads out of");
    equal(other.driver("rxe.driver"), "driver rxe\n");
}

void killed_at_any_moment(void **) {
    for (const moment when :
         {moment::NEW_FILE_WRITTEN, moment::BEFORE_RENAME, moment::AFTER_RENAME}) {
        const machine here;
        const auto before = here.etc();
        const pid_t child = fork();
        if (child == 0) {
            deadly = when;
            here.switch_on();
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        // What libibverbs reads now: the first file is the old one or the new one, no other came.
        assert_int_equal(driver_files(here).size(), 2);
        const bool renamed = when == moment::AFTER_RENAME;
        equal(here.driver("rxe.driver"),
              renamed ? "driver rxe\ndriver coherdma\n" : "driver rxe\n");
        is(here, renamed ? state::HALF : state::OFF);
        {
            const folder_lock lock(here);
            here.switch_on();
            is(here, state::ON);
            here.switch_off();
        }
        assert_true(here.etc() == before);
    }
}

void what_a_killed_one_left_goes_with_the_next(void **) {
    for (const bool linked : {false, true}) {
        const machine here;
        if (linked) { // the new file is beside the folder of what the link leads to
            here.put("/etc/local/rxe", "driver rxe\n");
            fs::remove(here.root + FOLDER + "/rxe.driver");
            fs::create_symlink("../local/rxe", here.root + FOLDER + "/rxe.driver");
        }
        const auto before = here.etc();
        const pid_t child = fork();
        if (child == 0) {
            deadly = moment::BEFORE_RENAME;
            here.switch_on();
            _exit(0);
        }
        waitpid(child, nullptr, 0);
        assert_int_equal(here.etc().size(), before.size() + 1);
        const folder_lock lock(here);
        if (linked)
            here.switch_on();
        here.switch_off();
        assert_true(here.etc() == before);
    }
}

// -- why
// -------------------------------------------------------------------------------------------

void why_a_device_is_served(void **) {
    machine here;
    tools::doctor::opened device = {true, true, "", std::string(PLUGINS) + "/librxe-rdmav34.so"};
    equal(why_served(here, device).words, "line 1 of /etc/libibverbs.d/rxe.driver");
    here.switch_on();
    assert_true(declined(look_at_setting(here), device, why_served(here, device)));
    here.environment = {{"RDMAV_DRIVERS", "mlx5;rxe"}, {"IBV_DRIVERS", "coherdma"}};
    equal(why_served(here, device).words, "RDMAV_DRIVERS=mlx5;rxe");
    assert_true(overridden(look_at_setting(here), device, why_served(here, device)));
    device.plugin = std::string(PLUGINS) + "/libcoherdma-rdmav34.so";
    const reason ours = why_served(here, device);
    equal(ours.words,
          "line 2 of /etc/libibverbs.d/rxe.driver, line 2 of /etc/libibverbs.d/siw.driver");
    assert_false(overridden(look_at_setting(here), device, ours));
    assert_false(declined(look_at_setting(here), device, ours));
    assert_true(is_our_plugin(device.plugin));
    device.preloaded = true;
    assert_int_equal(why_served(here, device).by, reason::PRELOADED);
    device = {true, true, "", "/somewhere/else.so"};
    assert_int_equal(why_served(here, device).by, reason::UNKNOWN);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(lines_as_libibverbs_reads_them),
        cmocka_unit_test(names_of_plugins),
        cmocka_unit_test(a_line_comes_and_goes),
        cmocka_unit_test(only_our_lines_go),
        cmocka_unit_test(the_order_of_the_folder_does_not_matter),
        cmocka_unit_test(on_and_off),
        cmocka_unit_test(half_and_stale),
        cmocka_unit_test(what_dpkg_leaves_beside_counts),
        cmocka_unit_test(a_file_with_line_ends_of_another_system),
        cmocka_unit_test(what_a_line_names),
        cmocka_unit_test(owner_mode_and_link_stay),
        cmocka_unit_test(a_link_out_of_the_root_is_refused),
        cmocka_unit_test(killed_at_any_moment),
        cmocka_unit_test(what_a_killed_one_left_goes_with_the_next),
        cmocka_unit_test(why_a_device_is_served),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

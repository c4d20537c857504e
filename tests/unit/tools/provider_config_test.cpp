// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The coherdma line in the files of /etc/libibverbs.d: removed without a trace, effective for any
// order of the files, and written atomically.

#include "../cmocka.hpp"
#include "provider_config/change.hpp"
#include "provider_config/replace_file.hpp"

#include <algorithm>
#include <csignal>
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

namespace {

enum class crash_point { NEVER, NEW_FILE_WRITTEN, BEFORE_RENAME, AFTER_RENAME };
crash_point crash_at = crash_point::NEVER; ///< where this process kills itself

void crash_if(crash_point point) {
    if (point == crash_at)
        raise(SIGKILL);
}

} // namespace

// These replace libc's functions for the code under test.
extern "C" int fsync(int fd) {
    struct stat attr {};
    if (fstat(fd, &attr) == 0 && S_ISREG(attr.st_mode))
        crash_if(crash_point::NEW_FILE_WRITTEN);
    return static_cast<int>(syscall(SYS_fsync, fd));
}
extern "C" int rename(const char *old_path, const char *new_path) noexcept {
    crash_if(crash_point::BEFORE_RENAME);
    const long result = syscall(SYS_renameat2, AT_FDCWD, old_path, AT_FDCWD, new_path, 0);
    crash_if(crash_point::AFTER_RENAME);
    return static_cast<int>(result);
}

using namespace tools::provider_config;

namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path &path) {
    std::ostringstream text;
    if (std::ifstream file(path, std::ios::binary); file.peek() != EOF)
        text << file.rdbuf();
    return text.str();
}

constexpr char PLUGINS[] = "/usr/lib/x86_64-linux-gnu/libibverbs";

/// A Debian system with rdma-core's providers and coherdma's plugin, in a temporary folder.
struct fake_host : host {
    fake_host() {
        char folder[] = "/tmp/provider_config_test.XXXXXX";
        assert_non_null(mkdtemp(folder));
        root = folder;
        for (const char *source : {"debian", "providers-34"})
            fs::copy(fs::path("tests/data/doctor") / source, root,
                     fs::copy_options::recursive | fs::copy_options::overwrite_existing);
        libibverbs_path = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";
        write_file(std::string(PLUGINS) + "/libcoherdma-rdmav34.so", "");
    }
    ~fake_host() { fs::remove_all(root); }
    fake_host(const fake_host &) = delete;
    fake_host &operator=(const fake_host &) = delete;

    void write_file(const std::string &path, const std::string &text) const {
        fs::create_directories(fs::path(root + path).parent_path());
        std::ofstream(root + path, std::ios::binary) << text;
    }
    [[nodiscard]] std::string read_driver(const std::string &name) const {
        return read_text(root + DRIVER_FOLDER + "/" + name);
    }
    void write_driver(const std::string &name, const std::string &text) const {
        write_file(std::string(DRIVER_FOLDER) + "/" + name, text);
    }
    void enable(const std::string &name = "coherdma") const {
        for (const file_edit &edit : plan_enable(*this, name))
            apply_edit(*this, edit);
    }
    void disable() const {
        for (const file_edit &edit : plan_disable(*this))
            apply_edit(*this, edit);
    }
    /// The files below /etc and their contents.
    [[nodiscard]] std::map<std::string, std::string> read_etc() const {
        std::map<std::string, std::string> contents;
        for (const auto &entry : fs::recursive_directory_iterator(root + "/etc"))
            contents[entry.path()] = entry.is_directory() ? "" : read_text(entry.path());
        return contents;
    }
};

void assert_state(const fake_host &machine, setting_state expected) {
    const system_setting setting = query_setting(machine);
    if (setting.state != expected)
        std::cerr << "expected " << name_of(expected) << ", found " << name_of(setting.state)
                  << ": " << setting.description << "\n";
    assert_int_equal(setting.state, expected);
}

void assert_equal(const std::string &actual, const std::string &expected) {
    assert_string_equal(actual.c_str(), expected.c_str());
}

template <class Function>
std::string error_of(Function &&function) {
    try {
        function();
    } catch (const std::runtime_error &e) {
        return e.what();
    }
    return "";
}

void assert_contains(const std::string &text, const char *part) {
    if (text.find(part) == std::string::npos)
        fail_msg("'%s' is not in: %s", part, text.c_str());
}

// Driver lines.

void driver_lines_parse_as_in_libibverbs(void **) {
    const struct {
        const char *text, *name;
    } files[] = {
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
    for (const auto &[text, name] : files) {
        const auto lines = parse_driver_lines(text);
        assert_int_equal(lines.size(), *name ? 1 : 0);
        if (*name)
            assert_equal(lines[0].name, name);
    }
    assert_int_equal(parse_driver_lines("#\n\ndriver rxe\ndriver siw").back().line_num, 4);
}

void plugin_names_are_classified(void **) {
    for (const char *name : {"coherdma", "/opt/libcoherdma", "/libcoherdma"})
        assert_true(is_coherdma_driver(name));
    for (const char *name : {"rxe", "/usr/lib/libsiw"})
        assert_true(is_soft_driver(name));
    for (const char *name : {"coherdma2", "libcoherdma", "/opt/coherdma", "/opt/libcoherdma/x", "",
                             "coherdma\r", "rxe\r"})
        assert_false(is_coherdma_driver(name) || is_soft_driver(name));
}

/// Random file contents, the same in each run.
std::vector<std::string> random_texts() {
    const std::vector<std::string> fragments = {"driver rxe",
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
                                                "bogus",
                                                "\xff\xfe",
                                                "\n\n\n",
                                                "coherdma",
                                                "# driver coherdma\n"};
    std::mt19937 random(7);
    std::vector<std::string> texts = {"", "\n", "driver rxe", "driver rxe\n", "driver rxe\r\n"};
    for (int count = 0; count < 20000; ++count) {
        std::string text;
        for (auto length = random() % 9; length > 0; --length)
            text += fragments[random() % fragments.size()];
        texts.push_back(text);
    }
    return texts;
}

void added_line_can_be_removed(void **) {
    int num_tested = 0;
    for (const std::string &text : random_texts()) {
        if (remove_coherdma_lines(text) != text)
            continue; // contains a coherdma line
        ++num_tested;
        for (const char *name : {"coherdma", "/opt/lib/libibverbs/libcoherdma"}) {
            const std::string extended = add_driver_line(text, name);
            const auto lines = parse_driver_lines(extended),
                       original_lines = parse_driver_lines(text);
            assert_int_equal(lines.size(), original_lines.size() + 1);
            assert_equal(lines.back().name, name);
            assert_true(remove_coherdma_lines(extended) == text);
        }
    }
    assert_true(num_tested > 10000);
}

void other_lines_are_not_removed(void **) {
    assert_equal(remove_coherdma_lines(
                     "driver coherdma\n#\ndriver rxe\n driver /old/libcoherdma # mine\n#driver "
                     "coherdma\ndriver coherdma2\n"),
                 "#\ndriver rxe\n#driver coherdma\ndriver coherdma2\n");
    assert_equal(remove_coherdma_lines("driver rxe\ndriver coherdma"), "driver rxe");
    assert_equal(remove_coherdma_lines("driver coherdma"), "");
}

// The folder.

/// Orders drivers as libibverbs does, which tries the last name read first; true if coherdma is
/// tried before all soft drivers.
bool is_coherdma_first(const std::vector<driver_file> &files) {
    std::vector<std::string> names;
    for (const driver_file &file : files) {
        for (const driver_line &line : parse_driver_lines(file.text))
            names.insert(names.begin(), line.name);
    }
    const auto coherdma = std::find_if(names.begin(), names.end(), is_coherdma_driver);
    return std::find_if(names.begin(), names.end(), is_soft_driver) > coherdma;
}

struct order_counts {
    int coherdma_first, total;
};

/// Tries all orders of the files.
order_counts count_orders(const host &machine) {
    std::vector<driver_file> files = read_driver_files(machine);
    std::vector<std::size_t> order(files.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        order[i] = i;
    int num_first = 0, total = 0;
    do {
        std::vector<driver_file> ordered;
        for (const std::size_t index : order)
            ordered.push_back(files[index]);
        num_first += is_coherdma_first(ordered);
        ++total;
    } while (std::next_permutation(order.begin(), order.end()));
    return {num_first, total};
}

/// libibverbs reads the folder's files in any order: coherdma must be first in each of the 120
/// orders of five files, also with a hidden file and one without the suffix, which libibverbs reads
/// as well.
void enabled_in_any_folder_order(void **) {
    const fake_host machine;
    machine.write_driver("mine", "driver rxe\ndriver mlx5");
    machine.write_driver("all.driver", "driver siw\ndriver /usr/lib/librxe\n# end\n");
    machine.write_driver(".hidden", "driver siw");
    assert_int_equal(count_orders(machine).coherdma_first, 0);
    machine.enable();
    assert_state(machine, setting_state::ON);
    assert_int_equal(count_orders(machine).total, 120);
    assert_int_equal(count_orders(machine).coherdma_first, 120);
    machine.write_driver(
        "mine",
        "driver coherdma\ndriver rxe\n"); // a line above the soft driver has no effect
    assert_state(machine, setting_state::PARTIAL);
    assert_in_range(count_orders(machine).coherdma_first, 1, 119);
}

void disable_restores_files(void **) {
    const fake_host machine;
    machine.write_driver("mlx5.driver", "driver mlx5\n");
    machine.write_driver("siw.driver", "driver siw");
    const auto before = machine.read_etc();
    assert_state(machine, setting_state::OFF);
    machine.enable();
    assert_state(machine, setting_state::ON);
    assert_equal(machine.read_driver("rxe.driver"), "driver rxe\ndriver coherdma\n");
    assert_equal(machine.read_driver("siw.driver"), "driver siw\ndriver coherdma");
    assert_equal(machine.read_driver("mlx5.driver"), "driver mlx5\n");
    assert_true(plan_enable(machine, "coherdma").empty());
    machine.disable();
    assert_true(machine.read_etc() == before);
    assert_true(plan_disable(machine).empty());
}

void partial_and_stale_are_detected(void **) {
    const fake_host machine;
    machine.write_driver("rxe.driver", "driver rxe\ndriver coherdma\n");
    assert_state(machine, setting_state::PARTIAL);
    assert_contains(query_setting(machine).description,
                    "soft driver in /etc/libibverbs.d/siw.driver");
    machine.enable();
    assert_state(machine, setting_state::ON);
    machine.write_driver("old.driver", "driver /gone/libcoherdma\n");
    assert_state(machine, setting_state::STALE);
    assert_contains(query_setting(machine).description,
                    "line 1 of /etc/libibverbs.d/old.driver requires /gone/libcoherdma-rdmav34.so");
    machine.enable();
    assert_state(machine, setting_state::ON);
    assert_equal(machine.read_driver("old.driver"), "");
    fs::remove(machine.root + PLUGINS + "/libcoherdma-rdmav34.so");
    assert_state(machine, setting_state::STALE);
    machine.disable();
    assert_state(machine, setting_state::OFF);
}

/// dpkg keeps a changed file and writes the package's version beside it; libibverbs reads both.
void dpkg_dist_file_is_read(void **) {
    const fake_host machine;
    machine.enable();
    machine.write_driver("rxe.driver.dpkg-dist", "driver rxe\n"); // the old version was kept
    assert_state(machine, setting_state::PARTIAL);
    machine.enable();
    assert_state(machine, setting_state::ON);
    machine.disable();
    assert_equal(machine.read_driver("rxe.driver.dpkg-dist"), "driver rxe\n");
}

void crlf_line_ends_are_kept(void **) {
    const fake_host machine;
    machine.write_driver("rxe.driver", "driver rxe\r\n"); // libibverbs reads "rxe\r"
    machine.write_driver("siw.driver", "# soft iWARP\r\ndriver siw\n# end\r\n");
    machine.enable();
    assert_state(machine, setting_state::ON);
    assert_equal(machine.read_driver("rxe.driver"), "driver rxe\r\n");
    assert_equal(machine.read_driver("siw.driver"),
                 "# soft iWARP\r\ndriver siw\n# end\r\ndriver coherdma\n");
}

void plugin_is_named_by_path_or_name(void **) {
    const fake_host machine;
    const std::string path = std::string(PLUGINS) + "/libcoherdma-rdmav34.so";
    assert_equal(driver_name_for(machine, path), "coherdma");
    fs::create_directory_symlink("usr/lib", machine.root + "/lib");
    assert_equal(
        driver_name_for(machine, "/lib/x86_64-linux-gnu/libibverbs/libcoherdma-rdmav34.so"),
        "coherdma");
    machine.write_file("/opt/lib/libibverbs/libcoherdma-rdmav34.so", "");
    assert_equal(driver_name_for(machine, "/opt/lib/libibverbs/libcoherdma-rdmav34.so"),
                 "/opt/lib/libibverbs/libcoherdma");
    machine.enable("/opt/lib/libibverbs/libcoherdma");
    assert_state(machine, setting_state::ON);
    machine.write_file("/opt/59/libcoherdma-rdmav59.so", "");
    machine.write_file("/opt/a b/libcoherdma-rdmav34.so", "");
    const struct {
        const char *plugin, *message;
    } invalid[] = {
        {"/opt/59/libcoherdma-rdmav59.so", "/opt/59/libcoherdma-rdmav34.so"},
        {"/none/libcoherdma-rdmav34.so", "there is no"},
        {"libcoherdma-rdmav34.so", "cannot name"},
        {"/opt/libother-rdmav34.so", "cannot name"},
        {"/opt/a b/libcoherdma-rdmav34.so", "without blanks"},
    };
    for (const auto &[plugin, message] : invalid)
        assert_contains(error_of([&, file = plugin] { driver_name_for(machine, file); }), message);
}

// Which users can change the plugin.

constexpr uid_t OTHER_UID = 54321; ///< of no user

void assert_exposed(const fake_host &machine, const std::string &plugin, const std::string &path,
                    const std::string &problem, const std::string &command) {
    const auto exposed = find_exposed_plugin(machine, plugin);
    assert_true(exposed.has_value());
    assert_equal(exposed->path, machine.root + path);
    assert_equal(exposed->problem, problem);
    assert_equal(exposed->fix, command + " " + machine.root + path);
}

bool skip_without_root() {
    if (geteuid() == 0)
        return false;
    print_message("# skipped: it needs root\n");
    return true;
}

/// Each file and folder on the way to the plugin is one by which another user could change it.
void plugin_that_others_can_change_is_exposed(void **) {
    if (skip_without_root())
        skip();
    const fake_host machine;
    umask(022);
    const std::string plugin = "/opt/a/libcoherdma-rdmav34.so";
    machine.write_file(plugin, "");
    assert_false(find_exposed_plugin(machine, plugin).has_value());
    for (const std::string path : {"/opt", "/opt/a", plugin.c_str()}) {
        const std::string full_path = machine.root + path;
        assert_return_code(chown(full_path.c_str(), OTHER_UID, 0), 0);
        assert_exposed(machine, plugin, path, "belongs to user 54321", "chown -h root");
        assert_return_code(chown(full_path.c_str(), 0, OTHER_UID), 0);
        assert_false(find_exposed_plugin(machine, plugin).has_value());
        const mode_t mode = fs::is_directory(full_path) ? 0755 : 0644;
        assert_return_code(chmod(full_path.c_str(), mode | 020), 0);
        assert_exposed(machine, plugin, path,
                       mode == 0755 ? "is writable by its group (mode 0775)"
                                    : "is writable by its group (mode 0664)",
                       "chmod go-w");
        assert_return_code(chmod(full_path.c_str(), mode | 002), 0);
        assert_exposed(machine, plugin, path,
                       mode == 0755 ? "is writable by all users (mode 0757)"
                                    : "is writable by all users (mode 0646)",
                       "chmod go-w");
        assert_return_code(chmod(full_path.c_str(), mode), 0);
    }
    assert_return_code(chown(machine.root.c_str(), OTHER_UID, 0), 0);
    assert_exposed(machine, plugin, "", "belongs to user 54321", "chown -h root");
    assert_return_code(chown(machine.root.c_str(), 0, 0), 0);
}

void entry_of_root_in_sticky_folder_is_not_exposed(void **) {
    if (skip_without_root())
        skip();
    const fake_host machine;
    umask(022);
    const std::string plugin = "/tmp/a/libcoherdma-rdmav34.so";
    machine.write_file(plugin, "");
    assert_return_code(chmod((machine.root + "/tmp").c_str(), 01777), 0);
    assert_false(find_exposed_plugin(machine, plugin).has_value());
    assert_return_code(chown((machine.root + "/tmp/a").c_str(), OTHER_UID, 0), 0);
    assert_exposed(machine, plugin, "/tmp/a", "belongs to user 54321", "chown -h root");
}

/// Both the folders of a link and those of its target are on the way.
void links_to_the_plugin_are_followed(void **) {
    if (skip_without_root())
        skip();
    const fake_host machine;
    umask(022);
    machine.write_file("/opt/real/libcoherdma-rdmav34.so", "");
    machine.write_file("/srv/x/y", "");
    fs::create_directory_symlink("/opt/real", machine.root + "/srv/x/absolute"); // below the root
    fs::create_directory_symlink("../../opt/./real/", machine.root + "/srv/x/relative");
    fs::create_directory_symlink("loop", machine.root + "/srv/loop");
    for (const char *name : {"absolute", "relative"}) {
        const std::string link = std::string("/srv/x/") + name,
                          plugin = link + "/libcoherdma-rdmav34.so";
        assert_false(find_exposed_path(machine, plugin).has_value());
        for (const std::string path : {"/srv/x", "/opt/real"}) {
            assert_return_code(chmod((machine.root + path).c_str(), 0777), 0);
            assert_exposed(machine, plugin, path, "is writable by all users (mode 0777)",
                           "chmod go-w");
            assert_return_code(chmod((machine.root + path).c_str(), 0755), 0);
        }
        assert_return_code(lchown((machine.root + link).c_str(), OTHER_UID, 0), 0);
        assert_exposed(machine, plugin, link, "belongs to user 54321", "chown -h root");
    }
    assert_contains(error_of([&] { (void)find_exposed_path(machine, "/srv/loop/a"); }),
                    "cannot read the owner of ");
    assert_contains(error_of([&] { (void)find_exposed_path(machine, "/none"); }),
                    "/none: No such file or directory");
}

/// A line for the plugin makes programs with another libibverbs load another one.
void plugins_beside_it_are_checked(void **) {
    if (skip_without_root())
        skip();
    const fake_host machine;
    umask(022);
    const std::string plugin = "/opt/libcoherdma-rdmav34.so";
    machine.write_file(plugin, "");
    machine.write_file("/opt/libother.so", "");
    assert_return_code(chmod((machine.root + "/opt/libother.so").c_str(), 0666), 0);
    assert_false(find_exposed_plugin(machine, plugin).has_value());
    for (const char *name : {"libcoherdma-rdmav59.so", "libcoherdma-observers-rdmav34.so",
                             "libcoherdma-interposer.so", "libcoherdma-emulation.so"}) {
        const std::string path = std::string("/opt/") + name;
        machine.write_file(path, "");
        assert_return_code(chmod((machine.root + path).c_str(), 0666), 0);
        assert_exposed(machine, plugin, path, "is writable by all users (mode 0666)", "chmod go-w");
        fs::remove(machine.root + path);
    }
}

void setting_names_exposed_plugin(void **) {
    if (skip_without_root())
        skip();
    const fake_host machine;
    umask(022);
    machine.enable();
    const std::string plugin = std::string(PLUGINS) + "/libcoherdma-rdmav34.so";
    assert_return_code(chmod((machine.root + plugin).c_str(), 0644), 0);
    assert_false(query_setting(machine).exposed().has_value());
    assert_return_code(chmod((machine.root + plugin).c_str(), 0666), 0);
    const auto exposed = query_setting(machine).exposed();
    assert_true(exposed.has_value());
    assert_equal(exposed->description(),
                 machine.root + plugin + " is writable by all users (mode 0666)");
    assert_state(machine, setting_state::ON);
    // Another user may name any plugin.
    for (const char *name : {"rxe.driver", "siw.driver"})
        assert_return_code(chown((machine.root + DRIVER_FOLDER + "/" + name).c_str(), 1, 1), 0);
    assert_false(query_setting(machine).exposed().has_value());
}

// Files.

void owner_mode_and_symlink_are_kept(void **) {
    const fake_host machine;
    const fs::path file = machine.root + DRIVER_FOLDER + "/rxe.driver",
                   target = machine.root + "/etc/there";
    fs::rename(file, target);
    fs::create_symlink("../there", file);
    assert_return_code(chmod(target.c_str(), 0640), 0);
    const uid_t owner = geteuid() == 0 ? 1 : geteuid();
    assert_return_code(chown(target.c_str(), owner, owner == 1 ? 2 : getegid()), 0);
    machine.enable();
    assert_state(machine, setting_state::ON);
    assert_true(fs::is_symlink(file));
    struct stat attr {};
    assert_return_code(stat(target.c_str(), &attr), 0);
    assert_int_equal(attr.st_mode & 07777, 0640);
    assert_int_equal(attr.st_uid, owner);
    machine.disable();
    assert_equal(machine.read_driver("rxe.driver"), "driver rxe\n");
}

void symlink_out_of_root_is_rejected(void **) {
    const fake_host machine, other;
    const fs::path file = machine.root + DRIVER_FOLDER + "/rxe.driver";
    fs::remove(file);
    fs::create_symlink(other.root + DRIVER_FOLDER + "/rxe.driver", file);
    assert_contains(error_of([&] { machine.enable(); }), "leads out of");
    assert_equal(other.read_driver("rxe.driver"), "driver rxe\n");
}

/// A child is killed at a point of the replacement of the first of two files.
void crash_leaves_old_or_new_file(void **) {
    for (const crash_point point :
         {crash_point::NEW_FILE_WRITTEN, crash_point::BEFORE_RENAME, crash_point::AFTER_RENAME}) {
        const fake_host machine;
        const auto before = machine.read_etc();
        const pid_t child = fork();
        if (child == 0) {
            crash_at = point;
            machine.enable();
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        // The first file is the old or the new one, and no file was added.
        assert_int_equal(read_driver_files(machine).size(), 2);
        const bool is_renamed = point == crash_point::AFTER_RENAME;
        assert_equal(machine.read_driver("rxe.driver"),
                     is_renamed ? "driver rxe\ndriver coherdma\n" : "driver rxe\n");
        assert_state(machine, is_renamed ? setting_state::PARTIAL : setting_state::OFF);
        {
            const folder_lock lock(machine);
            machine.enable();
            assert_state(machine, setting_state::ON);
            machine.disable();
        }
        assert_true(machine.read_etc() == before);
    }
}

void temporary_file_of_crash_is_removed(void **) {
    for (const bool is_link : {false, true}) {
        const fake_host machine;
        if (is_link) { // the temporary file is beside the target of the link
            machine.write_file("/etc/local/rxe", "driver rxe\n");
            fs::remove(machine.root + DRIVER_FOLDER + "/rxe.driver");
            fs::create_symlink("../local/rxe", machine.root + DRIVER_FOLDER + "/rxe.driver");
        }
        const auto before = machine.read_etc();
        const pid_t child = fork();
        if (child == 0) {
            crash_at = crash_point::BEFORE_RENAME;
            machine.enable();
            _exit(0);
        }
        waitpid(child, nullptr, 0);
        assert_int_equal(machine.read_etc().size(), before.size() + 1);
        const folder_lock lock(machine);
        if (is_link)
            machine.enable();
        machine.disable();
        assert_true(machine.read_etc() == before);
    }
}

// Why a provider serves.

/// Why libibverbs loaded the plugin that serves a device: a driver line, the environment, or
/// neither.
void reason_for_provider_is_named(void **) {
    fake_host machine;
    tools::doctor::open_result device = {.is_listed = true,
                                         .is_open = true,
                                         .message = "",
                                         .plugin = std::string(PLUGINS) + "/librxe-rdmav34.so"};
    assert_equal(find_load_reason(machine, device).description,
                 "line 1 of /etc/libibverbs.d/rxe.driver");
    machine.enable();
    assert_true(
        has_coherdma_declined(query_setting(machine), device, find_load_reason(machine, device)));
    machine.environment = {{"RDMAV_DRIVERS", "mlx5;rxe"}, {"IBV_DRIVERS", "coherdma"}};
    assert_equal(find_load_reason(machine, device).description, "RDMAV_DRIVERS=mlx5;rxe");
    assert_true(
        is_setting_overridden(query_setting(machine), device, find_load_reason(machine, device)));
    device.plugin = std::string(PLUGINS) + "/libcoherdma-rdmav34.so";
    const load_reason coherdma_reason = find_load_reason(machine, device);
    assert_equal(coherdma_reason.description,
                 "line 2 of /etc/libibverbs.d/rxe.driver, line 2 of /etc/libibverbs.d/siw.driver");
    assert_false(is_setting_overridden(query_setting(machine), device, coherdma_reason));
    assert_false(has_coherdma_declined(query_setting(machine), device, coherdma_reason));
    assert_true(is_coherdma_plugin(device.plugin));
    device.is_preloaded = true;
    assert_int_equal(find_load_reason(machine, device).source, load_source::PRELOADED);
    device = {.is_listed = true, .is_open = true, .message = "", .plugin = "/somewhere/else.so"};
    assert_int_equal(find_load_reason(machine, device).source, load_source::UNKNOWN);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(driver_lines_parse_as_in_libibverbs),
        cmocka_unit_test(plugin_names_are_classified),
        cmocka_unit_test(added_line_can_be_removed),
        cmocka_unit_test(other_lines_are_not_removed),
        cmocka_unit_test(enabled_in_any_folder_order),
        cmocka_unit_test(disable_restores_files),
        cmocka_unit_test(partial_and_stale_are_detected),
        cmocka_unit_test(dpkg_dist_file_is_read),
        cmocka_unit_test(crlf_line_ends_are_kept),
        cmocka_unit_test(plugin_is_named_by_path_or_name),
        cmocka_unit_test(plugin_that_others_can_change_is_exposed),
        cmocka_unit_test(entry_of_root_in_sticky_folder_is_not_exposed),
        cmocka_unit_test(links_to_the_plugin_are_followed),
        cmocka_unit_test(plugins_beside_it_are_checked),
        cmocka_unit_test(setting_names_exposed_plugin),
        cmocka_unit_test(owner_mode_and_symlink_are_kept),
        cmocka_unit_test(symlink_out_of_root_is_rejected),
        cmocka_unit_test(crash_leaves_old_or_new_file),
        cmocka_unit_test(temporary_file_of_crash_is_removed),
        cmocka_unit_test(reason_for_provider_is_named),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

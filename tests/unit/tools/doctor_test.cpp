// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma doctor on fake hosts that are assembled from the folders of tests/data/doctor.

#include "../cmocka.hpp"
#include "doctor/doctor.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace tools::doctor;

namespace {

namespace fs = std::filesystem;

/// A host in a temporary folder: copies of folders of tests/data/doctor, of which later ones
/// replace files of earlier ones.
struct fake_host : host {
    fake_host(std::string release, std::initializer_list<const char *> folders) {
        char temp_folder[] = "/tmp/doctor_test.XXXXXX";
        assert_non_null(mkdtemp(temp_folder));
        root = temp_folder;
        kernel = std::move(release);
        copy_folders(folders);
        libibverbs_path = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";
        interfaces = {{"eth0",
                       {.is_up = true,
                        .has_carrier = true,
                        .addresses = {"198.18.0.1", "fe80::4c9e:28ff:fe17:ad55"}}},
                      {"eth1", {.is_up = true, .has_carrier = true, .addresses = {"198.18.1.1"}}}};
        stat_node = [this](const std::string &path) {
            return device_node{.exists = exists(path),
                               .is_accessible = true,
                               .mode = 0666,
                               .group = "root",
                               .is_member = is_root};
        };
        open_device = [](const std::string &) {
            return open_result{.is_listed = true, .is_open = true, .message = ""};
        };
        query_coherency = [](const std::string &name) {
            return coherency_result{"coherent", name + " is coherent"};
        };
    }
    void copy_folders(std::initializer_list<const char *> folders) {
        for (const char *folder : folders)
            fs::copy(fs::path("tests/data/doctor") / folder, root,
                     fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    }
    ~fake_host() { fs::remove_all(root); }
    fake_host(const fake_host &) = delete;
    fake_host &operator=(const fake_host &) = delete;
};

constexpr char DEBIAN_KERNEL[] = "6.1.0-56-amd64";

/// A host on which everything works, with additional folders.
struct working_host : fake_host {
    explicit working_host(std::initializer_list<const char *> folders = {})
        : fake_host(DEBIAN_KERNEL, {"debian", "providers-34", "kernel-full", "rxe"}) {
        netlink.is_available = true;
        netlink.mode = netns_mode::SHARED;
        copy_folders(folders);
    }
};

bool has(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

std::string as_text(const report &results, bool color = false) {
    char *text = nullptr;
    std::size_t length = 0;
    std::FILE *stream = open_memstream(&text, &length);
    print_text(results, stream, color);
    std::fclose(stream);
    const std::string copy(text, length);
    std::free(text);
    return copy;
}

/// Returns the check; fails and prints the report if its status differs.
const check &assert_check(const report &results, const char *id, check_status expected,
                          const char *device = "") {
    const check *c = results.find(id, device);
    if (!c || c->status != expected)
        std::cerr << "expected " << name_of(expected) << " of " << id << " in:\n"
                  << as_text(results);
    assert_non_null(c);
    assert_int_equal(c->status, expected);
    return *c;
}

/// Prints both on failure.
void assert_contains(const std::string &text, const std::string &part) {
    if (!has(text, part))
        std::cerr << "'" << part << "' is not in: " << text << "\n";
    assert_true(has(text, part));
}

void assert_command(const check &c, const std::string &command) {
    assert_string_equal(c.fix.c_str(), command.c_str());
}

int count_failures(const report &results) {
    int count = 0;
    for (const check &c : results.checks)
        count += c.status == check_status::FAIL;
    return count;
}

/// Writes a file of the host.
void write(const fake_host &machine, const std::string &path, const std::string &text) {
    fs::create_directories(fs::path(machine.root + path).parent_path());
    std::ofstream(machine.root + path) << text;
}

// The kernel.

void kernel_without_rdma_fails(void **) {
    const fake_host machine("6.18.4", {"debian", "providers-34", "no-rdma"});
    const report results = examine(machine, {});
    const check &kernel = assert_check(results, "kernel", check_status::FAIL);
    assert_contains(kernel.evidence, "CONFIG_INFINIBAND is not set (/proc/config.gz)");
    assert_command(kernel, RUN_IN_SOFTRDMA);
    assert_false(has(kernel.explanation, "container"));
    for (const char *name : {"modules", "soft_drivers", "device", "rdma_cm", "netns"})
        assert_check(results, name, check_status::SKIP);
    assert_int_equal(count_failures(results), 1);
    assert_contains(as_text(results), std::string("\nfix: ") + RUN_IN_SOFTRDMA + "\n");
}

void kernel_without_rdma_in_container_names_host(void **) {
    const fake_host machine("6.18.4", {"debian", "providers-34", "no-rdma", "container"});
    assert_contains(assert_check(examine(machine, {}), "kernel", check_status::FAIL).explanation,
                    "uses the host's kernel");
}

void lab_guest_is_not_a_container(void **) {
    fake_host machine("6.18.4", {"debian", "container"});
    assert_true(machine.is_container());
    machine.environment["SOFTRDMA_HOST"] = "1";
    assert_false(machine.is_container());
}

void kernel_without_config_and_netlink_fails(void **) {
    const fake_host machine("6.18.4", {"debian", "providers-34"});
    assert_contains(assert_check(examine(machine, {}), "kernel", check_status::FAIL).evidence,
                    "no RDMA netlink socket");
}

void cloud_kernel_without_rxe_names_package(void **) {
    const fake_host machine("6.1.0-56-cloud-amd64", {"debian", "providers-34", "kernel-cloud"});
    const report results = examine(machine, {});
    assert_check(results, "kernel", check_status::OK);
    assert_check(results, "modules", check_status::OK);
    const check &drivers = assert_check(results, "soft_drivers", check_status::WARN);
    assert_contains(drivers.evidence, "neither rdma_rxe nor siw");
    assert_contains(drivers.explanation, "cloud kernels lack rdma_rxe");
    assert_command(drivers, "apt install linux-image-amd64");
    assert_command(assert_check(results, "device", check_status::FAIL), RUN_IN_SOFTRDMA);
}

void ubuntu_without_modules_extra_names_package(void **) {
    fake_host machine("5.15.0-91-generic", {"ubuntu", "providers-34", "kernel-generic"});
    machine.is_root = false;
    assert_command(assert_check(examine(machine, {}), "soft_drivers", check_status::WARN),
                   "sudo apt install linux-modules-extra-5.15.0-91-generic");
}

void rocky_compressed_modules_are_found(void **) {
    const fake_host machine("5.14.0-362.8.1.el9_3.x86_64",
                            {"fedora", "providers-34", "kernel-el9"});
    const report results = examine(machine, {});
    assert_check(results, "modules", check_status::OK);
    assert_command(assert_check(results, "soft_drivers", check_status::WARN),
                   "dnf install kernel-modules-extra-5.14.0-362.8.1.el9_3.x86_64");
}

void module_missing_in_container_names_host(void **) {
    const fake_host machine("5.15.0-91-generic",
                            {"ubuntu", "providers-34", "kernel-generic", "container"});
    const check drivers = assert_check(examine(machine, {}), "soft_drivers", check_status::WARN);
    assert_contains(drivers.explanation, "host's kernel");
    assert_command(drivers, RUN_IN_SOFTRDMA);
}

void unloaded_modules_suggest_softrdma_up(void **) {
    fake_host machine(DEBIAN_KERNEL, {"debian", "providers-34", "kernel-full"});
    report results = examine(machine, {});
    assert_contains(assert_check(results, "kernel", check_status::OK).evidence,
                    "CONFIG_INFINIBAND=m");
    assert_contains(assert_check(results, "modules", check_status::OK).evidence, "not loaded yet");
    assert_contains(assert_check(results, "soft_drivers", check_status::OK).evidence,
                    "rdma_rxe can be loaded, siw is absent");
    assert_command(assert_check(results, "device", check_status::FAIL), "softrdma up");
    assert_int_equal(count_failures(results), 1);
    machine.is_root = false;
    results = examine(machine, {});
    assert_command(assert_check(results, "device", check_status::FAIL), "sudo softrdma up");
}

void built_in_drivers_are_found(void **) {
    const fake_host machine("7.2.13", {"debian", "providers-34", "kernel-built-in"});
    const report results = examine(machine, {});
    assert_check(results, "modules", check_status::OK);
    assert_contains(assert_check(results, "soft_drivers", check_status::OK).evidence,
                    "rdma_rxe is available, siw is available");
    assert_command(assert_check(results, "device", check_status::FAIL), "softrdma up");
}

void device_without_uverbs_suggests_modprobe(void **) {
    working_host machine;
    fs::remove_all(machine.root + "/sys/class/infiniband_verbs");
    const report results = examine(machine, {});
    assert_command(assert_check(results, "modules", check_status::FAIL), "modprobe -a ib_uverbs");
    assert_check(results, "node", check_status::FAIL, "rxe0");
    assert_check(results, "open", check_status::SKIP, "rxe0");
}

// Device nodes and limits.

void working_machine_passes_all_checks(void **) {
    const working_host machine({"siw"});
    const report results = examine(machine, {});
    for (const check &c : results.checks)
        assert_check(results, c.id.c_str(), check_status::OK, c.device.c_str());
    assert_true((results.working_devices == std::vector<std::string>{"rxe0", "siw0"}));
    assert_contains(as_text(results), "\nWorking RDMA devices: rxe0, siw0\n");
}

void inaccessible_node_suggests_chmod_or_group(void **) {
    working_host machine;
    machine.is_root = false;
    machine.user = "ann";
    machine.stat_node = [](const std::string &path) {
        return has(path, "uverbs")
                   ? device_node{.exists = true,
                                 .is_accessible = false,
                                 .mode = 0600,
                                 .group = "root"}
                   : device_node{
                         .exists = true, .is_accessible = false, .mode = 0660, .group = "rdma"};
    };
    const report results = examine(machine, {});
    const check &c = assert_check(results, "node", check_status::FAIL, "rxe0");
    assert_contains(c.evidence,
                    "/dev/infiniband/uverbs0 is not accessible to user ann: mode 0600, group root");
    assert_command(c, "sudo chmod 0666 /dev/infiniband/uverbs0");
    assert_command(assert_check(results, "rdma_cm", check_status::FAIL),
                   "sudo usermod -aG rdma ann");
    assert_check(results, "open", check_status::SKIP, "rxe0");
    assert_true(results.working_devices.empty());
    machine.stat_node = [](const std::string &) {
        return device_node{.exists = true, .is_accessible = false, .mode = 0640, .group = "rdma"};
    };
    assert_command(assert_check(examine(machine, {}), "node", check_status::FAIL, "rxe0"),
                   "sudo chmod 0666 /dev/infiniband/uverbs0");
}

void missing_node_suggests_module_or_device_option(void **) {
    const working_host machine, container({"container"});
    fs::remove(machine.root + "/dev/infiniband/rdma_cm");
    fs::remove(container.root + "/dev/infiniband/uverbs0");
    report results = examine(machine, {});
    assert_command(assert_check(results, "rdma_cm", check_status::FAIL), "modprobe rdma_ucm");
    assert_true(results.working_devices.empty());
    results = examine(container, {});
    const check c = assert_check(results, "node", check_status::FAIL, "rxe0");
    assert_contains(c.fix, "podman run --device softrdma.alt/rdma=rxe0");
    assert_contains(c.explanation, "softrdma cdi");
    assert_contains(c.explanation, "docker run --device=/dev/infiniband");
}

void container_checks_accessible_devices_only(void **) {
    const working_host machine, container({"container", "siw"}), empty({"container", "siw"});
    fs::remove(container.root + "/dev/infiniband/uverbs1");
    report results = examine(container, {});
    assert_contains(assert_check(results, "device", check_status::OK).evidence,
                    "rxe0; not passed to this container: siw0.");
    assert_int_equal(results.checked_devices.size(), 1);
    assert_false(results.has_any_failed());
    results = examine(container, {"siw0"}); // a named device is checked
    assert_check(results, "node", check_status::FAIL, "siw0");
    fs::remove_all(empty.root + "/dev/infiniband");
    results = examine(empty, {});
    assert_int_equal(results.checked_devices.size(), 2);
    assert_check(results, "node", check_status::FAIL, "rxe0");
}

void low_memlock_limit_warns(void **) {
    working_host machine;
    machine.memlock_limit = 65536;
    check c = assert_check(examine(machine, {}), "memlock", check_status::WARN);
    assert_contains(c.evidence, "only 64 KiB");
    assert_command(c, "ulimit -l unlimited");
    machine.is_root = false;
    machine.user = "ann";
    c = assert_check(examine(machine, {}), "memlock", check_status::WARN);
    assert_contains(c.explanation, "'ann - memlock unlimited'");
    assert_command(c, "sudo prlimit --memlock=unlimited --pid $$");
    machine.has_unlimited_pinning = true;
    assert_check(examine(machine, {}), "memlock", check_status::OK);
    machine.has_unlimited_pinning = false;
    machine.memlock_limit = 1 << 30;
    assert_contains(assert_check(examine(machine, {}), "memlock", check_status::OK).evidence,
                    "1024 MiB");
    working_host container({"container"});
    container.memlock_limit = 8 << 20;
    assert_contains(assert_check(examine(container, {}), "memlock", check_status::WARN).fix,
                    "--ulimit memlock=-1");
}

void warning_is_not_a_failure(void **) {
    working_host machine;
    machine.memlock_limit = 65536;
    const report results = examine(machine, {});
    assert_false(results.has_any_failed());
    assert_contains(as_text(results), "\nA working RDMA device: rxe0\n");
}

void netns_mode_is_checked(void **) {
    working_host machine({"stray-node"});
    assert_contains(assert_check(examine(machine, {}), "netns", check_status::WARN).evidence,
                    "uverbs7");
    working_host exclusive;
    exclusive.netlink.mode = netns_mode::EXCLUSIVE;
    assert_contains(assert_check(examine(exclusive, {}), "netns", check_status::OK).evidence,
                    "exclusive");
    fs::remove_all(exclusive.root + "/sys/class/infiniband/rxe0");
    fs::remove_all(exclusive.root + "/dev");
    assert_contains(assert_check(examine(exclusive, {}), "device", check_status::FAIL).evidence,
                    "rdma dev set NAME netns");
    exclusive.netlink.mode = netns_mode::UNKNOWN;
    assert_check(examine(exclusive, {}), "netns", check_status::SKIP);
}

// libibverbs.

void stale_driver_line_fix_works(void **) {
    const working_host machine({"stale-line"});
    const check c = assert_check(examine(machine, {}), "driver_lines", check_status::WARN);
    assert_contains(c.evidence, "driver cxgb3: no such file");
    std::string command = c.fix;
    command.replace(command.find("/etc/"), 1, machine.root + "/");
    assert_int_equal(std::system(command.c_str()), 0);
    assert_contains(assert_check(examine(machine, {}), "driver_lines", check_status::OK).evidence,
                    "2, all plugins exist");
}

void providers_of_other_abi_fail(void **) {
    const fake_host machine(DEBIAN_KERNEL, {"debian", "providers-59", "kernel-full", "rxe"});
    const report results = examine(machine, {});
    const check &c = assert_check(results, "providers", check_status::FAIL);
    assert_contains(c.evidence,
                    "it requires -rdmav34.so, found librxe-rdmav59.so, libsiw-rdmav59.so");
    assert_command(c, "apt install --reinstall libibverbs1 ibverbs-providers");
    assert_check(results, "driver_lines", check_status::SKIP);
    assert_check(results, "open", check_status::SKIP, "rxe0");
    const fake_host image(DEBIAN_KERNEL,
                          {"debian", "providers-59", "kernel-full", "rxe", "container"});
    assert_contains(assert_check(examine(image, {}), "providers", check_status::FAIL).explanation,
                    "softrdma cdi --with-provider");
}

void providers_of_two_abis_warn(void **) {
    const working_host machine({"providers-59"});
    const report results = examine(machine, {});
    assert_contains(assert_check(results, "providers", check_status::WARN).evidence,
                    "librxe-rdmav59.so");
    assert_check(results, "open", check_status::OK, "rxe0");
}

void missing_providers_and_library_fail(void **) {
    fake_host machine(DEBIAN_KERNEL, {"debian", "kernel-full", "rxe"});
    assert_contains(assert_check(examine(machine, {}), "providers", check_status::FAIL).evidence,
                    "no lib*-rdmav34.so");
    machine.libibverbs_path = "";
    const report results = examine(machine, {});
    assert_command(assert_check(results, "libibverbs", check_status::FAIL),
                   "apt install ibverbs-providers");
    for (const char *name : {"providers", "driver_lines", "environment"})
        assert_check(results, name, check_status::SKIP);
}

void provider_selection_is_checked(void **) {
    const working_host machine;
    const std::string plugin = "/usr/lib/x86_64-linux-gnu/libibverbs/libcoherdma-rdmav34.so";
    assert_contains(assert_check(examine(machine, {}), "selection", check_status::OK).evidence,
                    "off: no file");
    write(machine, "/etc/libibverbs.d/rxe.driver", "driver rxe\ndriver coherdma\n");
    const report stale = examine(machine, {});
    assert_contains(assert_check(stale, "selection", check_status::WARN).evidence,
                    "stale: the plugin does not exist: line 2");
    assert_command(assert_check(stale, "selection", check_status::WARN), "coherdma disable");
    assert_check(stale, "driver_lines", check_status::OK); // no second warning for it
    write(machine, plugin, "");
    assert_command(assert_check(examine(machine, {}), "selection", check_status::WARN),
                   "coherdma enable");
    write(machine, "/etc/libibverbs.d/siw.driver", "driver siw\ndriver coherdma\n");
    assert_contains(assert_check(examine(machine, {}), "selection", check_status::OK).evidence,
                    "on: by line 2 of");
}

void plugin_that_others_can_change_is_a_warning(void **) {
    if (geteuid() != 0) {
        print_message("# skipped: it needs root\n");
        skip();
    }
    const working_host machine;
    const std::string plugin = "/usr/lib/x86_64-linux-gnu/libibverbs/libcoherdma-rdmav34.so";
    write(machine, plugin, "");
    for (const char *name : {"rxe", "siw"})
        write(machine, std::string("/etc/libibverbs.d/") + name + ".driver",
              std::string("driver ") + name + "\ndriver coherdma\n");
    assert_return_code(chmod((machine.root + plugin).c_str(), 0666), 0);
    const report results = examine(machine, {});
    assert_contains(assert_check(results, "selection", check_status::WARN).evidence,
                    "Users other than root can change the plugin: " + machine.root + plugin +
                        " is writable by all users (mode 0666).");
    assert_command(assert_check(results, "selection", check_status::WARN),
                   "chmod go-w " + machine.root + plugin);
}

void serving_provider_is_named(void **) {
    working_host machine;
    const std::string folder = "/usr/lib/x86_64-linux-gnu/libibverbs/";
    std::string file = folder + "librxe-rdmav34.so";
    machine.open_device = [&file](const std::string &) {
        return open_result{.is_listed = true, .is_open = true, .message = "", .plugin = file};
    };
    assert_contains(assert_check(examine(machine, {}), "served", check_status::OK, "rxe0").evidence,
                    file + ", by line 1 of /etc/libibverbs.d/rxe.driver.");
    write(machine, folder + "libcoherdma-rdmav34.so", "");
    for (const char *name : {"rxe", "siw"})
        write(machine, std::string("/etc/libibverbs.d/") + name + ".driver",
              std::string("driver ") + name + "\ndriver coherdma\n");
    const report results = examine(machine, {});
    assert_contains(assert_check(results, "served", check_status::WARN, "rxe0").evidence,
                    "coherdma's plugin was tried first, but declined");
    assert_command(assert_check(results, "served", check_status::WARN, "rxe0"),
                   "VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/dev/stderr ibv_devinfo -d rxe0");
    machine.environment["RDMAV_DRIVERS"] = "rxe";
    assert_contains(assert_check(examine(machine, {}), "served", check_status::OK, "rxe0").evidence,
                    "by RDMAV_DRIVERS=rxe.");
    machine.environment.clear();
    file = folder + "libcoherdma-rdmav34.so";
    assert_contains(assert_check(examine(machine, {}), "served", check_status::OK, "rxe0").evidence,
                    "by line 2 of /etc");
    machine.open_device = [](const std::string &) {
        return open_result{.is_listed = true, .is_open = false, .message = "no"};
    };
    assert_check(examine(machine, {}), "served", check_status::SKIP, "rxe0");
}

void environment_drivers_are_checked(void **) {
    working_host machine;
    machine.environment["RDMAV_DRIVERS"] = "rxe;siw";
    assert_contains(assert_check(examine(machine, {}), "environment", check_status::OK).evidence,
                    "RDMAV_DRIVERS=rxe;siw");
    machine.environment = {{"IBV_DRIVERS", "rxe:/opt/libmine"}};
    const check c = assert_check(examine(machine, {}), "environment", check_status::WARN);
    assert_contains(c.evidence, "/opt/libmine-rdmav34.so");
    assert_command(c, "unset IBV_DRIVERS");
}

void device_that_cannot_be_opened_fails(void **) {
    working_host machine;
    machine.open_device = [](const std::string &) {
        return open_result{
            .is_listed = true, .is_open = false, .message = "Operation not permitted"};
    };
    assert_contains(assert_check(examine(machine, {}), "open", check_status::FAIL, "rxe0").evidence,
                    "Operation not permitted");
    machine.open_device = [](const std::string &) {
        return open_result{.is_listed = false, .is_open = false, .message = ""};
    };
    assert_contains(assert_check(examine(machine, {}), "open", check_status::FAIL, "rxe0").evidence,
                    "does not list it");
}

// Ports and GIDs.

void port_down_names_cause(void **) {
    working_host machine({"port-down"});
    machine.interfaces["eth0"].is_up = false;
    check c = assert_check(examine(machine, {}), "port", check_status::FAIL, "rxe0");
    assert_contains(c.evidence, "DOWN, because its interface eth0 is down");
    assert_command(c, "ip link set eth0 up");
    machine.interfaces["eth0"] = {.is_up = true, .has_carrier = false, .addresses = {}};
    assert_contains(assert_check(examine(machine, {}), "port", check_status::FAIL, "rxe0").evidence,
                    "no carrier");
    machine.interfaces.erase("eth0");
    assert_contains(assert_check(examine(machine, {}), "port", check_status::FAIL, "rxe0").evidence,
                    "not in this network namespace");
}

void gid_usable_by_rdma_cm_passes(void **) {
    const working_host machine;
    assert_contains(assert_check(examine(machine, {}), "gid", check_status::OK, "rxe0").evidence,
                    "index 1 (198.18.0.1): RoCE v2, selected by rdma_cm. Also: 0 (fe80::");
}

void ipv4_gid_is_listed_first(void **) {
    const working_host machine({"gids-both"});
    assert_contains(assert_check(examine(machine, {}), "gid", check_status::OK, "rxe0").evidence,
                    "index 3 (198.18.0.1), 1 (2001:db8::1): RoCE v2");
}

void infiniband_port_in_init_suggests_opensm(void **) {
    const fake_host machine(DEBIAN_KERNEL, {"debian", "providers-34", "kernel-full", "infiniband"});
    const report results = examine(machine, {});
    const check &port = assert_check(results, "port", check_status::FAIL, "mlx5_0");
    assert_contains(port.evidence, "INIT");
    assert_command(port, "systemctl start opensm");
    assert_contains(assert_check(results, "gid", check_status::OK, "mlx5_0").evidence,
                    "InfiniBand: index 0");
}

void active_port_of_two_is_checked(void **) {
    const working_host machine({"two-ports"});
    const report results = examine(machine, {});
    assert_contains(assert_check(results, "port", check_status::OK, "rxe0").title, "port 2");
    assert_contains(assert_check(results, "gid", check_status::OK, "rxe0").evidence,
                    "index 0 (198.18.0.9)");
}

void missing_gids_fail(void **) {
    const working_host machine({"gids-zero"});
    assert_command(assert_check(examine(machine, {}), "gid", check_status::FAIL, "rxe0"),
                   "ip address add 198.18.9.1/24 dev eth0");
}

void link_local_gids_warn(void **) {
    const working_host machine({"gids-link-local"});
    const report results = examine(machine, {});
    assert_contains(assert_check(results, "gid", check_status::WARN, "rxe0").evidence,
                    "only 0 (fe80::");
    assert_true(results.working_devices.size() == 1);
}

void rdma_cm_default_of_roce_v1_warns(void **) {
    const working_host machine({"mode-v1"});
    assert_contains(assert_check(examine(machine, {}), "gid", check_status::WARN, "rxe0").evidence,
                    "IB/RoCE v1");
}

void iwarp_without_ipv4_address_fails(void **) {
    working_host machine({"siw"});
    assert_contains(assert_check(examine(machine, {}), "gid", check_status::OK, "siw0").evidence,
                    "address 198.18.1.1");
    machine.interfaces["eth1"].addresses = {"fe80::1"};
    assert_command(assert_check(examine(machine, {}), "gid", check_status::FAIL, "siw0"),
                   "ip address add 198.18.9.1/24 dev eth1");
}

void unknown_coherency_warns(void **) {
    working_host machine;
    machine.query_coherency = [](const std::string &) {
        return coherency_result{"unknown", "no evidence"};
    };
    assert_command(assert_check(examine(machine, {}), "coherency", check_status::WARN, "rxe0"),
                   "coherdma explain rxe0");
}

void device_that_no_sync_makes_usable_fails(void **) {
    working_host machine;
    machine.query_coherency = [](const std::string &) {
        return coherency_result{"non-coherent", "the devicetree says so",
                                "sync is required, but its queues are in the program's memory"};
    };
    const check result =
        assert_check(examine(machine, {}), "coherency", check_status::FAIL, "rxe0");
    assert_contains(result.evidence, "its queues are in the program's memory");
    assert_command(result, "coherdma explain rxe0");
}

// The output.

void only_named_devices_are_checked(void **) {
    const working_host machine({"siw"});
    report results = examine(machine, {"siw0", "siw0"});
    assert_true(results.checked_devices == std::vector<std::string>{"siw0"});
    results = examine(machine, {"siw0", "rxe7"});
    assert_contains(assert_check(results, "device", check_status::FAIL).evidence,
                    "no rxe7; there are: rxe0, siw0");
    assert_check(results, "port", check_status::OK, "siw0");
    assert_true(results.has_any_failed());
}

void json_has_all_checks(void **) {
    const working_host machine({"siw", "gids-zero"});
    const report results = examine(machine, {});
    const auto document = nlohmann::json::parse(as_json(results));
    assert_int_equal(document.at("schema").get<int>(), 1);
    std::set<std::string> ids; // of checks and their devices
    for (const auto &entry : document.at("checks")) {
        for (const char *key : {"id", "state", "title", "evidence", "explanation", "fix"})
            assert_true(entry.at(key).is_string());
        assert_true(
            ids.insert(entry.at("id").get<std::string>() + " " + entry.value("device", "")).second);
    }
    assert_int_equal(ids.size(), results.checks.size());
    for (const char *id : {"node", "open", "port", "gid", "coherency"}) {
        assert_true(ids.count(std::string(id) + " rxe0") && ids.count(std::string(id) + " siw0"));
    }
    assert_int_equal(document.at("summary").at("fail").get<int>(), 1);
    assert_true(document.at("summary").at("working") == nlohmann::json({"siw0"}));
    assert_contains(document.at("summary").at("next"), "ip address add");
}

void json_accepts_invalid_utf8(void **) {
    working_host machine;
    machine.environment["RDMAV_DRIVERS"] = "\xff\xfe";
    assert_false(nlohmann::json::parse(as_json(examine(machine, {}))).empty());
}

bool is_finding(const check &c) {
    return c.status == check_status::FAIL || c.status == check_status::WARN;
}

/// Commands may be longer than 80 columns, other lines may not.
void assert_fits(const report &results) {
    std::istringstream text(as_text(results));
    for (std::string line; std::getline(text, line);) {
        assert_true(line.empty() || line.back() != ' ');
        if (line.rfind("      fix: ", 0) != 0 && line.rfind("fix: ", 0) != 0 && line.size() > 80)
            fail_msg("too long: %s", line.c_str());
        assert_false(has(line, "\033"));
    }
    for (const check &c : results.checks)
        assert_false(c.evidence.empty());
}

/// Each finding has one line that begins with "fix:", the command that ends it.
void assert_findings_have_fix(const report &results) {
    const std::string text = as_text(results);
    std::size_t num_findings = 0, num_fixes = 0;
    for (const check &c : results.checks) {
        if (is_finding(c) == c.fix.empty())
            fail_msg("%s: %s: command '%s'", c.id.c_str(), c.evidence.c_str(), c.fix.c_str());
        if (is_finding(c)) {
            ++num_findings;
            assert_contains(text, "\n      fix: " + c.fix + "\n");
        }
    }
    for (std::size_t pos = 0; (pos = text.find("\n      fix: ", pos)) != std::string::npos; ++pos)
        ++num_fixes;
    assert_int_equal(num_fixes, num_findings);
    assert_false(has(text, "\n      $ "));
}

void text_fits_80_columns(void **) {
    working_host host(
        {"siw", "stale-line", "gids-zero", "port-down", "providers-59", "stray-node"});
    host.memlock_limit = 4096;
    host.user = "user1";
    host.is_root = false;
    assert_fits(examine(host, {}));
    host.interfaces.clear();
    assert_fits(examine(host, {}));
    assert_fits(examine(fake_host("6.18.4", {"no-rdma", "container"}), {"rxe7"}));
    assert_fits(examine(fake_host("6.1.0-56-cloud-amd64", {"debian", "kernel-cloud"}), {}));
    assert_contains(as_text(examine(host, {}), true), "\033[1;31mfail\033[0m  ");
}

void each_finding_has_fix(void **) {
    working_host host(
        {"siw", "stale-line", "gids-zero", "port-down", "providers-59", "stray-node"});
    host.memlock_limit = 4096;
    host.is_root = false;
    assert_findings_have_fix(examine(host, {"rxe0", "rxe7"}));
    assert_contains(assert_check(examine(host, {}), "providers", check_status::WARN).fix,
                    "dpkg -S /usr/lib/x86_64-linux-gnu/libibverbs/lib");
    host.interfaces.clear();
    assert_findings_have_fix(examine(host, {}));
    working_host other_namespace;
    other_namespace.interfaces.clear();
    const report results = examine(other_namespace, {});
    assert_command(assert_check(results, "port", check_status::WARN, "rxe0"),
                   "ip netns exec NAME coherdma doctor rxe0");
    assert_findings_have_fix(results);
}

/// Where the package manager is not known, the fix is to run in a guest of softrdma.
void each_finding_has_fix_on_other_distributions(void **) {
    for (const char *kernel : {"no-rdma", "kernel-full", "kernel-generic", "kernel-cloud"}) {
        for (const char *distribution : {"debian", "ubuntu", "fedora", "container"}) {
            assert_findings_have_fix(examine(fake_host("6.18.4", {kernel, distribution}), {}));
        }
        assert_findings_have_fix(examine(fake_host("6.18.4", {kernel}), {}));
    }
    fake_host machine(DEBIAN_KERNEL, {"providers-59", "kernel-full", "rxe"});
    report results = examine(machine, {});
    assert_command(assert_check(results, "providers", check_status::FAIL), RUN_IN_SOFTRDMA_GUEST);
    assert_findings_have_fix(results);
    write(machine, machine.libibverbs_path, "another library");
    results = examine(machine, {});
    assert_command(assert_check(results, "libibverbs", check_status::WARN), RUN_IN_SOFTRDMA_GUEST);
    assert_findings_have_fix(results);
    machine.libibverbs_path = "";
    results = examine(machine, {});
    assert_command(assert_check(results, "libibverbs", check_status::FAIL), RUN_IN_SOFTRDMA_GUEST);
    assert_findings_have_fix(results);
}

void unknown_interface_has_fix(void **) {
    const working_host machine({"siw", "gids-zero"});
    for (const char *device : {"rxe0", "siw0"}) {
        const std::string folder = machine.root + "/sys/class/infiniband/" + device;
        fs::remove_all(folder + "/ports/1/gid_attrs");
        fs::remove(folder + "/parent");
    }
    report results = examine(machine, {});
    assert_command(assert_check(results, "gid", check_status::FAIL, "rxe0"), "rdma link");
    assert_command(assert_check(results, "gid", check_status::FAIL, "siw0"), "rdma link");
    write(machine, "/sys/class/infiniband/rxe0/ports/1/state", "1: DOWN");
    results = examine(machine, {});
    assert_command(assert_check(results, "port", check_status::FAIL, "rxe0"),
                   "ip netns exec NAME coherdma doctor rxe0");
    assert_findings_have_fix(results);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(kernel_without_rdma_fails),
        cmocka_unit_test(kernel_without_rdma_in_container_names_host),
        cmocka_unit_test(lab_guest_is_not_a_container),
        cmocka_unit_test(kernel_without_config_and_netlink_fails),
        cmocka_unit_test(cloud_kernel_without_rxe_names_package),
        cmocka_unit_test(ubuntu_without_modules_extra_names_package),
        cmocka_unit_test(rocky_compressed_modules_are_found),
        cmocka_unit_test(module_missing_in_container_names_host),
        cmocka_unit_test(unloaded_modules_suggest_softrdma_up),
        cmocka_unit_test(built_in_drivers_are_found),
        cmocka_unit_test(device_without_uverbs_suggests_modprobe),
        cmocka_unit_test(working_machine_passes_all_checks),
        cmocka_unit_test(inaccessible_node_suggests_chmod_or_group),
        cmocka_unit_test(missing_node_suggests_module_or_device_option),
        cmocka_unit_test(container_checks_accessible_devices_only),
        cmocka_unit_test(low_memlock_limit_warns),
        cmocka_unit_test(warning_is_not_a_failure),
        cmocka_unit_test(netns_mode_is_checked),
        cmocka_unit_test(stale_driver_line_fix_works),
        cmocka_unit_test(providers_of_other_abi_fail),
        cmocka_unit_test(providers_of_two_abis_warn),
        cmocka_unit_test(missing_providers_and_library_fail),
        cmocka_unit_test(provider_selection_is_checked),
        cmocka_unit_test(plugin_that_others_can_change_is_a_warning),
        cmocka_unit_test(serving_provider_is_named),
        cmocka_unit_test(environment_drivers_are_checked),
        cmocka_unit_test(device_that_cannot_be_opened_fails),
        cmocka_unit_test(port_down_names_cause),
        cmocka_unit_test(gid_usable_by_rdma_cm_passes),
        cmocka_unit_test(ipv4_gid_is_listed_first),
        cmocka_unit_test(infiniband_port_in_init_suggests_opensm),
        cmocka_unit_test(active_port_of_two_is_checked),
        cmocka_unit_test(missing_gids_fail),
        cmocka_unit_test(link_local_gids_warn),
        cmocka_unit_test(rdma_cm_default_of_roce_v1_warns),
        cmocka_unit_test(iwarp_without_ipv4_address_fails),
        cmocka_unit_test(unknown_coherency_warns),
        cmocka_unit_test(device_that_no_sync_makes_usable_fails),
        cmocka_unit_test(only_named_devices_are_checked),
        cmocka_unit_test(json_has_all_checks),
        cmocka_unit_test(json_accepts_invalid_utf8),
        cmocka_unit_test(text_fits_80_columns),
        cmocka_unit_test(each_finding_has_fix),
        cmocka_unit_test(each_finding_has_fix_on_other_distributions),
        cmocka_unit_test(unknown_interface_has_fix),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

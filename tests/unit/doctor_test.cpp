// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The doctor, on machines put together from the folders of tests/data/doctor.

#include "doctor/doctor.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

extern "C" {
#include <cmocka.h>
}

using namespace tools::doctor;

namespace {

namespace fs = std::filesystem;

/// Later folders lie over earlier ones. Goes with the test.
struct machine : host {
    machine(std::string release, std::initializer_list<const char *> folders) {
        char place[] = "/tmp/doctor_test.XXXXXX";
        assert_non_null(mkdtemp(place));
        root = place;
        kernel = std::move(release);
        lay_over(folders);
        library = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";
        interfaces = {{"eth0", {true, true, {"198.18.0.1", "fe80::4c9e:28ff:fe17:ad55"}}},
                      {"eth1", {true, true, {"198.18.1.1"}}}};
        look_at = [this](const std::string &path) {
            return node{exists(path), true, 0666, "root", is_root};
        };
        open = [](const std::string &) {
            return opened{true, true, ""};
        };
        coherency = [](const std::string &name) {
            return verdict{"coherent", name + " is coherent"};
        };
    }
    void lay_over(std::initializer_list<const char *> folders) {
        for (const char *each : folders)
            fs::copy(fs::path(COHERDMA_TEST_DATA) / "doctor" / each, root,
                     fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    }
    ~machine() { fs::remove_all(root); }
    machine(const machine &) = delete;
    machine &operator=(const machine &) = delete;
};

constexpr char ORDINARY[] = "6.1.0-56-amd64";

/// A machine where everything works, and what a test lays over it.
struct working : machine {
    explicit working(std::initializer_list<const char *> more = {})
        : machine(ORDINARY, {"debian", "providers-34", "kernel-full", "rxe"}) {
        netlink.there = true;
        netlink.mode = netns_mode::SHARED;
        lay_over(more);
    }
};

bool has(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

std::string as_text(const report &all, bool colour = false) {
    char *text = nullptr;
    std::size_t length = 0;
    std::FILE *to = open_memstream(&text, &length);
    print_text(all, to, colour);
    std::fclose(to);
    const std::string copy(text, length);
    std::free(text);
    return copy;
}

/// The one check of that name; the whole report is printed if the test fails here.
const check &the(const report &all, const char *id, state wanted, const char *device = "") {
    const check *found = all.find(id, device);
    if (!found || found->is != wanted)
        std::cerr << "wanted " << name_of(wanted) << " of " << id << " in:\n" << as_text(all);
    assert_non_null(found);
    assert_int_equal(found->is, wanted);
    return *found;
}

/// Prints both if the part is not there.
void says(const std::string &text, const std::string &part) {
    if (!has(text, part))
        std::cerr << "'" << part << "' is not in: " << text << "\n";
    assert_true(has(text, part));
}

void types(const check &about, const std::string &command) {
    assert_string_equal(about.command.c_str(), command.c_str());
}

int failures(const report &all) {
    int count = 0;
    for (const check &each : all.checks)
        count += each.is == state::FAIL;
    return count;
}

/// As whoever looks after a machine writes it.
void write(const machine &here, const std::string &path, const std::string &text) {
    fs::create_directories(fs::path(here.root + path).parent_path());
    std::ofstream(here.root + path) << text;
}

// -- the kernel ----------------------------------------------------------------------------------

void no_rdma_in_the_kernel(void **) {
    const machine here("6.18.4", {"debian", "providers-34", "no-rdma"});
    const report all = examine(here, {});
    const check &kernel = the(all, "kernel", state::FAIL);
    says(kernel.evidence, "CONFIG_INFINIBAND is not set (/proc/config.gz)");
    types(kernel, LAB);
    assert_false(has(kernel.fix, "container"));
    for (const char *each : {"modules", "soft_drivers", "device", "rdma_cm", "netns"})
        the(all, each, state::SKIP);
    assert_int_equal(failures(all), 1);
    says(as_text(all), std::string("\nNext: type  ") + LAB + "\n");
}

void no_rdma_in_a_container(void **) {
    const machine here("6.18.4", {"debian", "providers-34", "no-rdma", "container"});
    says(the(examine(here, {}), "kernel", state::FAIL).fix, "the host's kernel decides");
}

void a_guest_of_the_lab_is_no_container(void **) {
    machine here("6.18.4", {"debian", "container"});
    assert_true(here.in_container());
    here.environment["SOFTRDMA_HOST"] = "1";
    assert_false(here.in_container());
}

void a_kernel_that_says_nothing(void **) {
    const machine here("6.18.4", {"debian", "providers-34"});
    says(the(examine(here, {}), "kernel", state::FAIL).evidence, "no RDMA netlink socket");
}

void a_cloud_kernel_without_rxe(void **) {
    const machine here("6.1.0-56-cloud-amd64", {"debian", "providers-34", "kernel-cloud"});
    const report all = examine(here, {});
    the(all, "kernel", state::OK);
    the(all, "modules", state::OK);
    const check &drivers = the(all, "soft_drivers", state::WARN);
    says(drivers.evidence, "neither rdma_rxe nor siw");
    says(drivers.fix, "cloud kernels leave rdma_rxe out");
    types(drivers, "apt install linux-image-amd64");
    types(the(all, "device", state::FAIL), LAB);
}

void ubuntu_without_modules_extra(void **) {
    machine here("5.15.0-91-generic", {"ubuntu", "providers-34", "kernel-generic"});
    here.is_root = false;
    types(the(examine(here, {}), "soft_drivers", state::WARN),
          "sudo apt install linux-modules-extra-5.15.0-91-generic");
}

void rocky_with_compressed_modules(void **) {
    const machine here("5.14.0-362.8.1.el9_3.x86_64", {"fedora", "providers-34", "kernel-el9"});
    const report all = examine(here, {});
    the(all, "modules", state::OK);
    types(the(all, "soft_drivers", state::WARN),
          "dnf install kernel-modules-extra-5.14.0-362.8.1.el9_3.x86_64");
}

void a_module_that_a_container_cannot_install(void **) {
    const machine here("5.15.0-91-generic",
                       {"ubuntu", "providers-34", "kernel-generic", "container"});
    const check drivers = the(examine(here, {}), "soft_drivers", state::WARN);
    says(drivers.fix, "host's kernel");
    types(drivers, LAB);
}

void modules_there_but_not_loaded(void **) {
    machine here(ORDINARY, {"debian", "providers-34", "kernel-full"});
    report all = examine(here, {});
    says(the(all, "kernel", state::OK).evidence, "CONFIG_INFINIBAND=m");
    says(the(all, "modules", state::OK).evidence, "not loaded yet");
    says(the(all, "soft_drivers", state::OK).evidence, "rdma_rxe can be loaded, siw is absent");
    types(the(all, "device", state::FAIL), "softrdma up");
    assert_int_equal(failures(all), 1);
    here.is_root = false;
    all = examine(here, {});
    types(the(all, "device", state::FAIL), "sudo softrdma up");
}

void drivers_built_in(void **) {
    const machine here("7.2.13", {"debian", "providers-34", "kernel-built-in"});
    const report all = examine(here, {});
    the(all, "modules", state::OK);
    says(the(all, "soft_drivers", state::OK).evidence, "rdma_rxe is there, siw is there");
    types(the(all, "device", state::FAIL), "softrdma up");
}

void uverbs_not_loaded_under_a_device(void **) {
    working here;
    fs::remove_all(here.root + "/sys/class/infiniband_verbs");
    const report all = examine(here, {});
    types(the(all, "modules", state::FAIL), "modprobe -a ib_uverbs");
    the(all, "node", state::FAIL, "rxe0");
    the(all, "open", state::SKIP, "rxe0");
}

// -- nodes and limits ----------------------------------------------------------------------------

void all_is_well(void **) {
    const working here({"siw"});
    const report all = examine(here, {});
    for (const check &each : all.checks)
        the(all, each.id.c_str(), state::OK, each.device.c_str());
    assert_true((all.working == std::vector<std::string>{"rxe0", "siw0"}));
    says(as_text(all), "\nWorking RDMA devices: rxe0, siw0\n");
}

void a_node_that_is_not_for_this_user(void **) {
    working here;
    here.is_root = false;
    here.user = "ann";
    here.look_at = [](const std::string &path) {
        return has(path, "uverbs") ? node{true, false, 0600, "root", false}
                                   : node{true, false, 0660, "rdma", false};
    };
    const report all = examine(here, {});
    const check &found = the(all, "node", state::FAIL, "rxe0");
    says(found.evidence, "/dev/infiniband/uverbs0 is not for user ann: mode 0600, group root");
    types(found, "sudo chmod 0666 /dev/infiniband/uverbs0");
    types(the(all, "rdma_cm", state::FAIL), "sudo usermod -aG rdma ann");
    the(all, "open", state::SKIP, "rxe0");
    assert_true(all.working.empty());
    here.look_at = [](const std::string &) {
        return node{true, false, 0640, "rdma", false};
    };
    types(the(examine(here, {}), "node", state::FAIL, "rxe0"),
          "sudo chmod 0666 /dev/infiniband/uverbs0");
}

void a_node_that_is_missing(void **) {
    const working here, container({"container"});
    fs::remove(here.root + "/dev/infiniband/rdma_cm");
    fs::remove(container.root + "/dev/infiniband/uverbs0");
    report all = examine(here, {});
    types(the(all, "rdma_cm", state::FAIL), "modprobe rdma_ucm");
    assert_true(all.working.empty());
    all = examine(container, {});
    const check found = the(all, "node", state::FAIL, "rxe0");
    says(found.command, "podman run --device softrdma.alt/rdma=rxe0");
    says(found.fix, "softrdma cdi");
    says(found.fix, "docker run --device=/dev/infiniband");
}

void a_container_is_asked_for_what_it_was_given(void **) {
    const working here, container({"container", "siw"}), without({"container", "siw"});
    fs::remove(container.root + "/dev/infiniband/uverbs1");
    report all = examine(container, {});
    says(the(all, "device", state::OK).evidence, "rxe0; not given to this container: siw0.");
    assert_int_equal(all.devices.size(), 1);
    assert_false(all.any_failed());
    all = examine(container, {"siw0"}); // by name: why not
    the(all, "node", state::FAIL, "siw0");
    fs::remove_all(without.root + "/dev/infiniband");
    all = examine(without, {});
    assert_int_equal(all.devices.size(), 2);
    the(all, "node", state::FAIL, "rxe0");
}

void memory_that_may_be_pinned(void **) {
    working here;
    here.memlock = 65536;
    check found = the(examine(here, {}), "memlock", state::WARN);
    says(found.evidence, "only 64 KiB");
    types(found, "ulimit -l unlimited");
    here.is_root = false;
    here.user = "ann";
    found = the(examine(here, {}), "memlock", state::WARN);
    says(found.fix, "'ann - memlock unlimited'");
    types(found, "sudo prlimit --memlock=unlimited --pid $$");
    here.pins_freely = true;
    the(examine(here, {}), "memlock", state::OK);
    here.pins_freely = false;
    here.memlock = 1 << 30;
    says(the(examine(here, {}), "memlock", state::OK).evidence, "1024 MiB");
    working container({"container"});
    container.memlock = 8 << 20;
    says(the(examine(container, {}), "memlock", state::WARN).command, "--ulimit memlock=-1");
}

void a_warning_is_no_failure(void **) {
    working here;
    here.memlock = 65536;
    const report all = examine(here, {});
    assert_false(all.any_failed());
    says(as_text(all), "\nA working RDMA device: rxe0\n");
}

void namespaces(void **) {
    working here({"stray-node"});
    says(the(examine(here, {}), "netns", state::WARN).evidence, "uverbs7");
    working alone;
    alone.netlink.mode = netns_mode::EXCLUSIVE;
    says(the(examine(alone, {}), "netns", state::OK).evidence, "exclusive");
    fs::remove_all(alone.root + "/sys/class/infiniband/rxe0");
    fs::remove_all(alone.root + "/dev");
    says(the(examine(alone, {}), "device", state::FAIL).evidence, "rdma dev set NAME netns");
    alone.netlink.mode = netns_mode::UNKNOWN;
    the(examine(alone, {}), "netns", state::SKIP);
}

// -- libibverbs ----------------------------------------------------------------------------------

void a_stale_line_and_what_mends_it(void **) {
    const working here({"stale-line"});
    const check found = the(examine(here, {}), "driver_lines", state::WARN);
    says(found.evidence, "driver cxgb3: no such file");
    std::string command = found.command;
    command.replace(command.find("/etc/"), 1, here.root + "/");
    assert_int_equal(std::system(command.c_str()), 0);
    says(the(examine(here, {}), "driver_lines", state::OK).evidence, "2, each with its file");
}

void providers_for_another_libibverbs(void **) {
    const machine here(ORDINARY, {"debian", "providers-59", "kernel-full", "rxe"});
    const report all = examine(here, {});
    const check &found = the(all, "providers", state::FAIL);
    says(found.evidence, "it wants -rdmav34.so, there are librxe-rdmav59.so, libsiw-rdmav59.so");
    types(found, "apt install --reinstall libibverbs1 ibverbs-providers");
    the(all, "driver_lines", state::SKIP);
    the(all, "open", state::SKIP, "rxe0");
    const machine image(ORDINARY, {"debian", "providers-59", "kernel-full", "rxe", "container"});
    says(the(examine(image, {}), "providers", state::FAIL).fix, "softrdma cdi --with-provider");
}

void providers_for_both(void **) {
    const working here({"providers-59"});
    const report all = examine(here, {});
    says(the(all, "providers", state::WARN).evidence, "librxe-rdmav59.so");
    the(all, "open", state::OK, "rxe0");
}

void no_providers_and_no_library(void **) {
    machine here(ORDINARY, {"debian", "kernel-full", "rxe"});
    says(the(examine(here, {}), "providers", state::FAIL).evidence, "no lib*-rdmav34.so");
    here.library = "";
    const report all = examine(here, {});
    types(the(all, "libibverbs", state::FAIL), "apt install ibverbs-providers");
    for (const char *each : {"providers", "driver_lines", "environment"})
        the(all, each, state::SKIP);
}

void our_provider_for_the_system(void **) {
    const working here;
    const std::string plugin = "/usr/lib/x86_64-linux-gnu/libibverbs/libcoherdma-rdmav34.so";
    says(the(examine(here, {}), "selection", state::OK).evidence, "off: no file");
    write(here, "/etc/libibverbs.d/rxe.driver", "driver rxe\ndriver coherdma\n");
    const report stale = examine(here, {});
    says(the(stale, "selection", state::WARN).evidence, "stale: there is no such plugin: line 2");
    types(the(stale, "selection", state::WARN), "coherdma disable");
    the(stale, "driver_lines", state::OK); // one warning for one thing
    write(here, plugin, "");
    types(the(examine(here, {}), "selection", state::WARN), "coherdma enable");
    write(here, "/etc/libibverbs.d/siw.driver", "driver siw\ndriver coherdma\n");
    says(the(examine(here, {}), "selection", state::OK).evidence, "on: by line 2 of");
}

void which_provider_serves(void **) {
    working here;
    const std::string folder = "/usr/lib/x86_64-linux-gnu/libibverbs/";
    std::string file = folder + "librxe-rdmav34.so";
    here.open = [&file](const std::string &) {
        return opened{true, true, "", file};
    };
    says(the(examine(here, {}), "served", state::OK, "rxe0").evidence,
         file + ", by line 1 of /etc/libibverbs.d/rxe.driver.");
    write(here, folder + "libcoherdma-rdmav34.so", "");
    for (const char *each : {"rxe", "siw"})
        write(here, std::string("/etc/libibverbs.d/") + each + ".driver",
              std::string("driver ") + each + "\ndriver coherdma\n");
    const report all = examine(here, {});
    says(the(all, "served", state::WARN, "rxe0").evidence,
         "coherdma was asked before, but did not");
    types(the(all, "served", state::WARN, "rxe0"),
          "VERBS_LOG_LEVEL=3 VERBS_LOG_FILE=/dev/stderr ibv_devinfo -d rxe0");
    here.environment["RDMAV_DRIVERS"] = "rxe";
    says(the(examine(here, {}), "served", state::OK, "rxe0").evidence, "by RDMAV_DRIVERS=rxe.");
    here.environment.clear();
    file = folder + "libcoherdma-rdmav34.so";
    says(the(examine(here, {}), "served", state::OK, "rxe0").evidence, "by line 2 of /etc");
    here.open = [](const std::string &) {
        return opened{true, false, "no"};
    };
    the(examine(here, {}), "served", state::SKIP, "rxe0");
}

void drivers_by_the_environment(void **) {
    working here;
    here.environment["RDMAV_DRIVERS"] = "rxe;siw";
    says(the(examine(here, {}), "environment", state::OK).evidence, "RDMAV_DRIVERS=rxe;siw");
    here.environment = {{"IBV_DRIVERS", "rxe:/opt/libmine"}};
    const check found = the(examine(here, {}), "environment", state::WARN);
    says(found.evidence, "/opt/libmine-rdmav34.so");
    types(found, "unset IBV_DRIVERS");
}

void a_device_that_does_not_open(void **) {
    working here;
    here.open = [](const std::string &) {
        return opened{true, false, "Operation not permitted"};
    };
    says(the(examine(here, {}), "open", state::FAIL, "rxe0").evidence, "Operation not permitted");
    here.open = [](const std::string &) {
        return opened{};
    };
    says(the(examine(here, {}), "open", state::FAIL, "rxe0").evidence, "does not list it");
}

// -- ports and GIDs ------------------------------------------------------------------------------

void a_port_that_is_down(void **) {
    working here({"port-down"});
    here.interfaces["eth0"].up = false;
    check found = the(examine(here, {}), "port", state::FAIL, "rxe0");
    says(found.evidence, "DOWN, because its interface eth0 is down");
    types(found, "ip link set eth0 up");
    here.interfaces["eth0"] = {true, false, {}};
    says(the(examine(here, {}), "port", state::FAIL, "rxe0").evidence, "no carrier");
    here.interfaces.erase("eth0");
    says(the(examine(here, {}), "port", state::FAIL, "rxe0").evidence,
         "not in this network namespace");
}

void gids_that_rdma_cm_takes(void **) {
    const working here;
    says(the(examine(here, {}), "gid", state::OK, "rxe0").evidence,
         "index 1 (198.18.0.1): RoCE v2, and rdma_cm takes it. Also: 0 (fe80::");
}

void an_ipv4_gid_is_named_first(void **) {
    const working here({"gids-both"});
    says(the(examine(here, {}), "gid", state::OK, "rxe0").evidence,
         "index 3 (198.18.0.1), 1 (2001:db8::1): RoCE v2");
}

void infiniband(void **) {
    const machine here(ORDINARY, {"debian", "providers-34", "kernel-full", "infiniband"});
    const report all = examine(here, {});
    const check &port = the(all, "port", state::FAIL, "mlx5_0");
    says(port.evidence, "INIT");
    types(port, "systemctl start opensm");
    says(the(all, "gid", state::OK, "mlx5_0").evidence, "InfiniBand: index 0");
}

void the_port_that_is_active(void **) {
    const working here({"two-ports"});
    const report all = examine(here, {});
    says(the(all, "port", state::OK, "rxe0").title, "port 2");
    says(the(all, "gid", state::OK, "rxe0").evidence, "index 0 (198.18.0.9)");
}

void no_gids(void **) {
    const working here({"gids-zero"});
    types(the(examine(here, {}), "gid", state::FAIL, "rxe0"),
          "ip address add 198.18.9.1/24 dev eth0");
}

void gids_for_the_link_only(void **) {
    const working here({"gids-link-local"});
    const report all = examine(here, {});
    says(the(all, "gid", state::WARN, "rxe0").evidence, "only 0 (fe80::");
    assert_true(all.working.size() == 1);
}

void rdma_cm_set_to_v1(void **) {
    const working here({"mode-v1"});
    says(the(examine(here, {}), "gid", state::WARN, "rxe0").evidence, "IB/RoCE v1");
}

void iwarp_without_an_address(void **) {
    working here({"siw"});
    says(the(examine(here, {}), "gid", state::OK, "siw0").evidence, "address 198.18.1.1");
    here.interfaces["eth1"].addresses = {"fe80::1"};
    types(the(examine(here, {}), "gid", state::FAIL, "siw0"),
          "ip address add 198.18.9.1/24 dev eth1");
}

void a_device_that_is_not_coherent(void **) {
    working here;
    here.coherency = [](const std::string &) {
        return verdict{"unknown", "nobody says"};
    };
    types(the(examine(here, {}), "coherency", state::WARN, "rxe0"), "coherdma explain rxe0");
}

// -- what is said --------------------------------------------------------------------------------

void devices_by_name(void **) {
    const working here({"siw"});
    report all = examine(here, {"siw0", "siw0"});
    assert_true(all.devices == std::vector<std::string>{"siw0"});
    all = examine(here, {"siw0", "rxe7"});
    says(the(all, "device", state::FAIL).evidence, "no rxe7; there are: rxe0, siw0");
    the(all, "port", state::OK, "siw0");
    assert_true(all.any_failed());
}

void json_for_programs(void **) {
    const working here({"siw", "gids-zero"});
    const report all = examine(here, {});
    const auto top = nlohmann::json::parse(as_json(all));
    assert_int_equal(top.at("schema").get<int>(), 1);
    std::set<std::pair<std::string, std::string>> seen;
    for (const auto &each : top.at("checks")) {
        for (const char *key : {"id", "state", "title", "evidence", "fix", "command"})
            assert_true(each.at(key).is_string());
        assert_true(seen.emplace(each.at("id"), each.value("device", "")).second);
    }
    assert_int_equal(seen.size(), all.checks.size());
    for (const char *id : {"node", "open", "port", "gid", "coherency"}) {
        assert_true(seen.count({id, "rxe0"}) && seen.count({id, "siw0"}));
    }
    assert_int_equal(top.at("summary").at("fail").get<int>(), 1);
    assert_true(top.at("summary").at("working") == nlohmann::json({"siw0"}));
    says(top.at("summary").at("next"), "ip address add");
}

void names_in_any_encoding(void **) {
    working here;
    here.environment["RDMAV_DRIVERS"] = "\xff\xfe";
    assert_false(nlohmann::json::parse(as_json(examine(here, {}))).empty());
}

/// Lines to copy may be longer, all others fit.
void fits(const report &all) {
    std::istringstream text(as_text(all));
    for (std::string line; std::getline(text, line);) {
        assert_true(line.empty() || line.back() != ' ');
        if (!has(line, "      $ ") && line.rfind("Next: ", 0) != 0 && line.size() > 80)
            fail_msg("too long: %s", line.c_str());
        assert_false(has(line, "\033"));
    }
    for (const check &each : all.checks) {
        if (each.is == state::FAIL || each.is == state::WARN)
            assert_false(each.fix.empty() && each.command.empty());
        assert_false(each.evidence.empty());
    }
}

void text_for_people(void **) {
    working broken({"siw", "stale-line", "gids-zero", "port-down", "providers-59", "stray-node"});
    broken.memlock = 4096;
    broken.user = "somebody";
    broken.is_root = false;
    fits(examine(broken, {}));
    broken.interfaces.clear();
    fits(examine(broken, {}));
    fits(examine(machine("6.18.4", {"no-rdma", "container"}), {"rxe7"}));
    fits(examine(machine("6.1.0-56-cloud-amd64", {"debian", "kernel-cloud"}), {}));
    says(as_text(examine(broken, {}), true), "\033[1;31mfail\033[0m  ");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(no_rdma_in_the_kernel),
        cmocka_unit_test(no_rdma_in_a_container),
        cmocka_unit_test(a_guest_of_the_lab_is_no_container),
        cmocka_unit_test(a_kernel_that_says_nothing),
        cmocka_unit_test(a_cloud_kernel_without_rxe),
        cmocka_unit_test(ubuntu_without_modules_extra),
        cmocka_unit_test(rocky_with_compressed_modules),
        cmocka_unit_test(a_module_that_a_container_cannot_install),
        cmocka_unit_test(modules_there_but_not_loaded),
        cmocka_unit_test(drivers_built_in),
        cmocka_unit_test(uverbs_not_loaded_under_a_device),
        cmocka_unit_test(all_is_well),
        cmocka_unit_test(a_node_that_is_not_for_this_user),
        cmocka_unit_test(a_node_that_is_missing),
        cmocka_unit_test(a_container_is_asked_for_what_it_was_given),
        cmocka_unit_test(memory_that_may_be_pinned),
        cmocka_unit_test(a_warning_is_no_failure),
        cmocka_unit_test(namespaces),
        cmocka_unit_test(a_stale_line_and_what_mends_it),
        cmocka_unit_test(providers_for_another_libibverbs),
        cmocka_unit_test(providers_for_both),
        cmocka_unit_test(no_providers_and_no_library),
        cmocka_unit_test(our_provider_for_the_system),
        cmocka_unit_test(which_provider_serves),
        cmocka_unit_test(drivers_by_the_environment),
        cmocka_unit_test(a_device_that_does_not_open),
        cmocka_unit_test(a_port_that_is_down),
        cmocka_unit_test(gids_that_rdma_cm_takes),
        cmocka_unit_test(an_ipv4_gid_is_named_first),
        cmocka_unit_test(infiniband),
        cmocka_unit_test(the_port_that_is_active),
        cmocka_unit_test(no_gids),
        cmocka_unit_test(gids_for_the_link_only),
        cmocka_unit_test(rdma_cm_set_to_v1),
        cmocka_unit_test(iwarp_without_an_address),
        cmocka_unit_test(a_device_that_is_not_coherent),
        cmocka_unit_test(devices_by_name),
        cmocka_unit_test(json_for_programs),
        cmocka_unit_test(names_in_any_encoding),
        cmocka_unit_test(text_for_people),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

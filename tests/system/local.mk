# SPDX-License-Identifier: MIT
# make check-system: these tests need root, several hosts, or minutes.
system_tests += %D%/test_hosts.sh %D%/test_names.sh %D%/test_elastic.sh %D%/test_losses.sh %D%/test_faults.sh %D%/test_slurm.sh %D%/test_numa.sh %D%/test_copies.sh %D%/test_systemd.sh \
	%D%/test_page.py %D%/test_packages.sh %D%/test_prometheus.py %D%/test_fresh.sh %D%/test_tarball.sh
EXTRA_DIST += %D%/hosts.sh %D%/vhosts.sh %D%/numavm.sh %D%/test_hosts.sh %D%/test_names.sh %D%/test_elastic.sh %D%/test_losses.sh %D%/losses_run.py %D%/losses_check.py %D%/losses_table.py %D%/test_faults.sh %D%/test_slurm.sh %D%/test_numa.sh \
	%D%/test_three_faults.sh %D%/test_copies.sh %D%/test_systemd.sh %D%/vsystemd.sh %D%/test_page.py %D%/test_packages.sh %D%/test_prometheus.py %D%/test_fresh.sh %D%/test_tarball.sh
# Three of the faults, in every make check that runs as root.
TESTS += %D%/test_three_faults.sh
# scripts/demo and scripts/check in other, freshly created systems, as root: make check-distros.
EXTRA_DIST += %D%/test_distros.sh
check-distros: all
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='%D%/test_distros.sh'
phony += check-distros

# Loaders on other hosts.
system_tests += %D%/test_loader_faults.sh %D%/test_lenders.sh %D%/test_wire.sh tests/docs/test_html.py %D%/test_release.sh
EXTRA_DIST += %D%/test_loader_faults.sh %D%/test_release.sh %D%/loader_faults.tsv %D%/test_lenders.sh %D%/test_wire.sh %D%/proxy.py %D%/wire.py
check_LTLIBRARIES += %D%/broken_disk.la
%C%_broken_disk_la_SOURCES = %D%/broken_disk.c
%C%_broken_disk_la_LIBADD = -ldl
%C%_broken_disk_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere

# The images of examples/containers.
system_tests += %D%/test_containers.sh
EXTRA_DIST += %D%/test_containers.sh

# Runs as root a loader for an hour, two hundred rounds of all faults of loaders on other hosts, a failure of each call
# that can fail, hostile programs for ten minutes per case, and orders with a hundred seeds: make soak. For a short run:
# SOAK_SECONDS=60 RUNS=1 ORDER_SEEDS=1 HOSTILE_SECONDS=6 PLENUM_FAILURES=30 make soak.
EXTRA_DIST += %D%/stage.sh %D%/soak.sh %D%/soak_actors.py
soak: all
	RUNS=$${RUNS:-200} ORDER_SEEDS=$${ORDER_SEEDS:-100} HOSTILE_SECONDS=$${HOSTILE_SECONDS:-600} PLENUM_FAILURES=$${PLENUM_FAILURES:-all} \
		$(MAKE) $(AM_MAKEFLAGS) check TESTS='tests/common/order/test_order_small tests/hostile/test_programs.py %D%/soak.sh %D%/test_loader_faults.sh \
		tests/failures/test_failures.py'
phony += soak
# The wheel of scripts/wheel in minimal systems, as root: make check-wheel.
EXTRA_DIST += %D%/test_wheel.sh
check-wheel: all
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='%D%/test_wheel.sh'
phony += check-wheel

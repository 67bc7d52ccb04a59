# SPDX-License-Identifier: MIT
# launcher/: plenumrun. All but main() is an archive, so that the tests link what the program links.
noinst_LTLIBRARIES += %D%/liblauncher.la
%C%_liblauncher_la_SOURCES = \
	%D%/aftermath.c \
	%D%/agent.c %D%/agent.h \
	%D%/allocation.c %D%/allocation.h \
	%D%/attend.c \
	%D%/bind.c %D%/bind.h \
	%D%/child.c %D%/child.h \
	%D%/cmdline.c %D%/cmdline.h \
	%D%/configfile.c %D%/configfile.h \
	%D%/control.c %D%/control.h \
	%D%/devices.c %D%/devices.h \
	%D%/dial.c %D%/dial.h \
	%D%/environ.c %D%/environ.h \
	%D%/family.c %D%/family.h \
	%D%/grid.c %D%/grid.h \
	%D%/guard.c %D%/guard.h \
	%D%/host.c %D%/host.h \
	%D%/launch.c %D%/launch.h \
	%D%/input.c %D%/input.h \
	%D%/lend.c %D%/lend.h \
	%D%/lenders.c %D%/lenders.h \
	%D%/lines.c %D%/lines.h \
	%D%/local.c %D%/local.h \
	%D%/members.c \
	%D%/mpirun.c %D%/mpirun.h \
	%D%/network.c %D%/network.h \
	%D%/output.c %D%/output.h \
	%D%/place.c %D%/place.h \
	%D%/plan.c %D%/plan.h \
	%D%/probe.c %D%/probe.h \
	%D%/ranges.c %D%/ranges.h \
	%D%/ready.c %D%/ready.h \
	%D%/report.c %D%/report.h \
	%D%/result.c \
	%D%/shim.c %D%/shim.h \
	%D%/signals.c %D%/signals.h \
	%D%/starter.c %D%/starter.h \
	%D%/supervise.c %D%/supervise.h %D%/supervise_priv.h \
	%D%/sweep.c %D%/sweep.h \
	%D%/table.c %D%/table.h \
	%D%/topology.c %D%/topology.h \
	%D%/version.c %D%/version.h
%C%_liblauncher_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
%C%_liblauncher_la_LIBADD = common/libcommon.la $(HWLOC_LIBS)

bin_PROGRAMS += plenumrun
plenumrun_SOURCES = %D%/main.c
plenumrun_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
plenumrun_LDADD = %D%/liblauncher.la

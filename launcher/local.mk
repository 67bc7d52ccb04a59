# SPDX-License-Identifier: MIT
# launcher/: plenumrun. All but main() is an archive, so that the tests link what the program links.
noinst_LTLIBRARIES += %D%/liblauncher.la
%C%_liblauncher_la_SOURCES = \
	%D%/control.c %D%/control.h \
	%D%/dial.c %D%/dial.h \
	%D%/environ.c %D%/environ.h \
	%D%/proctree.c %D%/proctree.h \
	%D%/handover.c %D%/handover.h \
	%D%/host.c %D%/host.h \
	%D%/lines.c %D%/lines.h \
	%D%/numa.c %D%/numa.h \
	%D%/network.c %D%/network.h \
	%D%/ports.c %D%/ports.h \
	%D%/ranges.c %D%/ranges.h \
	%D%/script.c %D%/script.h \
	%D%/signals.c %D%/signals.h \
	%D%/exit_status.h \
	%D%/subnet.c %D%/subnet.h \
	%D%/sweep.c %D%/sweep.h \
	%D%/texts.c %D%/texts.h \
	%D%/topology.c %D%/topology.h \
	%D%/plan/allocation.c %D%/plan/allocation.h \
	%D%/plan/cmdline.c %D%/plan/cmdline.h \
	%D%/plan/configfile.c %D%/plan/configfile.h \
	%D%/plan/devices.c %D%/plan/devices.h \
	%D%/plan/grid.c %D%/plan/grid.h \
	%D%/plan/job_settings.h \
	%D%/plan/place.c %D%/plan/place.h \
	%D%/plan/plan.c %D%/plan/plan.h \
	%D%/plan/table.c %D%/plan/table.h \
	%D%/plan/tag.c %D%/plan/tag.h \
	%D%/job/daemons.c %D%/job/daemons.h \
	%D%/job/failure.c \
	%D%/job/output_folder.c %D%/job/output_folder.h \
	%D%/job/pause.c %D%/job/pause.h \
	%D%/job/input.c %D%/job/input.h \
	%D%/job/launch.c %D%/job/launch.h \
	%D%/job/local.c %D%/job/local.h \
	%D%/job/instance_plans.c \
	%D%/job/instances.c \
	%D%/job/mpirun.c %D%/job/mpirun.h \
	%D%/job/output.c %D%/job/output.h \
	%D%/job/report.c %D%/job/report.h \
	%D%/job/result.c \
	%D%/job/starter.c %D%/job/starter.h \
	%D%/job/supervise.c %D%/job/supervise.h %D%/job/supervise_priv.h \
	%D%/job/supervise_start.c \
	%D%/job/variables.c %D%/job/variables.h \
	%D%/job/version.c %D%/job/version.h \
	%D%/remote/agent.c %D%/remote/agent.h \
	%D%/remote/answer.c %D%/remote/answer.h \
	%D%/remote/keeper.c %D%/remote/keeper.h \
	%D%/remote/login.c %D%/remote/login.h \
	%D%/remote/remote_loaders.c %D%/remote/remote_loaders.h \
	%D%/remote/probe.c %D%/remote/probe.h \
	%D%/remote/ready.c %D%/remote/ready.h \
	%D%/shim/inner.c %D%/shim/inner_priv.h %D%/shim/inner_output.c %D%/shim/inner_start.c \
	%D%/shim/bind.c %D%/shim/bind.h \
	%D%/shim/child.c %D%/shim/child.h \
	%D%/shim/guard.c %D%/shim/guard.h \
	%D%/shim/shim.c %D%/shim/shim.h
%C%_liblauncher_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
%C%_liblauncher_la_LIBADD = common/libcommon.la $(HWLOC_LIBS)

bin_PROGRAMS += plenumrun
plenumrun_SOURCES = %D%/main.c
plenumrun_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
plenumrun_LDADD = %D%/liblauncher.la

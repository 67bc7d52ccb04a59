# SPDX-License-Identifier: MIT
# launcher/: plenumrun. Everything except main() is in an archive, so that tests link the same code as the program.
noinst_LTLIBRARIES += %D%/liblauncher.la
%C%_liblauncher_la_SOURCES = \
	%D%/control/control.c %D%/control/control.h \
	%D%/control/dial.c %D%/control/dial.h \
	%D%/control/environ.c %D%/control/environ.h \
	%D%/control/exit_status.h \
	%D%/control/handover.c %D%/control/handover.h \
	%D%/control/lines.c %D%/control/lines.h \
	%D%/control/pace_report.c %D%/control/pace_report.h \
	%D%/host/capture.c %D%/host/capture.h \
	%D%/host/health.c %D%/host/health.h \
	%D%/host/host.c %D%/host/host.h \
	%D%/host/leftover.c %D%/host/leftover.h \
	%D%/host/network.c %D%/host/network.h \
	%D%/host/proctree.c %D%/host/proctree.h \
	%D%/host/script.c %D%/host/script.h \
	%D%/host/signals.c %D%/host/signals.h \
	%D%/host/stacks.c %D%/host/stacks.h \
	%D%/host/strain.c %D%/host/strain.h \
	%D%/host/sweep.c %D%/host/sweep.h \
	%D%/job/advance.c %D%/job/advance.h \
	%D%/job/agree.c %D%/job/agree.h \
	%D%/job/between_hosts.c %D%/job/between_hosts.h \
	%D%/job/daemons.c %D%/job/daemons.h \
	%D%/job/departures.c %D%/job/departures.h \
	%D%/job/elastic.c %D%/job/elastic.h \
	%D%/job/failure.c \
	%D%/job/grow.c \
	%D%/job/hung.c \
	%D%/job/input.c %D%/job/input.h \
	%D%/job/instance_plans.c \
	%D%/job/instances.c \
	%D%/job/job_hosts.c %D%/job/job_hosts.h \
	%D%/job/job_socket.c \
	%D%/job/launch.c %D%/job/launch.h \
	%D%/job/local.c %D%/job/local.h \
	%D%/job/mpirun.c %D%/job/mpirun.h \
	%D%/job/output.c %D%/job/output.h \
	%D%/job/output_folder.c %D%/job/output_folder.h \
	%D%/job/interlude.c %D%/job/interlude.h \
	%D%/job/pause.c %D%/job/pause.h \
	%D%/job/peers.c \
	%D%/job/report.c %D%/job/report.h \
	%D%/job/result.c \
	%D%/job/starter.c %D%/job/starter.h \
	%D%/job/slow.c %D%/job/slow.h \
	%D%/job/slow_cause.c %D%/job/slow_cause.h \
	%D%/job/slow_watch.c \
	%D%/job/stop.c \
	%D%/job/stop_command.c %D%/job/stop_command.h \
	%D%/job/supervise.c %D%/job/supervise.h \
	%D%/job/supervise_priv.h \
	%D%/job/supervise_start.c \
	%D%/job/variables.c %D%/job/variables.h \
	%D%/job/version.c %D%/job/version.h \
	%D%/plan/allocation.c %D%/plan/allocation.h \
	%D%/plan/cmdline.c %D%/plan/cmdline.h \
	%D%/plan/configfile.c %D%/plan/configfile.h \
	%D%/plan/devices.c %D%/plan/devices.h \
	%D%/plan/grid.c %D%/plan/grid.h \
	%D%/plan/job_settings.h \
	%D%/plan/place.c %D%/plan/place.h \
	%D%/plan/plan.c %D%/plan/plan.h \
	%D%/plan/roster.c %D%/plan/roster.h \
	%D%/plan/table.c %D%/plan/table.h \
	%D%/plan/tag.c %D%/plan/tag.h \
	%D%/remote/agent.c %D%/remote/agent.h \
	%D%/remote/answer.c %D%/remote/answer.h \
	%D%/remote/keeper.c %D%/remote/keeper.h \
	%D%/remote/login.c %D%/remote/login.h \
	%D%/remote/probe.c %D%/remote/probe.h \
	%D%/remote/ready.c %D%/remote/ready.h \
	%D%/remote/remote_loaders.c %D%/remote/remote_loaders.h \
	%D%/shim/bind.c %D%/shim/bind.h \
	%D%/shim/child.c %D%/shim/child.h \
	%D%/shim/guard.c %D%/shim/guard.h \
	%D%/shim/inner.c \
	%D%/shim/inner_hung.c \
	%D%/shim/inner_output.c \
	%D%/shim/inner_pace.c \
	%D%/shim/inner_priv.h \
	%D%/shim/inner_start.c \
	%D%/shim/inner_stop.c \
	%D%/shim/shim.c %D%/shim/shim.h \
	%D%/values/numa.c %D%/values/numa.h \
	%D%/values/ports.c %D%/values/ports.h \
	%D%/values/ranges.c %D%/values/ranges.h \
	%D%/values/subnet.c %D%/values/subnet.h \
	%D%/values/texts.c %D%/values/texts.h \
	%D%/values/topology.c %D%/values/topology.h
%C%_liblauncher_la_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
%C%_liblauncher_la_LIBADD = common/libcommon.la $(HWLOC_LIBS)

bin_PROGRAMS += plenumrun
plenumrun_SOURCES = %D%/plenumrun.c
plenumrun_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
plenumrun_LDADD = %D%/liblauncher.la

# SPDX-License-Identifier: MIT
# These tests run real jobs on this host.
check_PROGRAMS += %D%/stub_loader
%C%_stub_loader_LDADD = common/libcommon.la
check_PROGRAMS += %D%/stopper
%C%_stopper_LDADD = libdist/libdist.la -ldl
if MPI
check_PROGRAMS += %D%/mpi_sum
%C%_mpi_sum_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
%C%_mpi_sum_LDADD = $(MPI_LIBS)
endif
TESTS += %D%/test_run.sh %D%/test_grow.sh %D%/test_health_check.sh %D%/test_agent.sh %D%/test_local.sh %D%/test_files.sh
EXTRA_DIST += %D%/test_run.sh %D%/test_grow.sh %D%/test_health_check.sh %D%/test_agent.sh %D%/test_local.sh %D%/test_files.sh %D%/test_gate.py %D%/test_rooms.py %D%/test_unauthenticated.py %D%/test_first_end.py %D%/test_hung.py %D%/test_job.py %D%/test_slow_job.py %D%/test_lenders.py %D%/test_page.py %D%/test_stop.py %D%/test_terminal.py %D%/ddp.py \
	%D%/environment.h
if PYTHON_FOUND
TESTS += %D%/test_gate.py %D%/test_rooms.py %D%/test_unauthenticated.py %D%/test_first_end.py %D%/test_hung.py %D%/test_job.py %D%/test_slow_job.py %D%/test_lenders.py %D%/test_page.py %D%/test_stop.py %D%/test_terminal.py
endif

if CRITERION
launcher_tests = %D%/test_advance %D%/test_agree %D%/test_allocation %D%/test_answer %D%/test_control %D%/test_daemons %D%/test_departures %D%/test_dial %D%/test_environ %D%/test_failure %D%/test_proctree %D%/test_slow %D%/test_pace_report %D%/test_strain %D%/test_health %D%/test_host %D%/test_input \
	%D%/test_leftover %D%/test_lines %D%/test_instances %D%/test_mpirun %D%/test_network %D%/test_cmdline %D%/test_output %D%/test_place %D%/test_plan \
	%D%/test_interlude %D%/test_pause %D%/test_ranges %D%/test_report %D%/test_roster %D%/test_script %D%/test_variables
check_PROGRAMS += $(launcher_tests)
TESTS += $(launcher_tests)

launcher_test_cflags = $(test_cflags) $(HWLOC_CFLAGS)
launcher_test_ldadd = launcher/liblauncher.la $(CRITERION_LIBS)

%C%_test_agree_CFLAGS = $(launcher_test_cflags)
%C%_test_agree_LDADD = $(launcher_test_ldadd)
%C%_test_pace_report_CFLAGS = $(launcher_test_cflags)
%C%_test_pace_report_LDADD = $(launcher_test_ldadd)
%C%_test_strain_CFLAGS = $(launcher_test_cflags)
%C%_test_strain_LDADD = $(launcher_test_ldadd)
%C%_test_slow_CFLAGS = $(launcher_test_cflags)
%C%_test_slow_LDADD = $(launcher_test_ldadd) -lm

%C%_test_allocation_CFLAGS = $(launcher_test_cflags)
%C%_test_allocation_LDADD = $(launcher_test_ldadd)

%C%_test_answer_CFLAGS = $(launcher_test_cflags)
%C%_test_answer_LDADD = $(launcher_test_ldadd)

%C%_test_control_CFLAGS = $(launcher_test_cflags)
%C%_test_control_LDADD = $(launcher_test_ldadd)
%C%_test_control_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc

%C%_test_daemons_CFLAGS = $(launcher_test_cflags)
%C%_test_daemons_LDADD = $(launcher_test_ldadd)

%C%_test_dial_CFLAGS = $(launcher_test_cflags)
%C%_test_dial_LDADD = $(launcher_test_ldadd)

%C%_test_environ_CFLAGS = $(launcher_test_cflags)
%C%_test_environ_LDADD = $(launcher_test_ldadd)

%C%_test_failure_CFLAGS = $(launcher_test_cflags)
%C%_test_failure_LDADD = $(launcher_test_ldadd)

%C%_test_proctree_CFLAGS = $(launcher_test_cflags)
%C%_test_proctree_LDADD = $(launcher_test_ldadd)

%C%_test_health_CFLAGS = $(launcher_test_cflags)
%C%_test_health_LDADD = $(launcher_test_ldadd)

%C%_test_host_CFLAGS = $(launcher_test_cflags)
%C%_test_host_LDADD = $(launcher_test_ldadd)

%C%_test_input_CFLAGS = $(launcher_test_cflags)
%C%_test_input_LDADD = $(launcher_test_ldadd)
%C%_test_input_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=read

%C%_test_departures_CFLAGS = $(launcher_test_cflags)
%C%_test_departures_LDADD = $(launcher_test_ldadd)

%C%_test_lines_CFLAGS = $(launcher_test_cflags)
%C%_test_lines_LDADD = $(launcher_test_ldadd)

%C%_test_instances_CFLAGS = $(launcher_test_cflags)
%C%_test_instances_LDADD = $(launcher_test_ldadd)

%C%_test_mpirun_CFLAGS = $(launcher_test_cflags)
%C%_test_mpirun_LDADD = $(launcher_test_ldadd)

%C%_test_cmdline_CFLAGS = $(launcher_test_cflags)
%C%_test_cmdline_LDADD = $(launcher_test_ldadd)

%C%_test_network_CFLAGS = $(launcher_test_cflags)
%C%_test_network_LDADD = $(launcher_test_ldadd)

%C%_test_output_CFLAGS = $(launcher_test_cflags)
%C%_test_output_LDADD = $(launcher_test_ldadd)

%C%_test_place_CFLAGS = $(launcher_test_cflags)
%C%_test_place_LDADD = $(launcher_test_ldadd)

%C%_test_plan_CFLAGS = $(launcher_test_cflags)
%C%_test_plan_LDADD = $(launcher_test_ldadd)

%C%_test_leftover_CFLAGS = $(launcher_test_cflags)
%C%_test_leftover_LDADD = $(launcher_test_ldadd)

%C%_test_advance_CFLAGS = $(launcher_test_cflags)
%C%_test_advance_LDADD = $(launcher_test_ldadd)

%C%_test_roster_CFLAGS = $(launcher_test_cflags)
%C%_test_roster_LDADD = $(launcher_test_ldadd)

%C%_test_ranges_CFLAGS = $(launcher_test_cflags)
%C%_test_ranges_LDADD = $(launcher_test_ldadd)

%C%_test_interlude_CFLAGS = $(launcher_test_cflags)
%C%_test_interlude_LDADD = $(launcher_test_ldadd)

%C%_test_pause_CFLAGS = $(launcher_test_cflags)
%C%_test_pause_LDADD = $(launcher_test_ldadd)
%C%_test_report_CFLAGS = $(launcher_test_cflags)
%C%_test_report_LDADD = $(launcher_test_ldadd)

%C%_test_script_CFLAGS = $(launcher_test_cflags)
%C%_test_script_LDADD = $(launcher_test_ldadd)

%C%_test_variables_CFLAGS = $(launcher_test_cflags)
%C%_test_variables_LDADD = $(launcher_test_ldadd)
endif

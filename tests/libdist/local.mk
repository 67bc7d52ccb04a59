# SPDX-License-Identifier: MIT
libdist_tests = %D%/collectives/test_combine %D%/collectives/test_comm_header %D%/collectives/test_hosts_strangers \
	%D%/collectives/test_many_hosts \
	%D%/collectives/test_one_host %D%/test_job %D%/test_launchers %D%/test_loaders %D%/test_lookup %D%/test_normalise %D%/test_play %D%/test_slot \
	%D%/test_pacing %D%/test_reshape %D%/test_stream %D%/test_threads %D%/test_batch_verify
threads_tests += %D%/test_threads
check_PROGRAMS += $(libdist_tests)
TESTS += $(libdist_tests)
EXTRA_DIST += %D%/test_walls.py
if PYTHON_FOUND
TESTS += %D%/test_walls.py
endif

%C%_collectives_test_combine_SOURCES = %D%/collectives/test_combine.c %D%/collectives/oracle_sum.c %D%/collectives/oracle_sum.h
%C%_collectives_test_combine_CFLAGS = $(test_cflags)
%C%_collectives_test_one_host_SOURCES = %D%/collectives/test_one_host.c %D%/collectives/one_host.c %D%/collectives/one_host.h \
	%D%/collectives/oracle_sum.c %D%/collectives/oracle_sum.h %D%/collectives/random_op.c %D%/collectives/random_op.h
%C%_collectives_test_many_hosts_SOURCES = %D%/collectives/test_many_hosts.c %D%/collectives/many_hosts.c \
	%D%/collectives/many_hosts.h %D%/collectives/oracle_sum.c %D%/collectives/oracle_sum.h %D%/collectives/random_op.c \
	%D%/collectives/random_op.h
%C%_collectives_test_hosts_strangers_SOURCES = %D%/collectives/test_hosts_strangers.c %D%/collectives/many_hosts.c \
	%D%/collectives/many_hosts.h %D%/collectives/oracle_sum.c %D%/collectives/oracle_sum.h %D%/collectives/random_op.c \
	%D%/collectives/random_op.h
%C%_collectives_test_hosts_strangers_CFLAGS = $(test_cflags)
%C%_collectives_test_hosts_strangers_LDADD = libdist/libdist.la -ldl -lm
%C%_collectives_test_many_hosts_CFLAGS = $(test_cflags)
%C%_collectives_test_many_hosts_LDADD = libdist/libdist.la -ldl -lm
%C%_collectives_test_one_host_CFLAGS = $(test_cflags)
%C%_collectives_test_one_host_LDADD = libdist/libdist.la -ldl -lm
%C%_collectives_test_combine_LDADD = libdist/libdist.la -ldl -lm $(CRITERION_LIBS)
%C%_collectives_test_comm_header_CFLAGS = $(test_cflags)
%C%_collectives_test_comm_header_LDADD = libdist/libdist.la -ldl $(CRITERION_LIBS)
%C%_test_job_CFLAGS = $(test_cflags)
%C%_test_job_LDADD = libdist/libdist.la -ldl $(CRITERION_LIBS)
%C%_test_launchers_CFLAGS = $(test_cflags)
%C%_test_launchers_LDADD = libdist/libdist.la -ldl $(CRITERION_LIBS)
%C%_test_normalise_CFLAGS = $(test_cflags)
%C%_test_normalise_LDADD = libdist/libdist.la -ldl -lm $(CRITERION_LIBS)
%C%_test_pacing_CFLAGS = $(test_cflags)
%C%_test_pacing_LDADD = libdist/libdist.la -ldl $(CRITERION_LIBS)
%C%_test_reshape_CFLAGS = $(test_cflags)
%C%_test_reshape_LDADD = tests/libtree.la libdist/libdist.la -ldl $(JPEG_LIBS) $(PNG_LIBS) $(CRITERION_LIBS)
%C%_test_slot_CFLAGS = $(test_cflags)
%C%_test_slot_LDADD = libdist/libdist.la -ldl $(CRITERION_LIBS)
%C%_test_batch_verify_CFLAGS = $(test_cflags)
%C%_test_batch_verify_LDADD = libdist/libdist.la -ldl $(CRITERION_LIBS)
%C%_test_stream_CFLAGS = $(test_cflags)
%C%_test_stream_LDADD = tests/libtree.la libdist/libdist.la $(loader_libs) -ldl \
	$(JPEG_LIBS) $(PNG_LIBS) $(CRITERION_LIBS)
EXTRA_DIST += %D%/streams.h
%C%_test_loaders_CFLAGS = $(test_cflags)
# Its recv() also replaces the module's.
%C%_test_loaders_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
%C%_test_loaders_LDADD = tests/libtree.la libdist/libdist.la -ldl $(JPEG_LIBS) $(PNG_LIBS) $(CRITERION_LIBS)
%C%_test_lookup_CFLAGS = $(test_cflags)
# The whole program uses its getaddrinfo().
%C%_test_lookup_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
%C%_test_lookup_LDADD = tests/libtree.la libdist/libdist.la -ldl $(JPEG_LIBS) $(PNG_LIBS) $(CRITERION_LIBS)
# A loader that misbehaves.
check_PROGRAMS += %D%/plenumd-wrong
%C%_plenumd_wrong_SOURCES = %D%/plenumd_wrong.c loader/serve/plenumd.c
%C%_plenumd_wrong_CPPFLAGS = $(AM_CPPFLAGS) -DPLENUM_SYSCONFDIR='"$(sysconfdir)"'
%C%_plenumd_wrong_CFLAGS = $(AM_CFLAGS) -Wno-missing-prototypes
%C%_plenumd_wrong_LDADD = $(plenumd_LDADD)
%C%_plenumd_wrong_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=render_bytes_of,--wrap=wire_hello_init,--wrap=wire_put_hello \
	-Wl,--wrap=wire_put_opened,--wrap=wire_put_done,--wrap=wire_put_stats \
	-Wl,--wrap=wire_get_render
# Frames read are counted on both sides.
check_PROGRAMS += %D%/plenumd-counted
%C%_plenumd_counted_SOURCES = %D%/counted_frames.c %D%/counted_frames.h loader/serve/plenumd.c
%C%_plenumd_counted_CPPFLAGS = $(AM_CPPFLAGS) -DPLENUM_SYSCONFDIR='"$(sysconfdir)"'
%C%_plenumd_counted_CFLAGS = $(AM_CFLAGS) -Wno-missing-prototypes
%C%_plenumd_counted_LDADD = $(plenumd_LDADD)
%C%_plenumd_counted_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=frame_conn_next
%C%_test_play_SOURCES = %D%/test_play.c %D%/counted_frames.c %D%/counted_frames.h
%C%_test_play_CFLAGS = $(test_cflags)
%C%_test_play_LDADD = tests/libtree.la libdist/libdist.la -ldl $(JPEG_LIBS) $(PNG_LIBS)
%C%_test_play_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=frame_conn_next
# Ten million frames over each transport: best in a build with sanitizers.
play: all %D%/test_play %D%/plenumd-counted
	$(AM_TESTS_ENVIRONMENT) PLAY_FRAMES="$${PLAY_FRAMES-10000000}" %D%/test_play
phony += play
%C%_test_threads_CFLAGS = $(test_cflags)
%C%_test_threads_LDADD = tests/libtree.la libdist/libdist.la -ldl $(JPEG_LIBS) $(PNG_LIBS)

EXTRA_DIST += tests/lib.sh %D%/collectives/test_comm.sh %D%/collectives/test_hosts.sh tests/launcher/hosts_here/agent tests/launcher/hosts_here/mpirun
TESTS += %D%/collectives/test_comm.sh %D%/collectives/test_hosts.sh
check_PROGRAMS += %D%/collectives/comm_world
%C%_collectives_comm_world_SOURCES = %D%/collectives/comm_world.c
%C%_collectives_comm_world_LDFLAGS = $(AM_LDFLAGS) -no-install -export-dynamic
if MPI
%C%_collectives_comm_world_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS) -DWITH_MPI
%C%_collectives_comm_world_LDADD = libplenum.la $(MPI_LIBS)
else
%C%_collectives_comm_world_LDADD = libplenum.la
endif

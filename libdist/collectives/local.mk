# SPDX-License-Identifier: MIT
# libdist/collectives/: collectives, with their carriers: memory of one host in libplenum, MPI in libplenum-mpi.so, which
# libplenum loads on demand.
noinst_LTLIBRARIES += %D%/libcollectives.la
%C%_libcollectives_la_SOURCES = %D%/combine.c %D%/combine.h %D%/combine_avx2.c %D%/combine_halves.c %D%/combine_loops.h %D%/combine_loops.inc \
	%D%/combine_portable.c %D%/comm.c %D%/comm_finalize.c %D%/comm_header.c %D%/comm_header.h %D%/comm_hosts.c %D%/comm_hosts.h %D%/comm_hosts_wait.c \
	%D%/comm_local.c %D%/comm_moved.c \
	%D%/comm_moved.h %D%/comm_phases.c %D%/comm_priv.h %D%/comm_tcp.c \
	%D%/comm_tcp.h %D%/comm_tcp_meet.c %D%/comm_tcp_priv.h %D%/comm_tree.c %D%/comm_tree.h %D%/missing.c %D%/missing.h

if MPI
lib_LTLIBRARIES += libplenum-mpi.la
libplenum_mpi_la_SOURCES = %D%/comm_mpi.c %D%/comm_priv.h %D%/missing.c %D%/missing.h \
	%D%/rendezvous.c %D%/rendezvous.h
libplenum_mpi_la_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS) $(PMIX_CFLAGS)
libplenum_mpi_la_LIBADD = common/libcommon.la $(MPI_LIBS) $(PMIX_LIBS)
libplenum_mpi_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version
endif

# bench/: how fast, beside others. Always built, so that it keeps compiling; `make bench` builds it alone.
bench_programs =
if MPI
bench_programs += %D%/comm
%C%_comm_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
%C%_comm_LDADD = libplenum.la common/libcommon.la $(MPI_LIBS)
%C%_comm_LDFLAGS = $(AM_LDFLAGS) -no-install
endif
noinst_PROGRAMS += $(bench_programs)
bench: $(bench_programs)
.PHONY: bench

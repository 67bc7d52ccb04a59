# SPDX-License-Identifier: MIT
# bench/: benchmarks and comparisons. They are always built, so that they keep compiling; `make bench` builds only them.
noinst_LTLIBRARIES += %D%/libbench.la
%C%_libbench_la_SOURCES = %D%/bench.c %D%/bench.h
%C%_libbench_la_LIBADD = loader/image/libimage.la common/libcommon.la

bench_programs = %D%/cache %D%/index %D%/loops %D%/net %D%/normalise %D%/pace %D%/prepare %D%/render %D%/sampling %D%/scale %D%/slow_store %D%/stages %D%/stall %D%/stop %D%/stream
noinst_PROGRAMS += $(bench_programs)
bench: $(bench_programs)
phony += bench

bench_libs = %D%/libbench.la loader/image/libimage.la common/libcommon.la $(JPEG_LIBS) $(PNG_LIBS)

%C%_prepare_SOURCES = %D%/prepare.c %D%/ffcv.h
%C%_prepare_LDADD = $(bench_libs) -lm

%C%_render_SOURCES = %D%/bench_render.c %D%/render_rows.c %D%/render_rows.h %D%/forms.c %D%/forms.h %D%/ffcv.h
%C%_render_CFLAGS = $(AM_CFLAGS) $(JPEG_CFLAGS) $(PNG_CFLAGS) $(WEBP_CFLAGS) $(AVIF_CFLAGS)
%C%_render_LDADD = $(bench_libs) $(WEBP_LIBS) $(AVIF_LIBS)
# FFCV's method needs a C++ compiler, TurboJPEG and OpenCV; without them its row is left out. It is a separate library
# because a program with a C++ source is linked by the C++ compiler, even where there is none.
if FFCV_WAY
noinst_LTLIBRARIES += %D%/libffcv.la
%C%_libffcv_la_SOURCES = %D%/ffcv.cc %D%/ffcv.h
%C%_libffcv_la_CXXFLAGS = -std=gnu++14 -fvisibility=hidden $(SAN_CFLAGS) $(FFCV_WAY_CFLAGS)
%C%_prepare_LDADD += %D%/libffcv.la $(FFCV_WAY_LIBS) -lstdc++
%C%_render_LDADD += %D%/libffcv.la $(FFCV_WAY_LIBS) -lstdc++
endif

# bench/instructions counts the instructions of its loops.
%C%_loops_LDADD = $(bench_libs)

%C%_stages_SOURCES = %D%/stages.c %D%/operations.c %D%/operations.h
%C%_stages_CFLAGS = $(AM_CFLAGS) $(JPEG_CFLAGS)
%C%_stages_LDADD = $(bench_libs)

%C%_sampling_LDADD = common/libcommon.la

%C%_scale_SOURCES = %D%/bench_scale.c %D%/scale_hosts.c %D%/scale_hosts.h
%C%_scale_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
%C%_scale_LDADD = launcher/liblauncher.la

%C%_slow_store_LDADD = common/libcommon.la

%C%_cache_SOURCES = %D%/bench_cache.c
%C%_cache_LDADD = loader/cache/libcache.la common/libcommon.la

%C%_index_SOURCES = %D%/bench_index.c
%C%_index_LDADD = tests/libdaemon.la %D%/libbench.la libdist/libdist.la $(loader_libs) -ldl $(JPEG_LIBS) $(PNG_LIBS)

%C%_net_LDADD = tests/libdaemon.la %D%/libbench.la libdist/libdist.la $(loader_libs) -ldl $(JPEG_LIBS) $(PNG_LIBS)

%C%_normalise_SOURCES = %D%/bench_normalise.c
%C%_normalise_LDADD = %D%/libbench.la libdist/libdist.la loader/image/libimage.la common/libcommon.la -ldl $(JPEG_LIBS) $(PNG_LIBS)

%C%_stall_LDADD = tests/libdaemon.la %D%/libbench.la libdist/libdist.la $(loader_libs) -ldl $(JPEG_LIBS) $(PNG_LIBS)

%C%_pace_SOURCES = %D%/bench_pace.c
%C%_pace_LDADD = launcher/liblauncher.la libdist/libdist.la -ldl

%C%_stop_SOURCES = %D%/bench_stop.c
%C%_stop_LDADD = libdist/libdist.la common/libcommon.la -ldl

%C%_stream_SOURCES = %D%/bench_stream.c
%C%_stream_LDADD = tests/libdaemon.la %D%/libbench.la libdist/libdist.la $(loader_libs) -ldl $(JPEG_LIBS) $(PNG_LIBS)

# Compares collectives with MPI's own: mpirun -n 2 bench/comm
if MPI
bench_programs += %D%/comm
%C%_comm_SOURCES = %D%/bench_comm.c
%C%_comm_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
%C%_comm_LDADD = libplenum.la common/libcommon.la $(MPI_LIBS)
%C%_comm_LDFLAGS = $(AM_LDFLAGS) -no-install
endif
EXTRA_DIST += %D%/README.md %D%/accuracy.py %D%/columns.py %D%/count.c %D%/device %D%/hostile %D%/instructions %D%/normalise_torch.py %D%/peers/boxes.py %D%/peers/collectives %D%/peers/compare %D%/peers/detection.py %D%/peers/elastic %D%/peers/forms.py %D%/peers/peers.py %D%/peers/recipes.py %D%/peers/sharing.py %D%/peers/sampling %D%/python_iteration.py %D%/reshape.py %D%/startup %D%/stores.py %D%/sweep %D%/peers/between_hosts

# bench/: how fast, beside others. Always built, so that it keeps compiling; `make bench` builds it alone.
noinst_LTLIBRARIES += %D%/libbench.la
%C%_libbench_la_SOURCES = %D%/bench.c %D%/bench.h
%C%_libbench_la_LIBADD = loader/image/libimage.la common/libcommon.la

bench_programs = %D%/render %D%/stages
noinst_PROGRAMS += $(bench_programs)
bench: $(bench_programs)
.PHONY: bench

bench_libs = %D%/libbench.la loader/image/libimage.la common/libcommon.la $(JPEG_LIBS) $(PNG_LIBS)

# FFCV's way needs a C++ compiler, TurboJPEG and OpenCV; without them its row is left out.
%C%_render_SOURCES = %D%/render.c %D%/ffcv.h
%C%_render_CFLAGS = $(AM_CFLAGS) $(JPEG_CFLAGS)
%C%_render_LDADD = $(bench_libs)
if FFCV_WAY
%C%_render_SOURCES += %D%/ffcv.cc
%C%_render_CXXFLAGS = -std=gnu++14 -fvisibility=hidden $(SAN_CFLAGS) $(FFCV_WAY_CFLAGS)
%C%_render_LDADD += $(FFCV_WAY_LIBS)
endif

%C%_stages_CFLAGS = $(AM_CFLAGS) $(JPEG_CFLAGS)
%C%_stages_LDADD = $(bench_libs)

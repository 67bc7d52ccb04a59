# SPDX-License-Identifier: MIT
# loader/ctl/: plenumctl, with one file per subcommand.
# Sample images must be the same on every machine, so they are painted without fused multiply-add.
noinst_LTLIBRARIES += %D%/libscene.la
%C%_libscene_la_SOURCES = %D%/scene.c %D%/scene.h
%C%_libscene_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off

bin_PROGRAMS += plenumctl
plenumctl_SOURCES = \
	%D%/cmd_bench.c \
	%D%/cmd_cache.c \
	%D%/ctl.c %D%/ctl.h \
	%D%/font.c %D%/font.h \
	%D%/cmd_hash.c \
	%D%/cmd_index.c \
	%D%/cmd_job.c \
	%D%/cmd_key.c \
	%D%/plenumctl.c \
	%D%/cmd_make_sample.c \
	%D%/cmd_order.c \
	%D%/cmd_pack.c \
	%D%/plan_fetch.c %D%/plan_fetch.h \
	%D%/pack_job.c %D%/pack_job.h \
	%D%/pack_record.c %D%/pack_record.h \
	%D%/pack_report.c %D%/pack_report.h \
	%D%/cmd_plan.c \
	%D%/plan_jobs.c %D%/plan_jobs.h \
	%D%/plan_shares.c %D%/plan_shares.h \
	%D%/cmd_preview.c \
	%D%/html.c %D%/html.h \
	%D%/preview_fields.c %D%/preview_fields.h \
	%D%/preview_html.c %D%/preview_html.h \
	%D%/cmd_sample.c \
	%D%/screen.c %D%/screen.h \
	%D%/cmd_status.c \
	%D%/cmd_trace.c \
	%D%/cmd_verify.c
plenumctl_CFLAGS = $(AM_CFLAGS) $(XXH_CFLAGS)
plenumctl_LDADD = %D%/libscene.la libdist/libdist.la $(loader_libs) -ldl $(JPEG_LIBS) $(PNG_LIBS)

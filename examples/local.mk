# SPDX-License-Identifier: MIT
# examples/: programs to start from, built with only the public headers. feed is a tool: it consumes batches, counts and hashes them.
noinst_PROGRAMS += %D%/collectives %D%/feed %D%/hello %D%/poll %D%/train
%C%_collectives_SOURCES = %D%/collectives.c
%C%_collectives_CPPFLAGS = -I$(top_srcdir)/include
%C%_collectives_LDADD = libplenum.la
%C%_collectives_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_feed_SOURCES = %D%/feed.c
%C%_feed_CPPFLAGS = -I$(top_srcdir)/include
%C%_feed_LDADD = libplenum.la
# -no-install: the program runs from the build folder without libtool's wrapper script.
%C%_feed_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_hello_SOURCES = %D%/hello.c
%C%_hello_CPPFLAGS = -I$(top_srcdir)/include
%C%_hello_LDADD = libplenum.la
%C%_hello_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_poll_SOURCES = %D%/poll.c
%C%_poll_CPPFLAGS = -I$(top_srcdir)/include
%C%_poll_LDADD = libplenum.la
%C%_poll_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_train_SOURCES = %D%/train.c
%C%_train_CPPFLAGS = -I$(top_srcdir)/include
%C%_train_LDADD = libplenum.la -lm
%C%_train_LDFLAGS = $(AM_LDFLAGS) -no-install

# Installed for users to start from.
exampledir = $(docdir)/examples
dist_example_DATA = %D%/balance.py %D%/clip.py %D%/collectives.c %D%/detect.py %D%/feed.c %D%/hello.c %D%/hello.py %D%/names.py %D%/numpy_feed.py %D%/poll.c \
	%D%/resume.py %D%/segment.py %D%/shapes.py %D%/simclr.py %D%/sum.py %D%/train.c %D%/train.py
containersdir = $(exampledir)/containers
dist_containers_DATA = %D%/containers/Containerfile.loader %D%/containers/Containerfile.training
kubernetesdir = $(exampledir)/kubernetes
dist_kubernetes_DATA = %D%/kubernetes/job-mpi.yaml %D%/kubernetes/job-torchrun.yaml %D%/kubernetes/loader-daemonset.yaml %D%/kubernetes/loader-service.yaml
frameworksdir = $(exampledir)/frameworks
dist_frameworks_DATA = %D%/frameworks/accelerate_photos.py %D%/frameworks/jax_photos.py %D%/frameworks/keras_photos.py \
	%D%/frameworks/lightning_photos.py %D%/frameworks/log_stats.py %D%/frameworks/nvrx_photos.py %D%/frameworks/timm_photos.py %D%/frameworks/torchft_photos.py \
	%D%/frameworks/torchvision_photos.py
